package simulation

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// defect is a weakness put back on purpose, to show that the judge sees it.
type defect struct {
	name    string
	from    uint64                                           // the first seed to try: few show it
	as      string                                           // what the judge says of it
	write   func(n *network, o *op, w item.Write) item.Write // in place of a write
	outcome func(entity string, err error) error             // in place of an outcome
	narrow  bool                                             // what the request did not name is not settled
	blind   bool                                             // nobody sees what lives on when shard 0 is missing
	kinds   bool                                             // the world has limits of all kinds; no defect
	class   func(class string) string                        // in place of the class of a request
	reset   limiter.Calendar                                 // in place of that of the quotas
}

// classOf returns the class that a request names.
func (d defect) classOf(class string) string {
	if d.class == nil {
		return class
	}
	return d.class(class)
}

// settles returns what is really settled.
func (d defect) settles(costs, actual map[string]int64) map[string]int64 {
	if !d.narrow {
		return actual
	}
	out := maps.Clone(actual)
	maps.DeleteFunc(out, func(limit string, _ int64) bool { _, named := costs[limit]; return !named })
	return out
}

// onBuckets returns a defect of the writes of limiters on buckets that are updates.
func onBuckets(f func(n *network, o *op, u item.Update) item.Write) func(*network, *op, item.Write) item.Write {
	return func(n *network, o *op, w item.Write) item.Write {
		u, ok := w.(item.Update)
		if !ok || o == nil || u.Key.SK != layout.SKBucketState {
			return w
		}
		return f(n, o, u)
	}
}

// adjusts reports whether an update is a plain one that settles.
func adjusts(o *op, u item.Update) bool {
	return o.kind == "settle" && u.SetLess == nil && u.Set == nil
}

var errReserved = errors.New(`"wcu" is a reserved limit name`)

var defects = []defect{
	{name: "W3: a denial by a parent is another error", as: "W3", outcome: func(entity string, err error) error {
		if denied, ok := errors.AsType[*limiter.LimitError](err); ok && denied.Entity != entity {
			return errReserved
		}
		return err
	}},
	{name: "W5: what the request did not name is not settled", as: "I4", narrow: true},
	{name: "shard 0 is created full beside others", blind: true, as: "I"},
	{name: "W6: settling creates an item", as: "W6", from: 130, write: onBuckets(
		func(_ *network, o *op, u item.Update) item.Write {
			if adjusts(o, u) {
				u.If = nil
			}
			return u
		})},
	{name: "W11: settling goes to shard 0", as: "W11", from: 1100, write: onBuckets(
		func(_ *network, o *op, u item.Update) item.Write {
			if _, entity, res, shard, ok := layout.ParseBucketPK(u.Key.PK); ok && shard > 0 && adjusts(o, u) {
				u.Key = layout.BucketKey(namespaceID, entity, res, 0)
			}
			return u
		})},
	{name: "give-backs are written twice", write: onBuckets(func(_ *network, o *op, u item.Update) item.Write {
		if adjusts(o, u) {
			u.Add = slices.Clone(u.Add)
			for i, a := range u.Add {
				if !strings.HasPrefix(a.Name, "b_wcu") {
					u.Add[i].Value = item.N(2 * number(a.Value))
				}
			}
		}
		return u
	})},
	{name: "the charge has no condition", write: onBuckets(func(_ *network, _ *op, u item.Update) item.Write {
		if u.SetLess != nil {
			u.If = item.Exists(item.AttrPK)
		}
		return u
	})},
	{name: "the charge writes the level", write: onBuckets(literal)},
	{name: "the charge moves the clock and credits nothing", write: onBuckets(
		func(_ *network, _ *op, u item.Update) item.Write {
			if u.SetLess != nil {
				u.SetLess = slices.DeleteFunc(slices.Clone(u.SetLess), func(l item.Less) bool { return l.Name == "b_rpm_tk" })
			}
			return u
		})},
	{name: "a plain add does not look at the clock", write: onBuckets(func(_ *network, o *op, u item.Update) item.Write {
		if o.kind != "settle" && u.SetLess == nil && len(u.Add) > 0 {
			u.If = item.Exists("b_rpm_tk")
		}
		return u
	})},
	{name: "usage is added without a condition", write: func(_ *network, _ *op, w item.Write) item.Write {
		if u, ok := w.(item.Update); ok && strings.HasPrefix(u.Key.SK, "#USAGE#") {
			u.If = nil
			return u
		}
		return w
	}},
	{name: "a bucket is created over another", write: func(_ *network, _ *op, w item.Write) item.Write {
		if p, ok := w.(item.Put); ok && p.Target().SK == layout.SKBucketState {
			p.If = nil
			return p
		}
		return w
	}},
}

