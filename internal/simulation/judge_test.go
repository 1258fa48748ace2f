package simulation

import (
	"fmt"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// judge follows every change of the table beside an exact bucket per shard, in
// integers: levels are counted in millitokens times the limit's period, which never
// changes in a world, so nothing is rounded. What is stored may be lower than that
// near full, by what others took since a writer's image; it may never be higher, but
// for what was given back, of which older images do not know.
type judge struct {
	w       *world
	seq     int64
	buckets map[string]*judged   // by entity
	counted map[string]int64     // what the counters have grown by: entity, limit and window
	begun   map[generation]int64 // the change that began a generation
}

// generation is one of an item.
type generation struct {
	pk     string
	number int64
}

// judged is one bucket.
type judged struct {
	entity  string
	shards  map[int]*judgedShard
	limits  map[string]*judgedLimit
	longest int64 // that a call was on its way to it, ms
	merged  bool  // shards of it have merged
	given   int64 // when the administration last filled it, epoch ms
	slow    int64 // that a granted call took, ms
	dropped bool  // an item of it was deleted while it was not full
}

type judgedShard struct {
	image table.Shard
	exact map[string]*exact
}

// judgedLimit is what happened to a limit of a bucket.
type judgedLimit struct {
	period, capacity, amount int64 // the most that was ever in force
	sum, low                 int64 // see granted
	surplus, surplusAt       int64 // the most that had been given back, and not taken, in the last seconds
	begun                    bool
	begin                    int64
	whole                    exact
}

// exact is the level of one limit on one shard without any loss.
type exact struct {
	bucket.Rate
	level, at  int64
	pool, back int64 // given back: and not taken again, and in this generation
	due        int64 // the level if nothing is taken from the pool
}

func newExact(r bucket.Rate, now int64) *exact {
	return &exact{Rate: r, level: r.Capacity * r.Period, due: r.Capacity * r.Period, at: now}
}

func (e *exact) to(now int64) int64 {
	if now > e.at {
		e.level += (now - e.at) * e.Amount
		e.due += (now - e.at) * e.Amount
		e.at = now
	}
	e.level = min(e.level, e.Capacity*e.Period)
	e.due = min(e.due, e.Capacity*e.Period)
	return e.level
}

// take takes milli, or gives them back if negative.
func (e *exact) take(now, milli int64) {
	e.to(now)
	e.level -= milli * e.Period
	e.due -= milli * e.Period
	if milli < 0 {
		e.pool -= milli * e.Period
		e.back -= milli * e.Period
		return
	}
	if e.level < 0 && e.pool > 0 {
		from := min(-e.level, e.pool)
		e.pool, e.level = e.pool-from, e.level+from
	}
}

// levelAt is what slot i of a state holds at now, in the judge's unit.
func levelAt(s bucket.State, i int, now int64) int64 {
	sl, r := s.Slots[i], s.Rate(i)
	return min(sl.Tokens*sl.Period+sl.Rest+max(now-s.RF, 0)*r.Amount, r.Capacity*sl.Period)
}

func newJudge(w *world) *judge {
	return &judge{w: w, buckets: map[string]*judged{}, counted: map[string]int64{}, begun: map[generation]int64{}}
}

func (j *judge) of(pk string) (*judged, int) {
	_, entity, _, shard, ok := layout.ParseBucketPK(pk)
	if !ok {
		return nil, 0
	}
	return j.bucket(entity), shard
}

func (j *judge) bucket(entity string) *judged {
	b := j.buckets[entity]
	if b == nil {
		b = &judged{entity: entity, shards: map[int]*judgedShard{}, limits: map[string]*judgedLimit{}}
		j.buckets[entity] = b
	}
	return b
}

func (b *judged) limit(l bucket.Limit, now int64) *judgedLimit {
	jl := b.limits[l.Name]
	if jl == nil {
		jl = &judgedLimit{period: l.Period, begin: now}
		jl.whole = *newExact(bucket.Rate{Capacity: l.Capacity, Amount: l.Amount, Period: l.Period}, now)
		b.limits[l.Name] = jl
	}
	jl.whole.to(now)
	jl.capacity, jl.amount = max(jl.capacity, l.Capacity), max(jl.amount, l.Amount)
	jl.whole.Capacity, jl.whole.Amount = jl.capacity, jl.amount
	return jl
}

// follow takes in what one call has changed. The world's lock is held.
func (j *judge) follow(n *network, o *op, sent int64, changes []memdynamo.Change) {
	for i := 0; i < len(changes); i++ {
		c := changes[i]
		j.seq = c.Seq
		j.w.record(c)
		if c.Key.SK != layout.SKBucketState {
			continue
		}
		b, shard := j.of(c.Key.PK)
		if b == nil {
			continue
		}
		if o != nil && o.kind != "wait" {
			sent = min(sent, o.began) // it was planned since then
		} else if o == nil && j.w.faulty > 0 {
			sent -= 1000 // it may have been throttled, and sent again
		}
		if n != nil && c.CreatedAt-sent > b.longest {
			b.longest = c.CreatedAt - sent
		}
		after, ok := j.decode(c)
		if !ok {
			continue
		}
		var next memdynamo.Change
		if i+1 < len(changes) {
			next = changes[i+1]
		}
		was := b.shards[shard]
		switch {
		case c.New == nil:
			j.gone(b, shard, c, next)
			continue
		case was != nil && after.State.Shards > was.image.State.Shards && next.New != nil && next.Old == nil &&
			next.Key.SK == layout.SKBucketState:
			if moved, ok := j.decode(next); ok {
				j.split(b, c, after, moved)
				j.seq, i = next.Seq, i+1
				j.w.record(next)
				j.count(next, moved, table.Shard{}, nil, nil)
				b.shards[moved.State.Shard].image = moved
			}
		}
		j.change(b, c, after, n, o, sent)
	}
	j.sharesAddUp()
}

// decode reads the new image; one that cannot be read is a broken promise.
func (j *judge) decode(c memdynamo.Change) (table.Shard, bool) {
	if c.New == nil {
		return table.Shard{}, true
	}
	b, err := table.DecodeShard(c.New)
	if err != nil || len(b.Partial) > 0 || b.State.NoClock || b.State.Index(bucket.WCU) < 0 || b.NoShardCount {
		j.w.violated("W6: %s: a bucket item that is not whole was left behind: %v", c.Key.PK, err)
		return b, false
	}
	if old, err := table.DecodeShard(c.Old); err != nil || old.Generation != b.Generation {
		g := generation{c.Key.PK, b.Generation}
		if before, ok := j.begun[g]; ok && before != c.Seq && b.Generation != 0 {
			j.w.violated("I1: %s: the generation %d came back", c.Key.PK, b.Generation)
		}
		j.begun[g] = c.Seq
	}
	return b, true
}

// split moves what the new shard holds to it.
func (j *judge) split(b *judged, c memdynamo.Change, keep, moved table.Shard) {
	refs := map[string]*exact{}
	from := b.shards[keep.State.Shard]
	for i, sl := range moved.State.Slots {
		if !judges(sl.Limit) {
			continue
		}
		level := levelAt(moved.State, i, c.CreatedAt)
		if f := from.exact[sl.Name]; f != nil {
			f.level = f.to(c.CreatedAt) - level
		}
		refs[sl.Name] = newExact(moved.State.Rate(i), c.CreatedAt)
		refs[sl.Name].level, refs[sl.Name].due = level, level
	}
	b.shards[moved.State.Shard] = &judgedShard{exact: refs, image: moved}
	j.w.stats.splits++
}

// gone forgets a shard; what it held goes to the shard that the same transaction
// has changed.
func (j *judge) gone(b *judged, shard int, c, next memdynamo.Change) {
	was := b.shards[shard]
	delete(b.shards, shard)
	if was == nil {
		return
	}
	into, k := j.of(next.Key.PK)
	if next.New == nil || into != b || b.shards[k] == nil {
		if !c.Expired {
			b.dropped = true
		}
		return
	}
	j.w.stats.merges++
	b.merged = true
	keep := b.shards[k]
	for _, cl := range j.w.clients {
		for limit, milli := range cl.paid[c.Key.PK] {
			cl.pays(next.Key.PK, limit, milli)
		}
		delete(cl.paid, c.Key.PK)
	}
	after, ok := j.decode(next)
	if !ok {
		return
	}
	for name := range was.exact { // what the kept shard was not charged for yet, it has in full
		if i := after.State.Index(name); i >= 0 && keep.exact[name] == nil {
			keep.exact[name] = newExact(keep.image.State.RateOf(after.State.Slots[i].Limit), c.CreatedAt)
		}
	}
	for name, to := range keep.exact {
		from := was.exact[name]
		if from == nil {
			from = &exact{}
			if i := after.State.Index(name); i >= 0 {
				from = newExact(was.image.State.RateOf(after.State.Slots[i].Limit), c.CreatedAt)
			}
		}
		level := to.to(c.CreatedAt) + from.to(c.CreatedAt)
		if i := after.State.Index(name); i >= 0 {
			to.Rate = after.State.Rate(i)
		}
		to.level, to.back = level, max(to.back, to.pool)+max(from.back, from.pool)
	}
}

// change takes in one change of one shard.
func (j *judge) change(b *judged, c memdynamo.Change, after table.Shard, n *network, o *op, sent int64) {
	now, shard := c.CreatedAt, after.State.Shard
	s := b.shards[shard]
	if s == nil {
		s = &judgedShard{exact: map[string]*exact{}}
		b.shards[shard] = s
		switch {
		case b.shards[1] != nil || shard > 1: // it was deleted while others lived on, and comes back empty
			j.w.stats.restored++
			s.restore(after.State, now)
		case shard == 0 && b.dropped: // deleted, and begun anew: full
			b.dropped = false
			for _, l := range b.limits {
				j.back(l, l.capacity*l.period)
			}
		}
	}
	before := s.image
	s.image = after
	for i, sl := range after.State.Slots {
		if !judges(sl.Limit) {
			continue
		}
		e := s.exact[sl.Name]
		if e == nil {
			e = newExact(after.State.Rate(i), now)
			s.exact[sl.Name] = e
		}
		e.to(now)
		e.Rate = after.State.Rate(i)
	}
	j.count(c, after, before, n, o)
	if j.w.kinds != nil {
		j.w.kinds.changed(b, c, before, after, o)
	}
	for _, sl := range before.State.Slots {
		if e := s.exact[sl.Name]; e != nil && after.State.Index(sl.Name) < 0 {
			r := before.State.RateOf(sl.Limit)
			if n != nil && n == j.w.manager { // whoever takes a limit away does so whatever it holds
				j.back(b.limit(sl.Limit, now), sl.Capacity*sl.Period)
			} else if e.to(now)+j.returned(b, sl.Name)+b.allowance(j, sl.Name) < r.Capacity*r.Period {
				j.w.violated("I1: %s: limit %s was dropped that is not full: it holds %s", c.Key.PK, sl.Name,
					show(e.level, e.Period))
			}
			delete(s.exact, sl.Name)
		}
	}
	for i, sl := range after.State.Slots {
		if judges(sl.Limit) {
			j.level(b, s, c, before, i, n, o)
		}
	}
}

// restore makes the exact levels those of a shard that holds nothing.
func (s *judgedShard) restore(state bucket.State, now int64) {
	for i, sl := range state.Slots {
		e := newExact(state.Rate(i), now)
		e.level, e.due = 0, 0
		s.exact[sl.Name] = e
	}
}

// level checks what slot i holds after a change.
func (j *judge) level(b *judged, s *judgedShard, c memdynamo.Change, before table.Shard, i int, n *network, o *op) {
	now, after := c.CreatedAt, s.image
	sl := after.State.Slots[i]
	e, level := s.exact[sl.Name], levelAt(after.State, i, now)
	if n != nil && n.gives { // the administration fills buckets
		if more := level - e.to(now); more > 0 {
			e.level = level
			b.given = now
			j.back(b.limit(sl.Limit, now), more)
		}
	}
	if most := e.to(now) + j.returned(b, sl.Name) + b.allowance(j, sl.Name); level > most {
		j.w.violated("I2: %s: a write made tokens: %s of %s, exactly %s, and %s given back; %v -> %v", c.Key.PK,
			show(level, sl.Period), sl.Name, show(e.level, sl.Period), show(j.returned(b, sl.Name), sl.Period),
			before.State, after.State)
	}
	if before.Generation != after.Generation { // images from before it count no more
		e.level, e.due, e.back = level, level, 0
		return
	}
	// Near full a level may be shown lower than it is by what others took since the
	// writer's image, up to the slack, and by the room that is left for plain adds. Who has
	// no time for a second write shows it as low as its image makes it (see Options.Slack).
	full := e.Capacity * e.Period
	if n != nil && now <= n.hurried.Load() {
		e.due = min(e.due, level)
		return
	}
	least := e.due - full*(j.w.slack+j.w.slack*2/5)/100 - b.allowance(j, sl.Name) - 2*sl.Period
	// What a charge gives back first does not go beyond the capacity. Example: 4 of 6, 4 are given back and 4 are
	// taken: 2 are left.
	if by := j.w.client(n, o); by != nil && level < least &&
		level >= least-by.mayHaveBack(after.Entity, sl.Name)*sl.Period {
		e.due = level
		return
	}
	if level < least {
		j.w.violated("I6: %s: a write lost tokens: %s of %s, exactly %s; %v -> %v", c.Key.PK,
			show(level, sl.Period), sl.Name, show(e.due, sl.Period), before.State, after.State)
	}
}

// count takes in how the counters have grown.
func (j *judge) count(c memdynamo.Change, after, before table.Shard, n *network, o *op) {
	b := j.bucket(after.Entity)
	for _, sl := range after.State.Slots {
		if sl.Name == bucket.WCU || sl.InFlight {
			continue
		}
		grown := sl.Used
		if k := before.State.Index(sl.Name); k >= 0 {
			grown -= before.State.Slots[k].Used
		}
		if sl.Renews() {
			j.window(c.CreatedAt, after.Entity, sl.Name, grown)
			continue
		}
		by := j.w.client(n, o)
		if by != nil {
			by.gaveBack(after.Entity, sl.Name, max(0, -grown))
		}
		l := b.limit(sl.Limit, c.CreatedAt)
		if grown == 0 {
			continue
		}
		if more := max(j.returned(b, sl.Name), l.whole.pool); more >= l.surplus || c.CreatedAt-l.surplusAt > 3000 {
			l.surplus, l.surplusAt = more, c.CreatedAt
		}
		if e := b.shards[after.State.Shard].exact[sl.Name]; e != nil {
			e.take(c.CreatedAt, grown)
		}
		l.whole.take(c.CreatedAt, grown)
		if grown < 0 {
			j.back(l, -grown*sl.Period)
		}
		j.window(c.CreatedAt, after.Entity, sl.Name, grown)
		if by != nil {
			by.grew(j, c.Key.PK, after.Entity, sl.Name, grown)
		} else if n != nil {
			j.w.violated("I4: %s: %s grew by %d outside of any call", c.Key.PK, sl.Name, grown)
		}
	}
}

// client is the one that a write is of: of a call, or of a settlement that was handed over and goes alone.
func (w *world) client(n *network, o *op) *client {
	if o != nil {
		return o.client
	}
	for _, c := range w.clients {
		if c.network == n && c.hands() {
			return c
		}
	}
	return nil
}

// judges reports whether a limit is one of the rates that the judge follows.
func judges(l bucket.Limit) bool { return l.Name != bucket.WCU && l.Refills() }

// window takes the growth of a counter into what is counted for usage.
func (j *judge) window(now int64, entity, limit string, grown int64) {
	for _, window := range usageWindows {
		j.counted[usageName(entity, limit, window.Part(window.Start(now)))] += grown
	}
}

// returned is what was given back and may be had on top of what the exact shards
// hold.
func (j *judge) returned(b *judged, limit string) (sum int64) {
	for _, s := range b.shards {
		if e := s.exact[limit]; e != nil {
			sum += max(e.pool, e.back)
		}
	}
	return sum
}

// planned is how much older than its sending a write may be, ms: it may have been
// planned before another call was made.
const planned = 8

// allowance is the refill of the time by which clocks differ and writes were on
// their way since they were planned.
func (b *judged) allowance(j *judge, limit string) int64 {
	l := b.limits[limit]
	if l == nil {
		return 0
	}
	return l.amount * (b.longest + j.w.spread.Milliseconds() + planned)
}

// granted records what a caller was granted, and checks that no window admits more
// than the limit allows (I1). Windows are cut as in package buckettest: the excess
// of a window is the difference of two functions of its ends,
//
//	(sum at the end - refill until then) - capacity
//	  - (sum before its begin - refill until then + what was given back before)
//
// so the smallest second term so far is enough to know.
func (j *judge) granted(entity, limit string, began, now, milli, slow int64) {
	b := j.bucket(entity)
	b.slow = max(b.slow, slow)
	l := b.limits[limit]
	if l == nil || milli == 0 {
		return
	}
	if b.given >= began { // who was waiting then has been forgiven his debt
		return
	}
	refill := (now - l.begin) * l.amount
	more := max(j.returned(b, limit), l.whole.pool)
	if now-l.surplusAt < 3000 { // what this call took may have been part of it
		more = max(more, l.surplus)
	}
	start := l.sum - refill + more
	if !l.begun || start < l.low {
		l.low, l.begun = start, true
	}
	l.sum += milli * l.period
	allowed := l.capacity*l.period + l.amount*(b.longest+j.w.spread.Milliseconds()+b.slow+planned)
	for _, c := range j.w.clients {
		allowed += c.mayHaveBack(entity, limit) * l.period
	}
	if x := l.sum - refill - l.low; x > allowed {
		j.w.violated("I1: %s %s: %s more granted than the limit allows in a window", entity, limit,
			show(x-allowed, l.period))
	}
}

// back records that tokens were given back. No window that begins here is worse than
// the one that begins with the next grant.
func (j *judge) back(l *judgedLimit, amount int64) { l.sum -= amount }

// sharesAddUp checks I3: the shares of the shards that exist are at most the whole.
func (j *judge) sharesAddUp() {
	for _, b := range j.buckets {
		whole := int64(0)
		for k, s := range b.shards {
			whole += bucket.Share(1<<20, k, s.image.State.Count())
		}
		if whole > 1<<20 {
			counts := map[int]int{}
			for k, s := range b.shards {
				counts[k] = s.image.State.Shards
			}
			j.w.violated("I3: %s: the shares add up to %.3f of the whole: %v", b.entity, float64(whole)/(1<<20), counts)
		}
	}
}

func show(level, period int64) string {
	return fmt.Sprintf("%.3f", float64(level)/float64(period)/bucket.Milli)
}

// returns are what a settlement under way gives back, by entity and limit, less what writes that gave back in all
// have shown: the rest rides with a charge, if the settlement succeeds. Written are the entities that its client has
// written to meanwhile.
type returns struct {
	milli   map[[2]string]int64
	written map[string]bool
}

// gaveBack notes a write of a client, which gave back so much in all.
func (c *client) gaveBack(entity, limit string, milli int64) {
	for _, r := range c.returning {
		r.written[entity] = true
		k := [2]string{entity, limit}
		seen := min(r.milli[k], milli)
		r.milli[k] -= seen
		milli -= seen
	}
}

// mayHaveBack is what charges of a client may have given back besides what they took.
func (c *client) mayHaveBack(entity, limit string) (milli int64) {
	for _, r := range c.returning {
		if r.written[entity] {
			milli += r.milli[[2]string{entity, limit}]
		}
	}
	return milli
}

// returned ends a settlement. What it has given back and no write has shown has gone with a charge.
func (c *client) returned(j *judge, r *returns, err error) {
	c.returning = slices.DeleteFunc(c.returning, func(o *returns) bool { return o == r })
	for k, milli := range r.milli {
		if l := j.bucket(k[0]).limits[k[1]]; l != nil && err == nil && r.written[k[0]] {
			j.back(l, milli*l.period)
		}
	}
}

// account is what the calls of a client have told their callers to be charged, and
// what they have charged, of one limit of one entity.
type account struct{ least, most, grown int64 }

// grew notes what a write of a client has charged.
func (c *client) grew(j *judge, pk, entity, limit string, grown int64) {
	c.account(entity, limit).grown += grown
	c.pays(pk, limit, grown)
	if j.bucket(entity).merged && c.paidInAll(j, entity, limit) >= 0 {
		return // its shard has merged, and perhaps split again
	}
	if c.paid[pk][limit] < 0 && !j.w.deleted[entity] {
		j.w.violated("W11: %s: client %d was given back %d more millitokens of %s than it has paid there", pk, c.id,
			-c.paid[pk][limit], limit)
	}
}

func (c *client) paidInAll(j *judge, entity, limit string) (milli int64) {
	for pk, paid := range c.paid {
		if b, _ := j.of(pk); b != nil && b.entity == entity {
			milli += paid[limit]
		}
	}
	return milli
}

func (c *client) pays(pk, limit string, milli int64) {
	if c.paid[pk] == nil {
		c.paid[pk] = map[string]int64{}
	}
	c.paid[pk][limit] += milli
}

func (c *client) account(entity, limit string) *account {
	k := [2]string{entity, limit}
	if c.accounts[k] == nil {
		c.accounts[k] = &account{}
	}
	return c.accounts[k]
}

// told notes what a caller was told: what was charged, or given back if negative,
// for certain or perhaps. Amounts are in tokens.
func (c *client) told(entity string, costs map[string]int64, certain bool) {
	for limit, n := range costs {
		if limit == quotaName || limit == slotsName {
			continue // whose periods and epochs end: see kindsJudge
		}
		a, milli := c.account(entity, limit), n*bucket.Milli
		if certain {
			a.least, a.most = a.least+milli, a.most+milli
		} else {
			a.least, a.most = a.least+min(milli, 0), a.most+max(milli, 0)
		}
	}
}

// settled checks an idle client's accounts (I4): what callers were told is what was
// charged, on every entity.
func (c *client) settled(w *world) {
	for _, k := range slices.SortedFunc(maps.Keys(c.accounts), func(a, b [2]string) int {
		return slices.Compare(a[:], b[:])
	}) {
		a := c.accounts[k]
		if a.grown < a.least || a.grown > a.most {
			w.violated("I4: client %d: callers were told that %s %s was charged %d to %d millitokens, it was charged %d",
				c.id, k[0], k[1], a.least, a.most, a.grown)
		}
	}
}

// keyed returns the stored shard of a partition key.
func (j *judge) keyed(pk string) *table.Shard {
	b, shard := j.of(pk)
	if b == nil || b.shards[shard] == nil {
		return nil
	}
	return &b.shards[shard].image
}

// used returns the counters of rpm by shard.
func (j *judge) used(entity string) map[int]int64 {
	out := map[int]int64{}
	for k, s := range j.bucket(entity).shards {
		if i := s.image.State.Index("rpm"); i >= 0 {
			out[k] = s.image.State.Slots[i].Used
		}
	}
	return out
}
