package streams

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// unfaithful returns how a shard differs from its expected contents: the clients' state, and an
// exact refill of every limit up to the shard's clock.
func (r *rig) unfaithful(before table.Shard) string {
	got := r.bucket(before.Entity, before.State.Shard).State
	want := before.State.At(got.RF)
	if got.String() != want.String() {
		return fmt.Sprintf("got  %s\nwant %s", got, want)
	}
	return ""
}

// drain leaves little of each limit of entity e. It returns the bucket, and the payload of its
// stream.
func (r *rig) drain() (table.Shard, []byte) {
	r.take("e", 0, 400, 39_000)
	payload := r.payload()
	before := r.bucket("e", 0)
	r.now += 700
	return before, payload
}

// A refill is planned again after changes of others, and not repeated if others have refilled. It
// is sent again if it was lost, and credited once if only its answer was lost.
func TestRefillsSurviveConflictsAndLostAnswers(t *testing.T) {
	lost := func(applied bool) func(*rig) (bool, error) {
		return func(*rig) (bool, error) { return applied, memdynamo.Fail(store.Unknown) }
	}
	others := func(edit func(r *rig, b table.Shard) bucket.State) func(*rig) (bool, error) {
		return func(r *rig) (bool, error) {
			b := r.bucket("e", 0)
			b.State = edit(r, b)
			r.db.Store(b.Item())
			return true, nil
		}
	}
	for _, c := range []struct {
		name    string
		meets   func(*rig) (bool, error)
		times   int
		refills int
	}{
		{"others refill and spend", others(func(r *rig, b table.Shard) bucket.State {
			return b.State.At(r.now - 300).Take([]int64{100_000, 0, 1000})
		}), 1, 1},
		{"others refill", others(func(r *rig, _ table.Shard) bucket.State {
			return bucket.New(limits(), 0, 1, r.now)
		}), 1, 0},
		{"answers are lost", lost(true), 2, 0},
		{"writes are lost", lost(false), 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			before, payload := r.drain()
			r.agg.concurrency = 1
			met := 0
			r.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if !strings.Contains(target(op).PK, "BUCKET#e") || met == c.times {
					return true, nil
				}
				met++
				applied, err := c.meets(r)
				if err == nil {
					before = r.bucket("e", 0)
				}
				return applied, err
			})
			check.MustEqual(t, r.handle(payload), done)
			check.MustEqual(t, met > 0, true, "met")
			check.Equal(t, r.unfaithful(before), "")
			check.Equal(t, r.bucket("e", 0).State.RF, r.now, "refilled up to")
			r.wants(r.metrics.String(), fmt.Sprintf(`"Refills":%d`, c.refills))
		})
	}
}

// A write that must be done once fails if its answer is lost at every attempt.
func TestWritesWithoutAnyAnswerFail(t *testing.T) {
	r := newRig(t)
	r.db.SetHook(failing(false, store.Unknown))
	r.invoked.Store(true)
	ctx := context.WithValue(t.Context(), invocation{}, true)
	n, err := r.agg.once(ctx, item.Update{Key: item.Key{PK: "x", SK: "y"}, Remove: []string{"a"}}, attempts)
	if n != 0 || store.KindOf(err) != store.Unknown {
		t.Errorf("%d writes, %v", n, err)
	}
}

func TestRefillOfADeletedBucketCreatesNothing(t *testing.T) {
	r := newRig(t)
	_, payload := r.drain()
	key := layout.BucketKey("ns", "e", "gpt", 0)
	r.db.Delete(key)
	check.Equal(t, r.handle(payload), done)
	check.Equal(t, len(r.db.Item(key)), 0, "attributes of the item")
	r.wants(r.metrics.String(), `"Refills":0`)
}

// The earlier defect W17: only limits that are short are credited.
func TestPlantedW17IsCaught(t *testing.T) {
	r := newRig(t)
	before, payload := r.drain()
	r.agg.store = planted{r.db, func(u item.Update) item.Update {
		if !isUsage(u) {
			u.SetLess = slices.DeleteFunc(slices.Clone(u.SetLess), func(l item.Less) bool { return l.Name != "b_rpm_tk" })
		}
		return u
	}}
	r.handle(payload)
	diff := r.unfaithful(before)
	if diff == "" {
		t.Fatal("not caught")
	}
	t.Logf("caught:\n%s", diff)
}

// D5: a hot bucket doubles. The stream shows the growth, the other shards follow, and the shares
// always add up.
func TestHotBucketSplitsAndPropagates(t *testing.T) {
	r := newRig(t)
	hot := r.bucket("e", 0)
	hot.TTL = t0/1000 + 420
	r.db.Store(hot.Item())
	seen := int64(0)
	for round := range 6 {
		b := r.bucket("e", 0)
		b.State.Slots[b.State.Index(bucket.WCU)].Tokens = int64(999 - round)
		b.State.RF = r.now
		b.State = b.State.Take([]int64{1000, 1000, 0})
		r.db.Store(b.Item())
		for range 3 { // until the stream is quiet
			changes := r.since(seen)
			if len(changes) == 0 {
				break
			}
			seen = changes[len(changes)-1].Seq
			check.MustEqual(t, r.handle(payloadOf(changes)), done, "response")
		}
		r.now += 100
	}
	n := r.bucket("e", 0).State.Shards
	check.Equal(t, n, 32, "shards")
	sum := make([]int64, 3)
	for k := range n {
		b := r.bucket("e", k)
		if r.db.Item(b.Key()) == nil || b.State.Shards != n || b.TTL != 0 {
			t.Fatalf("shard %d: %+v", k, b)
		}
		for i := range b.State.Slots {
			sum[i] += b.State.Rate(i).Capacity
		}
	}
	if sum[0] != 600_000 || sum[1] != 40_000_000 {
		t.Errorf("capacities of the shards add up to %v", sum)
	}
	check.Equal(t, r.inexact(), "")
}
