package shard_test

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const (
	namespace = "ns"
	entity    = "acme"
	resource  = "gpt"
	maxShards = 8
	epoch     = int64(1_700_000_000_000)
)

func bucketKey(shard int) item.Key { return layout.BucketKey(namespace, entity, resource, shard) }

// world is one bucket in a table in memory, the true time, and everything that
// is known about what rightly happened to it. Every call to the table is one
// step, and after every step the world checks that nothing was minted, nothing
// was lost that should not be, and the shares add up.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	draws  *rand.Rand // of what is drawn for new items
	now    int64
	db     *memdb.DB
	limits []bucket.Limit
	seed   uint64

	// exact holds when all clocks agree and no time passes between planning a
	// write and its execution: then not a fraction of a millitoken may be
	// minted, and none lost where the step promises so.
	exact   bool
	foreign bool         // foreign hands are at work: shards may be missing, counts may be wrong
	rounded bool         // another client refills too, and rounds
	owing   bool         // the call is planned from an image in debt, which may show more of it
	retro   []table.Cost // what the call takes as of the refill instant
	lives   []past       // earlier ones

	history map[string]*buckettest.History
	full    map[string]*buckettest.Reference // what may be held if give-backs are kept
	back    map[string]*big.Rat              // all that was given back
	opened  bool                             // a bucket exists or existed
	serial  int
	trace   []line
	decoded []bucket.State   // the stored shards, nil when not known
	begun   map[[2]int64]int // by shard and generation: the last look at the table that showed it
	looks   int

	longest                        int64 // that a call was on its way, in ms
	spread                         int64 // between the clock furthest ahead and the one furthest behind
	steps, refused, splits, merges int
	// how much lower than it is the call may leave the level
	late map[string]*big.Rat
	// the shards as they would be without any loss
	exactly        map[int]map[string]*buckettest.Reference
	worstSplitLoss *big.Rat
	violations     []string // in place of failing, for planted defects
	planted        bool
}

func newWorld(t *testing.T, seed uint64, limits []bucket.Limit) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 42)),
		draws: rand.New(rand.NewPCG(seed, 43)), now: epoch, limits: limits, exact: true,
		history: map[string]*buckettest.History{}, full: map[string]*buckettest.Reference{}, worstSplitLoss: new(big.Rat),
		back:    map[string]*big.Rat{},
		exactly: map[int]map[string]*buckettest.Reference{}, begun: map[[2]int64]int{},
	}
	w.db = memdb.New(func() int64 { return w.now })
	for _, l := range limits {
		w.history[l.Name] = &buckettest.History{}
		w.back[l.Name] = new(big.Rat)
		w.full[l.Name] = buckettest.NewReference(bucket.Rate{Capacity: l.Capacity, Amount: l.Amount,
			Period: l.Period}, w.now)
	}
	return w
}

// line is one entry of the trace.
type line struct {
	at     int64
	what   string
	shards []bucket.State
}

func (l line) String() string {
	s := fmt.Sprintf("t=%d %s", l.at-epoch, l.what)
	for _, st := range l.shards {
		s += fmt.Sprintf(" | %s@%d", st, st.RF-epoch)
	}
	return s
}

// shards returns the stored shards. The caller must not modify them.
func (w *world) shards() []bucket.State {
	if w.decoded != nil {
		return w.decoded
	}
	out := make([]bucket.State, 0, 8)
	var stored [][2]int64
	for _, it := range w.db.Items() {
		b, err := table.DecodeShard(it)
		if err != nil {
			w.t.Fatalf("seed %d: %v", w.seed, err)
		}
		if b.Generation != 0 {
			stored = append(stored, [2]int64{int64(b.State.Shard), b.Generation})
		}
		out = append(out, b.State)
	}
	w.decoded = out
	w.live(stored)
	return out
}

// live notes the generations that are stored; none that has ended comes back.
func (w *world) live(stored [][2]int64) {
	for _, g := range stored {
		if last, ok := w.begun[g]; ok && last < w.looks {
			w.violated("shard %d has the generation %d once more", g[0], g[1])
		}
		w.begun[g] = w.looks + 1
	}
	w.looks++
}

func (w *world) image(shard int) (table.Shard, bool) {
	it := w.db.Item(bucketKey(shard))
	if it == nil {
		return table.Shard{}, false
	}
	b, err := table.DecodeShard(it)
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
	return b, true
}

func (w *world) held() map[string]*big.Rat {
	all := w.shards()
	out := map[string]*big.Rat{}
	for _, l := range w.limits {
		out[l.Name] = buckettest.HeldAt(all, l.Name, w.now)
	}
	return out
}

