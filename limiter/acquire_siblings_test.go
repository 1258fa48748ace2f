package limiter

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/inforce"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// looksForShard1 reports whether a call is the read before a bucket is created.
func looksForShard1(op memdynamo.Op) bool {
	return op.Name == memdynamo.BatchGetItem && slices.ContainsFunc(op.Keys, func(k item.Key) bool {
		_, _, _, shard, ok := layout.ParseBucketPK(k.PK)
		return ok && shard == 1
	})
}

func isPut(op memdynamo.Op) bool { return op.Name == memdynamo.PutItem }

// headless returns a world with a bucket of several shards whose shard 0 is deleted, and a process
// that has never read it. Tokens were taken from every shard.
func headless(t testing.TB, shards int, limit Limit) (*world, *Limiter) {
	w, l := newProcess(t, Options{})
	must(t, l, asks(Costs{limit.Name: 1}, limit)).Rollback(t.Context())
	w.split(l, shards)
	for range 3 * shards {
		must(t, l, asks(Costs{limit.Name: 1}, limit))
	}
	w.remove(l, 0)
	return w, w.process(Options{})
}

// Only before a bucket is created, shard 1 is read, consistently. If it was found missing longer
// ago, it is read again.
func TestOneReadBeforeABucketIsCreated(t *testing.T) {
	w, l := newProcess(t, Options{})
	l.configs.Resolve(t.Context(), acmeGPT, &inforce.Own{Limits: []bucket.Limit{}}, l.now(), true)
	var calls []memdynamo.OpName
	fails := true
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if op.Name == memdynamo.BatchGetItem && !looksForShard1(op) { // configuration
			return true, nil
		}
		calls = append(calls, op.Name)
		if op.Name == memdynamo.BatchGetItem && (!op.Consistent || len(op.Keys) != 1) {
			t.Errorf("read %v, consistently %v", op.Keys, op.Consistent)
		}
		if isPut(op) && fails {
			return false, memdynamo.Fail(store.Unavailable)
		}
		return true, nil
	})
	one := asks(Costs{"rpm": 1}, rpm10)
	check.MustBe(t, check.Err(l.Acquire(t.Context(), one)), ErrUnavailable)
	fails = false
	w.advance(time.Hour)
	must(t, l, one)
	must(t, l, one)
	must(t, w.process(Options{}), one) // new here, but the bucket is there
	want := []memdynamo.OpName{
		memdynamo.BatchGetItem, memdynamo.PutItem, // it fails
		memdynamo.BatchGetItem, memdynamo.PutItem, // known to be missing
		memdynamo.UpdateItem, // warm
	}
	if !slices.Equal(calls[:len(want)], want) || slices.Contains(calls[len(want):], memdynamo.BatchGetItem) {
		t.Errorf("calls %v, want %v", calls, want)
	}
}

