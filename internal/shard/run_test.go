package shard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket/buckettest"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Any call may fail, before it takes effect or without an answer. A plan that is run until no call
// fails ends with every shard at the count of shard 0. It has moved tokens, and created none.
func TestRunUnderFaults(t *testing.T) {
	failures := []store.Kind{store.Unavailable, store.Throttled, store.Conflict, store.Unknown}
	for seed := range uint64(40) {
		w := fullBucket(t, 16_001)
		rng := rand.New(rand.NewPCG(seed, 9))
		w.db.SetHook(func(memdynamo.Op) (bool, error) {
			if rng.IntN(3) > 0 {
				return true, nil
			}
			kind := failures[rng.IntN(len(failures))]
			return kind == store.Unknown && rng.IntN(2) == 0, memdynamo.Fail(kind)
		})
		clock := func() int64 { w.now++; return w.now }
		goal, failed := 8, 0
		for round := 0; ; round++ {
			zero, ok := w.image(0)
			if !ok {
				t.Fatal("shard 0 is gone")
			}
			if zero.State.Shards == goal && w.atCount(goal) {
				break
			}
			if round > 200 {
				t.Fatalf("seed %d: not done after %d rounds: %v", seed, round, w.shards())
			}
			plan := shard.Propagate(zero)
			if round%2 == 0 && zero.State.CanSplit(goal) {
				plan = shard.Double(zero)
			}
			if _, err := shard.Run(t.Context(), w.db, plan, clock); err != nil {
				failed++
				if store.KindOf(err) == 0 {
					t.Fatalf("seed %d: %v, want a failure of the store", seed, err)
				}
			}
		}
		w.db.SetHook(nil)
		w.sharesAddUp("at rest")
		if held := w.held()["rpm"]; held.Cmp(buckettest.Milli(16_001)) > 0 {
			t.Errorf("seed %d: the shards hold %s of 16001 millitokens", seed, held.FloatString(3))
		}
	}
}

// Run does not apply a step twice after a lost answer, and recognizes what has taken effect.
func TestRunSendsLostTransactionsAgain(t *testing.T) {
	w := fullBucket(t, 16_000)
	calls := 0
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		calls++
		if calls <= 2 {
			return true, memdynamo.Fail(store.Unknown)
		}
		return true, nil
	})
	zero, _ := w.image(0)
	steps, err := shard.Run(t.Context(), w.db, shard.Double(zero), func() int64 { return w.now })
	if err != nil || steps != 1 {
		t.Fatalf("Run = %d, %v, want one step", steps, err)
	}
	if !w.atCount(2) {
		t.Errorf("shards %v, want two", w.shards())
	}
	check.Equal(t, calls, 3, "calls, want 3: the same transaction until it is answered")
}

// Run gives up when the context is done, with the steps so far.
func TestRunStopsWithContext(t *testing.T) {
	w := fullBucket(t, 16_000)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	zero, _ := w.image(0)
	steps, err := shard.Run(ctx, w.db, shard.Double(zero), func() int64 { return w.now })
	if steps != 0 || store.KindOf(err) != store.Unavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %d, %v, want 0 steps and an unavailable store", steps, err)
	}
}

// An unreadable shard is skipped, and the others go on.
func TestPlanGivesUpOnUnreadableShard(t *testing.T) {
	w := fullBucket(t, 16_000)
	zero, _ := w.image(0)
	check.Must(t, check.Err(shard.Run(t.Context(), w.db, shard.Double(zero), func() int64 { return w.now })))
	bad := w.db.Item(bucketKey(1))
	bad["b_rpm_cp"] = item.N(-1)
	w.db.Store(bad)
	it := w.db.Item(bucketKey(0))
	b, err := table.DecodeShard(it)
	check.Must(t, err)
	b.State.Shards = 4
	w.db.Store(b.Item())
	plan := shard.Propagate(b)
	check.Must(t, check.Err(shard.Run(t.Context(), w.db, plan, func() int64 { return w.now })))
	for _, image := range plan.Images() {
		if image.State.Shard == 1 || image.State.Shards != 4 && image.State.Shard == 0 {
			t.Errorf("after the plan %v is known", image.State)
		}
	}
	if got := w.db.Item(bucketKey(1)); !item.EqualItems(got, bad) {
		t.Errorf("the unreadable shard became %s", itemtest.JSON(got))
	}
}

// Run counts the steps before it failed. Looks do not count.
func TestRunCountsSteps(t *testing.T) {
	for _, c := range []struct{ fails, steps int }{{1, 0}, {2, 0}, {3, 1}, {4, 2}, {5, 2}} {
		w := fullBucket(t, 16_000)
		for range 3 { // shard 0 has eight, shard 4 the count of its last split; 1 and 2 lag behind
			zero, _ := w.image(0)
			if n, err := shard.Run(t.Context(), w.db, shard.Double(zero), func() int64 { return w.now }); err != nil || n != 1 {
				t.Fatal(n, err)
			}
		}
		zero, _ := w.image(0)
		calls := 0
		w.db.SetHook(func(memdynamo.Op) (bool, error) {
			if calls++; calls >= c.fails {
				return false, memdynamo.Fail(store.Setup)
			}
			return true, nil
		})
		steps, err := shard.Run(t.Context(), w.db, shard.Propagate(zero), func() int64 { return w.now })
		if store.KindOf(err) != store.Setup || calls != c.fails || steps != c.steps {
			t.Errorf("call %d fails: %d steps in %d calls, %v, want %d", c.fails, steps, calls, err, c.steps)
		}
	}
}

// A plan learns from a refusal, so a plan with an old image ends after one call: others have split
// the shard. A look takes one call.
func TestRunLearnsFromRefusals(t *testing.T) {
	w := fullBucket(t, 16_000)
	calls := 0
	w.db.SetHook(func(memdynamo.Op) (bool, error) { calls++; return true, nil })
	zero, _ := w.image(0)
	for i := range 2 { // both with the same image
		calls = 0
		steps, err := shard.Run(t.Context(), w.db, shard.Double(zero), func() int64 { return w.now })
		if err != nil || steps != 1-i || calls != 1 {
			t.Errorf("run %d: %d steps in %d calls, %v", i, steps, calls, err)
		}
	}
	calls = 0
	zero, _ = w.image(0)
	plan := shard.Propagate(zero)
	steps, err := shard.Run(t.Context(), w.db, plan, func() int64 { return w.now })
	if err != nil || steps != 0 || calls != 1 {
		t.Errorf("%d steps in %d calls, %v, want one look at shard 1", steps, calls, err)
	}
	if images := plan.Images(); len(images) != 2 || images[1].State.Shard != 1 || len(plan.Absent()) != 0 {
		t.Errorf("then it knows %+v, missing are %v", images, plan.Absent())
	}
}