// violated reports a broken promise, or notes it when a defect was planted.
func (w *world) violated(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	if w.planted {
		w.violations = append(w.violations, msg)
		return
	}
	w.t.Helper()
	for _, l := range w.trace {
		w.t.Log(l)
	}
	w.t.Fatalf("seed %d: %s", w.seed, msg)
}

// loss says how much less than expected a step may leave behind.
type loss int

const (
	nothing  loss = iota // not a fraction of a millitoken
	overflow             // what does not fit the capacity of its shard
)

// call performs writes as one call and checks what they did. costs is what the
// call takes if it holds; negative costs are given back. What is forced is not
// granted by a decision, and so not bound by I1; it only leaves less for others.
func (w *world) call(what string, costs []table.Cost, may loss, forced bool, writes ...item.Write) ([]item.Item,
	[]bool, error) {
	before, owed := w.held(), w.owed()
	was := w.shards()
	for _, l := range w.limits {
		w.history[l.Name].Surplus(w.now, w.full[l.Name].Pool())
	}
	w.decoded = nil
	var items []item.Item
	var refused []bool
	var err error
	if len(writes) == 1 {
		var it item.Item
		it, err = w.db.Write(w.t.Context(), writes[0])
		items, refused = []item.Item{it}, []bool{false}
		if r, ok := errors.AsType[*store.Refused](err); ok {
			items, refused = []item.Item{r.Old}, []bool{true}
		}
	} else {
		w.serial++
		err = w.db.Transact(w.t.Context(), fmt.Sprint("token-", w.serial), writes)
		items, refused = make([]item.Item, len(writes)), make([]bool, len(writes))
		if c, ok := errors.AsType[*store.Canceled](err); ok {
			for i, r := range c.Reasons {
				items[i], refused[i] = r.Old, r.Refused
			}
		}
	}
	if store.KindOf(err) != 0 {
		w.t.Fatalf("seed %d: %s: the write is invalid: %v", w.seed, what, err)
	}
	w.steps++
	if err != nil {
		w.refused++
		w.note("%s: refused", what)
		return items, refused, err
	}
	w.note("%s", what)
	w.account(what, before, costs, may, forced)
	w.follow(was, costs, writes)
	w.compare(what, may, writes)
	if now := w.owed(); w.exact && now > owed && !forced && !w.owing && (len(writes) == 1 || w.unequal(writes)) {
		w.violated("%s: shards owe %d millitokens, %d before: others may spend what they owe", what, now, owed)
	}
	w.sharesAddUp(what)
	return items, refused, nil
}

// owed returns the sum of all debts.
func (w *world) owed() int64 {
	var sum int64
	for _, s := range w.shards() {
		for _, sl := range s.Slots {
			if sl.Name != bucket.WCU {
				sum -= min(sl.Tokens, 0)
			}
		}
	}
	return sum
}

// unequal reports whether one of the two shards of a transaction owes what the other
// holds.
func (w *world) unequal(writes []item.Write) bool {
	a, _ := w.image(shardOf(writes[0]))
	b, _ := w.image(shardOf(writes[1]))
	for _, sl := range a.State.Slots {
		if j := b.State.Index(sl.Name); j >= 0 && sl.Name != bucket.WCU {
			low, high := min(sl.Tokens, b.State.Slots[j].Tokens), max(sl.Tokens, b.State.Slots[j].Tokens)
			if low < 0 && high > 0 {
				return true
			}
		}
	}
	return false
}

func shardOf(w item.Write) int {
	_, _, _, shard, _ := layout.ParseBucketPK(w.Target().PK)
	return shard
}

// traced is how many calls are shown with a broken promise.
const traced = 6

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, line{w.now, fmt.Sprintf(format, args...), w.shards()})
	w.trace = w.trace[max(0, len(w.trace)-traced):]
}

// account compares what the shards hold with what they should after a call.
func (w *world) account(what string, before map[string]*big.Rat, costs []table.Cost, may loss, forced bool) {
	created := !w.opened
	w.opened = true
	after := w.held()
	for _, l := range w.limits {
		due := new(big.Rat).Set(before[l.Name])
		if created {
			due = buckettest.Milli(l.Capacity)
		}
		for _, c := range costs {
			if c.Limit.Name != l.Name {
				continue
			}
			due.Sub(due, buckettest.Milli(c.Milli))
			w.full[l.Name].Take(w.now, c.Milli)
			if c.Milli < 0 {
				w.history[l.Name].Return(w.now, -c.Milli)
				w.back[l.Name].Add(w.back[l.Name], buckettest.Milli(-c.Milli))
			} else if !forced {
				w.history[l.Name].Take(w.now, c.Milli)
			}
		}
		diff := new(big.Rat).Sub(after[l.Name], due)
		if diff.Neg(diff).Cmp(w.worstSplitLoss) > 0 && may == overflow {
			w.worstSplitLoss.Set(diff)
		}
	}
}