func number(v item.Value) int64 {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	i, _ := strconv.ParseInt(n.Value, 10, 64)
	return i
}

// literal writes the level that a charge was planned from, less its costs, in place
// of how far the counter may get.
func literal(n *network, _ *op, u item.Update) item.Write {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	b := n.w.judge.keyed(u.Key.PK)
	if u.SetLess == nil || b == nil {
		return u
	}
	u.SetLess = slices.Clone(u.SetLess)
	u.Set = slices.Clone(u.Set)
	for i, l := range u.SetLess {
		j := b.State.Index("rpm")
		if l.Name != "b_rpm_tk" || j < 0 {
			continue
		}
		u.Set = append(u.Set, item.Attr{Name: l.Name, Value: item.N(number(l.Value) - b.State.Slots[j].Used)})
		u.SetLess = slices.Delete(u.SetLess, i, i+1)
		break
	}
	return u
}

// TestSimulationCatchesPlantedDefects: every weakness that is put back is seen within
// a few worlds, all of which are sound without it.
func TestSimulationCatchesPlantedDefects(t *testing.T) {
	const seeds = 300
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			for seed := d.from; seed < d.from+seeds; seed++ {
				if got := play(t, seed, d, false); got.broken != "" {
					if !strings.HasPrefix(got.broken, d.as) {
						t.Errorf("seen as %s, want %s", got.broken, d.as)
					}
					t.Logf("seed %d: %s", seed, got.broken)
					return
				}
			}
			t.Errorf("not seen in %d worlds", seeds)
		})
	}
}

// spread plays a hundred cascades onto a parent with four shards, and returns how
// many charges of it went to each.
func spread(t *testing.T) (onShard [maxShards]int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7, defect{})
		w.changes, w.faulty = false, 0
		c := w.clients[0]
		c.faulty.Store(0)
		wide := []limiter.Limit{limiter.PerMinute("rpm", 4000)}
		for _, entity := range []string{"key", "org"} {
			w.store(entity, resource, wide)
		}
		w.db.Store(config.Entity{Namespace: namespaceID, ID: "key", Parent: "org", Cascade: true}.Item())
		take := func() {
			w.acquire(c, "key", "acquire", 1, 0)
			w.ops.Wait()
		}
		take()
		for range 2 { // twice doubled
			w.mu.Lock()
			shards := w.judge.buckets["org"].shards
			for _, k := range slices.Sorted(maps.Keys(shards)) {
				check.NoError(t, w.db.Transact(t.Context(), rand.Text(), table.Split(shards[k].image,
					time.Now().UnixMilli())))
				w.judge.follow(nil, nil, 0, w.db.Changes(w.judge.seq))
			}
			w.mu.Unlock()
		}
		before := w.judge.used("org")
		for range 100 {
			take()
			time.Sleep(20 * time.Millisecond)
		}
		for k, n := range w.judge.used("org") {
			onShard[k] = int(n-before[k]) / bucket.Milli
		}
		w.rest()
		check.Equal(t, w.broken, "")
	})
	return onShard
}

// uneven says what is wrong with how charges are spread over shards (W29): the first
// must not get most of them.
func uneven(onShard [maxShards]int) string {
	if sum := onShard[0] + onShard[1] + onShard[2] + onShard[3]; sum != 100 || onShard[0] > 50 {
		return fmt.Sprintf("of %d charges of a parent with four shards %d went to the first", sum, onShard[0])
	}
	return ""
}

// TestParentsAreChargedOnAllShards: a cascade picks any shard of its parents; one
// that always begins with the first is seen (W29).
func TestParentsAreChargedOnAllShards(t *testing.T) {
	sound := spread(t)
	check.Equal(t, uneven(sound), "")
	before := store.SetRandom(func() uint64 { return 0 })
	t.Cleanup(func() { store.SetRandom(before) })
	first := spread(t)
	if t.Logf("charges by shard: %v, with the defect %v", sound, first); uneven(first) == "" {
		t.Error("not seen")
	}
}
