package limiter

import (
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// judge follows every change of one bucket beside an exact bucket per shard. What
// is stored may be lower than that, near full, by what others took since a
// writer's image; it may never be higher, but for what was given back: an image
// from before a give-back does not know of it, also when that paid for a debt. So a
// level that a later write shows higher again is no token made.
type judge struct {
	w         *world
	namespace string
	largest   func(limit string) bucket.Rate
	seq       int64 // the last change followed
	exact     map[int]map[string]*buckettest.Reference
	back      map[int]map[string]int64         // given back in the shard's generation, millitokens
	whole     map[string]*buckettest.Reference // the bucket as one
	history   map[string]*buckettest.History   // what was granted, and given back
	seen      []verdict                        // for the day one of them is bad
	spent     map[string]int64                 // what the counters have grown by since begin, millitokens
}

// newJudge returns the judge of an empty table. largest tells the most that a
// limit may ever be.
func newJudge(w *world, namespace string, largest func(string) bucket.Rate) *judge {
	return &judge{
		w: w, namespace: namespace, largest: largest, exact: map[int]map[string]*buckettest.Reference{},
		back:  map[int]map[string]int64{},
		whole: map[string]*buckettest.Reference{}, history: map[string]*buckettest.History{}, spent: map[string]int64{},
	}
}

// begin follows what has happened so far; expect then is about what comes next.
func (j *judge) begin() {
	j.w.t.Helper()
	j.follow()
	clear(j.spent)
	for limit, r := range j.whole {
		more := j.returned(limit)
		if more.Cmp(r.Pool()) < 0 {
			more = r.Pool()
		}
		j.past(limit).Surplus(j.w.now.Load(), more)
	}
}

// returned is what was given back and may be had on top of what the exact shards
// hold, together.
func (j *judge) returned(limit string) *big.Rat {
	sum := new(big.Rat)
	for shard, refs := range j.exact {
		if refs[limit] == nil {
			continue
		}
		if pool, back := refs[limit].Pool(), buckettest.Milli(j.back[shard][limit]); pool.Cmp(back) > 0 {
			sum.Add(sum, pool)
		} else {
			sum.Add(sum, back)
		}
	}
	return sum
}

// expect checks that the counters have grown by costs, in tokens, since begin, or
// if that is not certain by costs or nothing.
func (j *judge) expect(what string, costs Costs, certain bool) {
	j.w.t.Helper()
	j.follow()
	took := maps.Clone(j.spent)
	maps.DeleteFunc(took, func(_ string, n int64) bool { return n == 0 })
	want := map[string]int64{}
	for limit, n := range costs {
		if n != 0 {
			want[limit] = n * bucket.Milli
		}
	}
	if !maps.Equal(took, want) && (certain || len(took) > 0) {
		j.w.t.Errorf("%s: the counters have grown by %v, want %v (certain: %v)", what, took, want, certain)
	}
}

// grown returns what a counter has grown by since begin, in millitokens.
func (j *judge) grown(limit string) int64 {
	j.w.t.Helper()
	j.follow()
	return j.spent[limit]
}

// granted records what a lease was granted for.
func (j *judge) granted(at int64, costs Costs) {
	for limit, n := range costs {
		j.past(limit).Take(at, n*bucket.Milli)
	}
}

func (j *judge) past(limit string) *buckettest.History {
	if j.history[limit] == nil {
		j.history[limit] = &buckettest.History{}
	}
	return j.history[limit]
}

// follow takes in the changes since the last time and checks each.
func (j *judge) follow() {
	j.w.t.Helper()
	changes := slices.DeleteFunc(j.w.db.Changes(j.seq), func(c memdynamo.Change) bool {
		j.seq = max(j.seq, c.Seq)
		ns, e, r, _, ok := layout.ParseBucketPK(c.Key.PK)
		return !ok || ns != j.namespace || e != acme || r != gpt
	})
	for i := 0; i < len(changes); i++ {
		c := changes[i]
		before, after := j.decode(c.Old), j.decode(c.New)
		if after != nil && before != nil && after.State.Shards > before.State.Shards && i+1 < len(changes) {
			if next := changes[i+1]; next.Old == nil {
				j.split(c, *before, *after, *j.decode(next.New))
				i++ // both are of one transaction
				continue
			}
		}
		if after == nil && i+1 < len(changes) && changes[i+1].New != nil && before.State.Shard > 0 {
			j.merge(c, *before, changes[i+1]) // both are of one transaction
		}
		j.change(c, before, after)
	}
}

func (j *judge) decode(it item.Item) *table.Shard {
	j.w.t.Helper()
	if it == nil {
		return nil
	}
	b, err := table.DecodeShard(it)
	if err != nil {
		j.w.t.Fatal(err)
	}
	return &b
}

// split moves what the new shard holds to it.
func (j *judge) split(c memdynamo.Change, before, keep, moved table.Shard) {
	j.w.t.Helper()
	refs := map[string]*buckettest.Reference{}
	for i, sl := range moved.State.Slots {
		if sl.Name == bucket.WCU {
			continue
		}
		from, level := j.exact[keep.State.Shard][sl.Name], buckettest.LevelAt(moved.State, i, c.CreatedAt)
		from.Set(c.CreatedAt, new(big.Rat).Sub(from.Level(c.CreatedAt), level))
		refs[sl.Name] = buckettest.NewReference(moved.State.Rate(i), c.CreatedAt)
		refs[sl.Name].Set(c.CreatedAt, level)
		j.spent[sl.Name] += sl.Used
	}
	j.exact[moved.State.Shard] = refs
	j.change(c, &before, &keep)
}

// merge moves what a shard that goes held to the one that stays. A limit that it
// did not have yet would have started full.
func (j *judge) merge(c memdynamo.Change, gone table.Shard, stays memdynamo.Change) {
	j.w.t.Helper()
	keep := j.decode(stays.New).State
	for i, sl := range keep.Slots {
		to := j.exact[keep.Shard][sl.Name]
		if sl.Name == bucket.WCU || to == nil {
			continue
		}
		level, back := buckettest.Milli(gone.State.RateOf(sl.Limit).Capacity), int64(0)
		if from := j.exact[gone.State.Shard][sl.Name]; from != nil {
			level, back = from.Level(c.CreatedAt), max(j.back[gone.State.Shard][sl.Name], ceil(from.Pool()))
		}
		to.Refills(c.CreatedAt, keep.Rate(i))
		to.Set(c.CreatedAt, new(big.Rat).Add(to.Level(c.CreatedAt), level))
		j.back[keep.Shard][sl.Name] = max(j.back[keep.Shard][sl.Name], ceil(to.Pool())) + back
	}
}

func ceil(r *big.Rat) int64 {
	n := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	return n.Div(n, r.Denom()).Int64()
}

// change takes in one change of one shard.
func (j *judge) change(c memdynamo.Change, before, after *table.Shard) {
	j.w.t.Helper()
	if after == nil {
		_, _, _, shard, _ := layout.ParseBucketPK(c.Key.PK)
		delete(j.exact, shard)
		delete(j.back, shard)
		return
	}
	shard := after.State.Shard
	if before == nil {
		j.exact[shard] = map[string]*buckettest.Reference{}
		before = &table.Shard{}
	}
	if j.back[shard] == nil {
		j.back[shard] = map[string]int64{}
	}
	refs := j.exact[shard]
	for i, sl := range after.State.Slots {
		if sl.Name == bucket.WCU {
			continue
		}
		grown := sl.Used
		if k := before.State.Index(sl.Name); k >= 0 {
			grown -= before.State.Slots[k].Used
		} else {
			refs[sl.Name] = buckettest.NewReference(after.State.Rate(i), c.CreatedAt)
		}
		refs[sl.Name].Refills(c.CreatedAt, after.State.Rate(i))
		refs[sl.Name].Take(c.CreatedAt, grown)
		j.back[shard][sl.Name] -= min(grown, 0)
		j.count(c.CreatedAt, sl.Name, grown)
	}
	for _, sl := range before.State.Slots {
		if sl.Name == bucket.WCU || after.State.Index(sl.Name) >= 0 {
			continue
		}
		j.atMost(c, "a limit was dropped that is not full", buckettest.Milli(before.State.RateOf(sl.Limit).Capacity),
			sl.Name, shard)
		delete(refs, sl.Name)
	}
	for i, sl := range after.State.Slots {
		if sl.Name == bucket.WCU {
			continue
		}
		level := buckettest.LevelAt(after.State, i, c.CreatedAt)
		j.atMost(c, "a write made tokens", level, sl.Name, shard)
		if before.Generation != after.Generation { // images from before it count no more
			if level.Cmp(refs[sl.Name].Level(c.CreatedAt)) > 0 {
				refs[sl.Name].Set(c.CreatedAt, level)
			}
			j.back[shard][sl.Name] = 0
		}
	}
}

// count records that a counter has grown, or fallen because of a give-back.
func (j *judge) count(at int64, limit string, grown int64) {
	j.spent[limit] += grown
	if j.whole[limit] == nil {
		j.whole[limit] = buckettest.NewReference(j.largest(limit), at)
	}
	j.whole[limit].Take(at, grown)
	if grown < 0 {
		j.past(limit).Return(at, -grown)
	}
}

// atMost checks that a level is no higher than that of the exact bucket and what
// was given back.
func (j *judge) atMost(c memdynamo.Change, what string, level *big.Rat, limit string, shard int) {
	j.w.t.Helper()
	exact, pool := j.exact[shard][limit].Level(c.CreatedAt), j.returned(limit)
	j.seen = append(j.seen, verdict{c, shard, limit, level, exact, pool})
	if level.Cmp(new(big.Rat).Add(exact, pool)) <= 0 {
		return
	}
	for _, v := range j.seen {
		if v.limit == limit {
			j.w.t.Logf("%v: %v -> %v", v, j.decode(v.c.Old), j.decode(v.c.New))
		}
	}
	j.w.t.Errorf("%s: %v", what, j.seen[len(j.seen)-1])
	j.seen = nil
}

// verdict is what a change was judged by.
type verdict struct {
	c                  memdynamo.Change
	shard              int
	limit              string
	level, exact, pool *big.Rat
}

func (v verdict) String() string {
	return fmt.Sprintf("change %d at %d of shard %d: %s of %s; exactly %s, and %s given back",
		v.c.Seq, v.c.CreatedAt, v.shard, v.level.FloatString(3), v.limit, v.exact.FloatString(3), v.pool.FloatString(3))
}