// sharesAddUp checks I3: the shares of all shards are the whole, at every
// instant, unless foreign hands have removed shards or changed counts, when they
// are less.
func (w *world) sharesAddUp(what string) {
	all := w.shards()
	for _, l := range w.limits {
		var capacity, amount int64
		for _, s := range all {
			r := s.RateOf(l)
			capacity += r.Capacity
			amount += r.Amount
		}
		if capacity > l.Capacity || amount > l.Amount || !w.foreign && (capacity != l.Capacity || amount != l.Amount) {
			w.violated("%s: shares of %s add up to %d/%d, want %d/%d", what, l.Name, capacity, amount, l.Capacity, l.Amount)
		}
	}
}

// follow does to the exact shards what a call did to the stored ones.
func (w *world) follow(was []bucket.State, costs []table.Cost, writes []item.Write) {
	moved := map[string]*big.Rat{}
	all := w.shards()
	for _, s := range all {
		_, known := w.exactly[s.Shard]
		if known && slices.ContainsFunc(was, func(o bucket.State) bool { return o.Shard == s.Shard }) {
			continue
		}
		refs := map[string]*buckettest.Reference{}
		for _, l := range w.limits {
			refs[l.Name] = buckettest.NewReference(s.RateOf(l), w.now)
			if i := s.Index(l.Name); i >= 0 {
				refs[l.Name].Set(w.now, buckettest.NewExact(s.Slots[i].Tokens, s.Slots[i].Rest, s.Rate(i)).Level)
			}
			moved[l.Name] = refs[l.Name].Level(w.now)
		}
		w.exactly[s.Shard] = refs
		if len(writes) == 1 {
			costs = nil // created with its costs taken
		}
	}
	for shard, refs := range w.exactly { // what is folded into another goes there
		if slices.ContainsFunc(all, func(o bucket.State) bool { return o.Shard == shard }) {
			continue
		}
		delete(w.exactly, shard)
		for _, o := range all {
			if len(writes) > 1 && bucketKey(o.Shard) == writes[1].Target() {
				for name, r := range refs {
					moved[name] = new(big.Rat).Neg(r.Level(w.now))
				}
			}
		}
	}
	for _, s := range all {
		refs := w.exactly[s.Shard]
		moves := slices.ContainsFunc(was, func(o bucket.State) bool { return o.Shard == s.Shard && o.RF != s.RF })
		for i, sl := range s.Slots {
			if sl.Name == bucket.WCU {
				continue
			}
			if m := moved[sl.Name]; m != nil && m.Sign() < 0 { // merged: the larger share holds both
				refs[sl.Name].Refills(w.now, s.Rate(i))
			}
			if moves {
				refs[sl.Name].Since(w.now)
			}
			if bucketKey(s.Shard) == writes[0].Target() || len(writes) > 1 && bucketKey(s.Shard) == writes[1].Target() {
				for _, c := range costs {
					if c.Limit.Name == sl.Name {
						refs[sl.Name].Take(w.now, c.Milli)
					}
				}
				for _, c := range w.retro {
					if c.Limit.Name == sl.Name {
						refs[sl.Name].TakeSince(c.Milli)
					}
				}
				if m := moved[sl.Name]; m != nil &&
					slices.ContainsFunc(was, func(o bucket.State) bool { return o.Shard == s.Shard }) {
					left := new(big.Rat).Sub(refs[sl.Name].Level(w.now), m)
					if held := buckettest.LevelAt(s, i, w.now); w.foreign && left.Cmp(held) < 0 {
						left = held // foreign hands had left it above its share
					}
					refs[sl.Name].Set(w.now, left)
				}
			}
			refs[sl.Name].Refills(w.now, s.Rate(i))
			if held := w.takenBack(was, s, i); held != nil && len(moved) == 0 {
				refs[sl.Name].Set(w.now, held)
			}
		}
	}
}

// takenBack returns what slot i of a shard holds after its count has fallen although
// it had handed nothing over: foreign hands had raised the count, and what the item
// has held all along is within its share again. It is nil if there is no such thing.
func (w *world) takenBack(was []bucket.State, s bucket.State, i int) *big.Rat {
	at := slices.IndexFunc(was, func(o bucket.State) bool { return o.Shard == s.Shard && o.Shards > s.Shards })
	if !w.foreign || at < 0 {
		return nil
	}
	before, held := was[at].Slots[i], buckettest.LevelAt(s, i, w.now)
	if held.Cmp(buckettest.Milli(before.Tokens)) > 0 {
		return nil // it was below its share, and has earned that
	}
	return held
}