// Other processes act between the steps of a process that restores shard 0.
func TestRestoringShard0Races(t *testing.T) {
	limit := PerHour("rph", 40)
	one := asks(Costs{"rph": 1}, limit)
	run := func(w *world, p *shard.Plan) {
		check.NoError(w.t, check.Err(shard.Run(w.t.Context(), w.db.Bare(), p, w.now.Load)))
	}
	for _, rival := range []struct {
		name   string
		act    func(w *world, l *Limiter)
		minted int64
	}{
		{"another process restores it", func(w *world, l *Limiter) { must(t, w.bystander(l), one) }, 0},
		{"another process restores it, and all merge", func(w *world, l *Limiter) {
			must(t, w.bystander(l), one)
			all := w.shards(l, acme, gpt)
			run(w, shard.Shrink(all[0], 1, all[1:]...))
			if counts := w.counts(l); len(counts) != 1 {
				t.Errorf("not merged: %v", counts)
			}
		}, 0},
		{"another client creates it full", func(w *world, l *Limiter) { w.foreign(l, limit) }, 40},
		{"the others are deleted", func(w *world, l *Limiter) { w.remove(l, 1, 2, 3) }, 40},
	} {
		for _, when := range []struct {
			name  string
			match func(memdynamo.Op) bool
		}{{"before the read", looksForShard1}, {"after the read", isPut}} {
			t.Run(rival.name+" "+when.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, l := headless(t, 4, limit)
					held := w.held(l, limit)
					before := w.used(l, "rph")
					w.db.SetHook(onCall(when.match, 0, func(memdynamo.Op) (bool, error) { rival.act(w, l); return true, nil }))
					if _, err := l.Acquire(t.Context(), one); err != nil && !errors.Is(err, ErrLimited) {
						t.Fatal(err)
					}
					w.db.SetHook(nil)
					l.desks.Wait()
					drain(t, l, one)
					drain(t, w.process(Options{}), one)
					if granted := w.used(l, "rph") - before; whole(granted-rival.minted).Cmp(held) > 0 {
						t.Errorf("%d granted, %s were there", granted, held.FloatString(3))
					}
					w.advance(time.Hour)
					w.eventually(w.process(Options{}), asks(Costs{"rph": 40}, limit), 12)
				})
			})
		}
	}
}

// The bucket is evicted while its other shards are looked for: the next write still uses the
// result.
func TestEvictedWhileRestoringShard0(t *testing.T) {
	limit := PerHour("rph", 80)
	w, _ := headless(t, 4, limit)
	l := w.process(Options{MaxBuckets: 1})
	held, before := w.held(l, limit), w.used(l, "rph")
	w.db.SetHook(onCall(looksForShard1, 0, func(memdynamo.Op) (bool, error) {
		w.db.SetHook(nil)
		other := asks(Costs{"rph": 1}, limit)
		other.Entity = "other"
		_, err := l.Acquire(t.Context(), other)
		check.NoError(t, err)
		return true, nil
	}))
	drain(t, l, asks(Costs{"rph": 1}, limit))
	drain(t, w.process(Options{}), asks(Costs{"rph": 1}, limit))
	if granted := w.used(l, "rph") - before; whole(granted).Cmp(held) > 0 || granted == 0 {
		t.Errorf("%d granted, %s were there", granted, held.FloatString(3))
	}
	w.sharesAddUp(l)
}

// The read before a bucket is created fails: nothing is written, the error is returned, and the
// next call continues, alone and in a cascade.
func TestReadBeforeCreatingFails(t *testing.T) {
	for _, f := range []struct {
		name, want string
		hook       memdynamo.Hook
	}{
		{"down", "unavailable", func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) }},
		{"never answered", "unavailable", func(op memdynamo.Op) (bool, error) {
			<-op.Done
			return false, memdynamo.Fail(store.Unavailable)
		}},
		{"panic", "unknown", func(memdynamo.Op) (bool, error) { panic("of the client") }},
	} {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, l := family(t, 100, Options{})
				before := w.db.Snapshot()
				w.db.SetHook(onCall(looksForShard1, 0, f.hook))
				_, err := l.Acquire(t.Context(), Request{Entity: "org", Resource: gpt, Costs: Costs{"rpm": 1}})
				check.Equal(t, kindName(err), f.want, "alone")
				w.db.SetHook(onCall(looksForShard1, 0, f.hook))
				_, err = l.Acquire(t.Context(), stored(Costs{"rpm": 1}))
				check.Equal(t, kindName(err), f.want, "in a cascade")
				w.db.SetHook(nil)
				w.sameTable(before)
				must(t, l, stored(Costs{"rpm": 3}))
				w.wantSpent(l, "after it", map[string]int64{acme: 3, "org": 3})
			})
		})
	}
}