// compare checks that no shard holds more than it would without any loss, and
// that a call loses no more than it may.
func (w *world) compare(what string, may loss, writes []item.Write) {
	if !w.exact {
		return
	}
	for _, s := range w.shards() {
		for i, sl := range s.Slots {
			if sl.Name == bucket.WCU {
				continue
			}
			ref := w.exactly[s.Shard][sl.Name]
			lack := new(big.Rat).Sub(ref.Level(w.now), buckettest.LevelAt(s, i, w.now))
			if new(big.Rat).Add(lack, w.full[sl.Name].Pool()).Sign() < 0 {
				w.violated("%s minted: shard %d holds %s millitokens of %s too many", what, s.Shard, lack.Neg(lack).FloatString(6),
					sl.Name)
			}
			lack.Sub(lack, w.back[sl.Name])
			if late := w.late[sl.Name]; late != nil && !w.foreign && !w.rounded && lack.Sign() > 0 &&
				may == nothing && bucketKey(s.Shard) == writes[0].Target() && lack.Cmp(late) > 0 {
				w.violated("%s lost %s millitokens of %s, %s may have been", what, lack.FloatString(6), sl.Name,
					late.FloatString(6))
			}
		}
	}
}

// lacks returns how much less a shard shows than it would without any loss.
func (w *world) lacks(shard int) map[string]*big.Rat {
	out := map[string]*big.Rat{}
	if b, ok := w.image(shard); ok && w.exactly[shard] != nil {
		for i, sl := range b.State.Slots {
			if sl.Name != bucket.WCU {
				out[sl.Name] = new(big.Rat).Sub(w.exactly[shard][sl.Name].Level(w.now), buckettest.LevelAt(b.State, i, w.now))
			}
		}
	}
	return out
}

// since sets how much a charge from an image may show the levels lower: what the
// image lacked, what others have taken since, and a fraction.
func (w *world) since(image table.Shard, lacked map[string]*big.Rat) {
	w.late = map[string]*big.Rat{}
	now, ok := w.image(image.State.Shard)
	for i, sl := range image.State.Slots {
		late := new(big.Rat)
		if l := lacked[sl.Name]; l != nil {
			late.Set(l)
		}
		if j := now.State.Index(sl.Name); ok && j >= 0 {
			if taken := now.State.Slots[j].Used - sl.Used; taken > 0 {
				late.Add(late, buckettest.Milli(taken+1))
			} else if i >= 0 && late.Sign() > 0 {
				late.Add(late, buckettest.Milli(1))
			}
		}
		w.late[sl.Name] = late
	}
}

// begin forgets everything about a bucket that is gone: the next is full.
func (w *world) begin() {
	w.opened, w.decoded = false, nil
	for _, l := range w.limits {
		w.lives = append(w.lives, past{l.Name, w.history[l.Name]})
		w.history[l.Name] = &buckettest.History{}
		w.full[l.Name] = buckettest.NewReference(bucket.Rate{Capacity: l.Capacity, Amount: l.Amount,
			Period: l.Period}, w.now)
	}
	w.exactly = map[int]map[string]*buckettest.Reference{}
}

// past is what happened to one limit in an earlier life of the bucket.
type past struct {
	limit   string
	history *buckettest.History
}

// literal is worst without what was given back before a window.
func (w *world) literal(l bucket.Limit) buckettest.Excess {
	return w.extreme(l, (*buckettest.History).Literal)
}

// worst returns the worst excess of all limits, in millitokens.
func (w *world) worst() map[string]buckettest.Excess {
	out := map[string]buckettest.Excess{}
	for _, l := range w.limits {
		out[l.Name] = w.extreme(l, (*buckettest.History).Worst)
	}
	return out
}

// extreme returns the largest excess of a limit over all lives of the bucket.
func (w *world) extreme(
	l bucket.Limit, of func(*buckettest.History, bucket.Rate) buckettest.Excess,
) buckettest.Excess {
	r := bucket.Rate{Capacity: l.Capacity, Amount: l.Amount, Period: l.Period}
	out := of(w.history[l.Name], r)
	for _, p := range w.lives {
		if x := of(p.history, r); p.limit == l.Name && x.Milli.Cmp(out.Milli) > 0 {
			out = x
		}
	}
	return out
}