// The remains of a bucket that was deleted long ago, or of another client's writes, neither block a
// new bucket nor give it tokens.
func TestLeftoverShardDoesNotBrick(t *testing.T) {
	const capacity = 40
	limit := PerHour("rph", capacity)
	for _, c := range []struct {
		name  string
		edit  item.Item
		least int64 // granted immediately
	}{
		{"as it was", nil, 0},
		{"in debt", item.Item{"b_rph_tk": item.N(-15_000)}, 0},
		{"of other limits", item.Item{"b_rph_cp": item.N(400_000), "b_rph_ra": item.N(4_000_000)}, 0},
		{"with an absurd count", item.Item{"shard_count": item.N(1 << 20)}, 0},
		{"with the count of an unsplit bucket", item.Item{"shard_count": item.N(1)}, 0},
		{"with a count that is no power of two", item.Item{"shard_count": item.N(7)}, 0},
		{"with a clock of the future", item.Item{"rf": item.N(1_800_000_000_000)}, 0},
		{"expired", item.Item{"ttl": item.N(1_600_000_000)}, 0},
		{"of a settlement after it was deleted", item.Item{"shard_count": nil, "rf": nil, "b_rph_cp": nil}, capacity},
	} {
		for _, count := range []int{2, 8} {
			t.Run(fmt.Sprintf("%s, of %d", c.name, count), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, l := headless(t, count, limit)
					agg := &follower{w: w, seq: w.db.Changes(0)[len(w.db.Changes(0))-1].Seq}
					for k := 2; k < count; k++ {
						w.remove(l, k)
					}
					w.edit(l, 1, c.edit)
					granted := int64(drain(t, l, asks(Costs{"rph": 1}, limit)))
					if most := max(c.least, capacity/int64(count)); granted < c.least || granted > most {
						t.Errorf("%d granted at once, want %d to %d", granted, c.least, most)
					}
					for range 20 {
						l.Acquire(t.Context(), asks(Costs{"rph": 1}, limit))
						l.desks.Wait()
						agg.follow(l)
						w.advance(500 * time.Millisecond)
					}
					w.advance(3 * time.Hour)
					// A process with images several hours old looks at one shard after the other,
					// the oldest image first.
					w.eventually(w.process(Options{}), asks(Costs{"rph": capacity}, limit), 3)
					w.eventually(l, asks(Costs{"rph": capacity}, limit), 3)
				})
			})
		}
	}
}

// Of a child and its parent, each bucket may be new or have lost its shard 0, and one may be
// evicted for the other.
func TestCascadeRestoresShard0(t *testing.T) {
	for _, room := range []int{1, 100} {
		testCascadeRestoresShard0(t, room)
	}
}

func testCascadeRestoresShard0(t *testing.T, room int) {
	for _, lost := range [][]string{{acme}, {"org"}, {acme, "org"}} {
		for _, fresh := range []string{"", acme, "org"} {
			if slices.Contains(lost, fresh) {
				continue
			}
			t.Run(fmt.Sprintf("%v lost, %q new, room for %d", lost, fresh, room), func(t *testing.T) {
				w, l := family(t, 10, Options{})
				for _, e := range []string{acme, "org"} {
					if e == fresh {
						continue
					}
					must(t, l, Request{Entity: e, Resource: gpt, Costs: Costs{"rpm": 2}, Limits: []Limit{rpm10}})
					w.splitOf(l, e, 2)
					w.advance(time.Millisecond)
				}
				for _, e := range lost { // shard 1 holds 4 of 8
					w.db.Delete(layout.BucketKey(l.namespace, e, gpt, 0))
				}
				spent := map[string]int64{acme: w.spent(l, acme), "org": w.spent(l, "org")}
				granted := int64(drain(t, w.process(Options{MaxBuckets: room}), stored(Costs{"rpm": 1})))
				if granted < 1 || granted > 4 {
					t.Errorf("%d granted, want at most the 4 that are left", granted)
				}
				w.wantSpent(l, "after it", map[string]int64{acme: spent[acme] + granted, "org": spent["org"] + granted})
			})
		}
	}
}
