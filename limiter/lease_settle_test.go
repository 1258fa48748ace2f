package limiter

import (
	"context"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// overtaken returns a lease from a minute and a half ago. Others have taken 60 of 100 since, and 50
// have refilled.
func (w *world) overtaken(l *Limiter, limit Limit) *Lease {
	w.t.Helper()
	lease := must(w.t, l, asks(Costs{limit.Name: 1}, limit))
	w.advance(time.Minute)
	for range 6 {
		must(w.t, w.bystander(l), asks(Costs{limit.Name: 10}, limit))
	}
	w.advance(30 * time.Second) // to 90 of 100
	return lease
}

// TestSettlingMoreKeepsTheSlack: a process that settles more from an old image does not show a
// bucket too low by more than the slack, although others have taken most of it since, and it has
// refilled.
func TestSettlingMoreKeepsTheSlack(t *testing.T) {
	w, l := newProcess(t, Options{})
	limit := PerMinute("rpm", 100)
	lease := w.overtaken(l, limit)
	check.Must(t, more(lease, Costs{"rpm": 5}))
	check.Must(t, lease.Commit(t.Context()))
	w.wantHeld(l, limit, 85)
}

// A refused charge is planned again from the returned image, and counted by the meter: the refill
// since others wrote is not lost.
func TestSettlingMoreOfABucketThatHasFilledUp(t *testing.T) {
	for _, name := range []string{"rpm", "xpm"} { // before and after the meter by name
		w, l := newProcess(t, Options{Slack: 1})
		limit := PerMinute(name, 100)
		lease := w.overtaken(l, limit)
		w.advance(8 * time.Second) // 60 are taken of a full bucket, and 63 have refilled
		metered, writes := w.used(l, bucket.WCU), int64(0)
		w.db.SetHook(onEvery(isWrite, func(memdynamo.Op) (bool, error) { writes++; return true, nil }))
		check.Must(t, errors.Join(more(lease, Costs{name: 5}), lease.Commit(t.Context())))
		w.wantHeld(l, limit, 95)
		if grown := w.used(l, bucket.WCU) - metered; writes != 2 || grown != 1 {
			t.Errorf("%s: %d writes, of which the meter counts %d; want 2, and that one held", name, writes, grown)
		}
	}
}

// A forgotten bucket is settled with the image of the lease's own charge, including its refill
// since; an image of another shard is useless. A cached image takes precedence.
func TestSettlingAForgottenBucket(t *testing.T) {
	for _, c := range []struct {
		forgotten, other bool
		want             int64
	}{{false, false, 5}, {false, true, 5}, {true, false, 5}, {true, true, 10}} { // a plain update: 3 as of a minute ago
		w, l := newProcess(t, Options{})
		lease := must(t, l, asks(Costs{"rpm": 2}, rpm10))
		w.advance(time.Minute)
		if c.forgotten {
			forget(l, acmeGPT)
		}
		if c.other {
			image := lease.image()
			image.State.Shard, image.State.Shards = 1, 2
			lease.after = &image
		}
		check.Must(t, errors.Join(more(lease, Costs{"rpm": 5}), lease.Commit(t.Context())))
		w.wantHeld(l, rpm10, c.want)
		check.Equal(t, w.used(l, "rpm"), 7, "%+v: used", c)
	}
}

// A settlement that is not accepted is repeated a few times, after pauses that double up to a
// bound.
func TestSettlementsPauseLongerEachTime(t *testing.T) {
	for kind, want := range map[store.Kind]struct {
		writes int
		pauses time.Duration // the longest, in milliseconds
	}{
		store.Throttled:   {8, 25 + 50 + 5*100},
		store.Unavailable: {4, 10 + 20 + 40},
		store.Conflict:    {16, 2 + 4 + 8 + 16 + 32 + 10*64},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			lease := must(t, w.process(Options{}), asks(Costs{"tpm": 1}, tpm1000))
			longestPauses(t)
			writes := 0
			w.db.SetHook(func(memdynamo.Op) (bool, error) { writes++; return false, memdynamo.Fail(kind) })
			begin := time.Now()
			err := lease.Rollback(t.Context())
			took := time.Since(begin).Round(time.Millisecond)
			if store.KindOf(err) != kind || writes != want.writes || took != want.pauses*time.Millisecond {
				t.Errorf("%v: %v after %d writes and %s, want %d and %d ms", kind, err, writes, took, want.writes, want.pauses)
			}
		})
	}
}

// Giving back is one write, whatever others have done to the bucket since, and whether or not this
// process has an image.
func TestGivingBackIsOneWrite(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		w, l := newProcess(t, Options{})
		limit := PerHour("rph", 100)
		lease := must(t, l, asks(Costs{"rph": 10}, limit))
		other := w.bystander(l)
		for range 8 {
			must(t, other, asks(Costs{"rph": 10}, limit))
		}
		w.advance(time.Hour)
		must(t, other, asks(Costs{"rph": 60}, limit))
		if forgotten {
			forget(l, acmeGPT)
		}
		writes := 0
		w.db.SetHook(onEvery(isWrite, func(memdynamo.Op) (bool, error) { writes++; return true, nil }))
		if err := lease.Rollback(t.Context()); err != nil || writes != 1 {
			t.Errorf("forgotten %v: %d writes, %v", forgotten, writes, err)
		}
		w.db.SetHook(nil)
		w.wantHeld(l, limit, 50)
	}
}

// Tokens that a lease took from many shards of a slow table are given back within the time of one
// call, all in parallel.
func TestSettlingManyShards(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l, limit := process(), PerDay("rpd", 80)
		must(t, l, asks(Costs{"rpd": 0}, limit))
		w.split(l, 8)
		lease := must(t, l, asks(Costs{"rpd": 80}, limit))
		check.MustEqual(t, len(lease.items), 8, "taken from shards")
		w.db.SetHook(takes(2 * time.Second))
		check.NoError(t, lease.Rollback(t.Context()))
		for _, b := range w.shards(l, acme, gpt) {
			if sl := b.State.Slots[b.State.Index("rpd")]; sl.Tokens != 10*bucket.Milli {
				t.Errorf("shard %d holds %s tokens, want its 10", b.State.Shard, bucket.Tokens(sl.Tokens))
			}
		}
	})
}

// Slots are given back to the epoch in the charge's image. If the image is of another shard,
// without slots, or of other slots, the epoch is unknown, and they become free when it is over.
func TestInWhichEpochSlotsAreGivenBack(t *testing.T) {
	l, three := newWorld(t).process(Options{}), InFlight("jobs", 3, epoch)
	for _, c := range []struct {
		name  string
		slots Limit // in the image
		shard int
		given bool
	}{{"its own", jobs2, 0, true}, {"of another shard", jobs2, 1, false}, {"of other slots", three, 0, false}} {
		image := bucket.New([]bucket.Limit{c.slots.stored()}, c.shard, 2, l.now())
		image.Slots[image.Index("jobs")].End = 12_345
		costs := []table.Cost{{Limit: jobs2.stored(), Milli: -bucket.Milli}}
		costs = desk.Pinned(costs, table.Shard{State: image}, l.now())
		if got := costs[0]; (got.Milli == -bucket.Milli && got.End == 12_345) != c.given || (got.Milli == 0) == c.given {
			t.Errorf("%s: %d millislots are given back to %d", c.name, got.Milli, got.End)
		}
	}
}

// Tokens given back to a quota without an image belong to the current period. In the two seconds
// after an edge, with different clocks, that is the previous one.
func TestInWhichPeriodAQuotaIsGivenBack(t *testing.T) {
	w := newWorld(t)
	l, quota := w.process(Options{}), Quota("rpd", 9, Daily("")).stored()
	edge := midnight(w)
	for after, want := range map[time.Duration]time.Time{
		-time.Hour: edge, -time.Millisecond: edge, 0: edge, 1999 * time.Millisecond: edge,
		2 * time.Second: edge.Add(24 * time.Hour),
	} {
		w.now.Store(edge.Add(after).UnixMilli())
		costs := []table.Cost{{Limit: quota, Milli: -1000}, {Limit: quota, Milli: 1000}}
		costs = desk.Pinned(costs, table.Shard{}, l.now())
		if costs[0].End != want.UnixMilli() || costs[1].End != 0 || costs[0].Milli != -1000 {
			t.Errorf("%s from the edge: %+v, want an end of %d", after, costs, want.UnixMilli())
		}
	}
}

// A settlement may put the bucket so deep into debt that the debt outlives the ttl. The write that
// takes the debt also moves the ttl: if the process dies right after it, the bucket does not expire
// before the debt is paid.
func TestDebtSurvivesACrash(t *testing.T) {
	for _, taken := range []int64{1, 1000} {
		w, l := newProcess(t, Options{})
		lease := must(t, l, asks(Costs{"tpm": taken}, PerMinute("tpm", 1000)))
		check.Must(t, more(lease, Costs{"tpm": 100_000}))
		w.db.SetHook(onCall(isWrite, 1,
			func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) }))
		check.Must(t, lease.Commit(t.Context()))
		b := w.shards(l, acme, gpt)[0]
		if full := b.State.FullAt(w.now.Load()); b.TTL*1000 < full {
			t.Errorf("%d taken: expires %d s before the debt is earned", taken, full/1000-b.TTL)
		}
	}
}

// settles ends a lease whose work has cost more than it took.
func settles(t *testing.T, lease *Lease, over int64) {
	t.Helper()
	check.NoError(t, errors.Join(more(lease, Costs{"tpm": over}), lease.Commit(t.Context())))
}

// A bucket's debt is the additional costs of settlements, to the millitoken, in whatever order; the
// same holds for the usage. Nothing is granted during a debt. So the debt is at most the additional
// costs of the requests that were at work when it began.
func TestDebtIsBoundedByWorkUnderWay(t *testing.T) {
	deepest := int64(0)
	for seed := range uint64(4) {
		w, rng := newWorld(t), rand.New(rand.NewPCG(seed, 16))
		tpm := PerMinute("tpm", 60).WithCapacity(200) // a millitoken per millisecond
		var processes []*Limiter
		for range 6 {
			processes = append(processes, w.process(Options{}))
		}
		var atWork []*Lease
		held, spent, since := tpm.Capacity*1000, int64(0), int64(0) // since the last grant settled above, in millitokens
		took := func(lease *Lease, n int64) {
			atWork, held, spent, since = append(atWork, lease), held-n*1000, spent+n, 0
		}
		for range 15 { // from here on it is never full
			took(must(t, processes[0], asks(Costs{"tpm": 10}, tpm)), 10)
		}
		over := func(lease *Lease) {
			n := rng.Int64N(100) * rng.Int64N(100)
			settles(t, lease, n)
			held, spent, since = held-n*1000, spent+n, since+n*1000
		}
		for step := range 400 {
			if i := rng.IntN(60); i < len(atWork) {
				over(atWork[i])
				atWork = append(atWork[:i], atWork[i+1:]...)
			}
			n := 1 + rng.Int64N(9)
			lease, err := processes[rng.IntN(6)].Acquire(t.Context(), asks(Costs{"tpm": n}, tpm))
			switch {
			case err == nil && held < n*1000:
				t.Fatalf("seed %d, step %d: %d granted of %d millitokens", seed, step, n, held)
			case err == nil:
				took(lease, n)
			case !errors.Is(err, ErrLimited):
				t.Fatal(err)
			}
			deepest = max(deepest, -held)
			if -held > since || held >= tpm.Capacity*1000 {
				t.Fatalf("seed %d, step %d: holds %d millitokens, %d settled above since the last grant", seed, step, held, since)
			}
			if got := w.held(processes[0], tpm); got.Cmp(big.NewRat(held, 1000)) != 0 || w.used(processes[0], "tpm") != spent {
				t.Fatalf("seed %d, step %d: holds %s, %d used; want %d millitokens, %d", seed, step, got.FloatString(3),
					w.used(processes[0], "tpm"), held, spent)
			}
			pause := rng.Int64N(3000)
			if rng.IntN(20) == 0 && held < 0 {
				pause = -held // paid by the refill
			}
			w.advance(time.Duration(pause) * time.Millisecond)
			held += pause
		}
		desk.InParallel(len(atWork), func(i int) error { settles(t, atWork[i], 1000); return nil })
		held -= int64(len(atWork)) * 1_000_000
		_, err := w.process(Options{}).Acquire(t.Context(), asks(Costs{"tpm": 1}, tpm))
		d, ok := errors.AsType[*LimitError](err)
		left := bucket.WholeTokens(held)
		if !ok || d.Estimated || d.RetryAfter.Milliseconds() != 1000-held || d.Remaining != left {
			t.Errorf("seed %d: with %d millitokens: %v", seed, held, err)
		}
	}
	if deepest < 20_000_000 {
		t.Errorf("owed %d millitokens at most, which shows nothing", deepest)
	}
}

// Debts beyond 64 bits are stored and counted as used to the millitoken. Callers get the lowest
// level and the longest wait that can be expressed.
func TestTheDeepestDebt(t *testing.T) {
	w := newWorld(t)
	l, tpm := w.process(Options{}), PerHour("tpm", 400)
	var leases []*Lease
	for range 12 {
		leases = append(leases, must(t, w.process(Options{}), asks(Costs{"tpm": 1}, tpm)))
	}
	back := must(t, l, asks(Costs{"tpm": 1}, tpm))
	for _, lease := range leases {
		settles(t, lease, MaxTokens-1)
	}
	check.Must(t, back.Rollback(t.Context()))
	stored := w.db.Item(w.shards(l, acme, gpt)[0].Key())
	for attr, want := range map[string]item.Value{
		"b_tpm_tc": item.Plus(item.N(6*MaxTokens*1000), 6*MaxTokens*1000),
		"b_tpm_tk": item.Plus(item.N(400_000-6*MaxTokens*1000), -6*MaxTokens*1000),
	} {
		if !item.Equal(stored[attr], want) {
			t.Errorf("%s is %v, want %v", attr, stored[attr], want)
		}
	}
	for _, p := range []*Limiter{l, w.process(Options{})} {
		_, denied := p.Acquire(t.Context(), asks(Costs{"tpm": 1}, tpm))
		_, _, full := p.Reserve(t.Context(), asks(Costs{"tpm": 1}, tpm))
		check.Is(t, full, ErrQueueFull, "reserve")
		for _, err := range []error{denied, full} {
			d, ok := errors.AsType[*LimitError](err)
			if !ok {
				t.Fatalf("got %v, want denied", err)
			}
			s := d.Statuses[0]
			if d.RetryAfter != longestWait || s.RetryAfter != longestWait || s.ResetAfter != longestWait ||
				d.Remaining != s.Remaining || s.Remaining > math.MinInt64/1000 {
				t.Errorf("%v: %+v", err, s)
			}
		}
	}
}

// settlement is one way to settle a lease on 2 of 10 tokens.
type settlement struct {
	name   string
	settle func(context.Context, *Lease) error
	left   int64 // tokens after it, from 8 before
}

func adjustThenCommit(costs Costs) func(context.Context, *Lease) error {
	return func(ctx context.Context, le *Lease) error {
		if le.actual == nil {
			if err := more(le, costs); err != nil {
				return err
			}
		}
		return le.Commit(ctx)
	}
}

var settlements = []settlement{
	{"commit more", adjustThenCommit(Costs{"rpm": 3}), 5},
	{"commit into debt", adjustThenCommit(Costs{"rpm": 30}), -22},
	{"commit less", adjustThenCommit(Costs{"rpm": -1}), 9},
	{"rollback", func(ctx context.Context, le *Lease) error { return le.Rollback(ctx) }, 10},
}

// TestSettlementOfDeletedBucket (W6): a bucket that is deleted, before or during the call, is not
// settled, and no skeleton is left behind.
func TestSettlementOfDeletedBucket(t *testing.T) {
	for _, s := range settlements {
		for _, when := range []string{"before", "in flight", "a limit of it"} {
			t.Run(s.name+"/"+when, func(t *testing.T) {
				w, l := newProcess(t, Options{})
				lease := must(t, l, asks(Costs{"rpm": 2}, rpm10))
				gone := func() { w.db.Delete(layout.BucketKey(l.namespace, acme, gpt, 0)) }
				switch when {
				case "before":
					gone()
				case "a limit of it":
					w.edit(l, 0, item.Item{"b_rpm_tk": nil, "b_rpm_cp": nil, "b_rpm_ra": nil, "b_rpm_rp": nil,
						"b_rpm_tc": nil})
				default:
					w.db.SetHook(onCall(isWrite, 0, func(memdynamo.Op) (bool, error) { gone(); return true, nil }))
				}
				check.Must(t, s.settle(t.Context(), lease))
				if b := w.shards(l, acme, gpt); when != "a limit of it" && len(b) != 0 {
					t.Fatalf("there is a bucket again: %v", b)
				}
				if when == "a limit of it" {
					it := w.db.Item(layout.BucketKey(l.namespace, acme, gpt, 0))
					for _, attr := range []string{"b_rpm_tk", "b_rpm_tc"} {
						if it[attr] != nil {
							t.Fatalf("%s is back without its limit", attr)
						}
					}
				}
				w.db.SetHook(nil)
				wantGranted(t, l, asks(Costs{"rpm": 1}, rpm10), 10)
			})
		}
	}
}

// A settlement whose charge is always refused, because others are first, is still taken.
func TestSettlementThatAlwaysLosesIsTaken(t *testing.T) {
	w, l := newProcess(t, Options{})
	lease := must(t, l, asks(Costs{"rpm": 2}, rpm10))
	refused := 0
	hook := func(op memdynamo.Op) (bool, error) {
		if u, ok := op.Writes[0].(item.Update); ok && len(u.SetLess) > 0 { // it depends on the image
			refused++
			return false, w.refusedNow(op)
		}
		return true, nil
	}
	w.db.SetHook(hook)
	check.Must(t, adjustThenCommit(Costs{"rpm": 3})(t.Context(), lease))
	w.db.SetHook(nil)
	if refused == 0 || refused >= desk.SettleAttempts {
		t.Errorf("%d charges were refused before it was taken", refused)
	}
	w.wantHeld(l, rpm10, 5)

	// Such a debt outlives no bucket either, although the write that took it could not move the
	// expiry.
	lease = must(t, l, asks(Costs{"rpm": 1}, rpm10))
	w.db.SetHook(hook)
	check.Must(t, adjustThenCommit(Costs{"rpm": 100_000})(t.Context(), lease))
	w.db.SetHook(nil)
	if b := w.shards(l, acme, gpt)[0]; b.TTL*1000 < b.State.FullAt(w.now.Load()) {
		t.Errorf("it expires at %d, before it is full at %d", b.TTL*1000, b.State.FullAt(w.now.Load()))
	}
}

// outrun refuses every charge, as if others were always first, lets a write that depends on no
// image pass, and uses then for the following ones.
func (w *world) outrun(then memdynamo.Hook) {
	settled := false
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if u, ok := op.Writes[0].(item.Update); ok && len(u.SetLess) > 0 { // it depends on the image
			return false, w.refusedNow(op)
		}
		if settled {
			return then(op)
		}
		settled = true
		return true, nil
	})
}

// If the expiry of such a debt cannot be moved, that is reported. The settlement has succeeded.
func TestUnmovedExpiryIsReported(t *testing.T) {
	w := newWorld(t)
	var told []Event
	l := w.process(Options{Observe: only(EventUpkeep, func(e Event) { told = append(told, e) })})
	lease := must(t, l, asks(Costs{"rpm": 1}, rpm10))
	w.outrun(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Setup) }) // that of the expiry
	check.Must(t, adjustThenCommit(Costs{"rpm": 100_000})(t.Context(), lease))
	if len(told) != 1 || told[0].Entity != acme || told[0].Resource != gpt || !errors.Is(told[0].Err, ErrSetup) {
		t.Errorf("reported %+v", told)
	}
}

// If the table throttles the write that moves the expiry, it is repeated a few times, with pauses.
func TestAnExpiryIsMovedAsSoonAsTheTableLets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		told := 0
		l := w.process(Options{Observe: only(EventUpkeep, func(Event) { told++ })})
		lease := must(t, l, asks(Costs{"rpm": 1}, rpm10))
		longestPauses(t)
		slowed := 0
		w.outrun(func(memdynamo.Op) (bool, error) {
			if slowed++; slowed < 8 {
				return false, memdynamo.Fail(store.Conflict)
			}
			return true, nil
		})
		begin := time.Now()
		check.Must(t, adjustThenCommit(Costs{"rpm": 100_000})(t.Context(), lease))
		took := time.Since(begin).Round(time.Millisecond)
		if b := w.shards(l, acme, gpt)[0]; told != 0 || slowed != 8 || took != (2+4+8+16+32+64+128)*time.Millisecond ||
			b.TTL*1000 < b.State.FullAt(w.now.Load()) {
			t.Errorf("reported %d times after %d writes and %s, it expires at %d", told, slowed, took, b.TTL)
		}
	})
}

// A lease on a bucket whose write meter others have removed still gives back its tokens.
func TestRollbackWithoutAMeter(t *testing.T) {
	w, l := newProcess(t, Options{})
	lease := must(t, l, asks(Costs{"rpm": 2}, rpm10))
	none := item.Item{}
	for name := range w.db.Item(layout.BucketKey(l.namespace, acme, gpt, 0)) {
		if strings.HasPrefix(name, "b_wcu_") {
			none[name] = nil
		}
	}
	w.edit(l, 0, none)
	if err := lease.Rollback(t.Context()); err != nil || len(none) == 0 {
		t.Fatal(err, none)
	}
	w.wantHeld(l, rpm10, 10)

	lease = must(t, l, asks(Costs{"rpm": 2, "tpm": 5}, rpm10, tpm1000))
	w.edit(l, 0, none)
	w.edit(l, 0, item.Item{"b_tpm_tk": nil, "b_tpm_cp": nil, "b_tpm_ra": nil, "b_tpm_rp": nil, "b_tpm_tc": nil})
	check.Must(t, lease.Rollback(t.Context()))
	w.wantHeld(l, rpm10, 10) // also if another limit is gone
}

// A client that panics while a lease on several shards is given back does not end the process: that
// shard's outcome is unknown, and the others are given back.
func TestPanicWhileSeveralShardsAreGivenBack(t *testing.T) {
	limit := PerDay("rpd", 8)
	for shards, left := range map[int]int64{1: 0, 2: 4, 4: 6} {
		w, l := newProcess(t, Options{})
		must(t, l, asks(Costs{"rpd": 0}, limit))
		w.split(l, shards)
		lease := must(t, l, asks(Costs{"rpd": 8}, limit))
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if _, _, _, shard, _ := layout.ParseBucketPK(op.Writes[0].Target().PK); shard == shards/2 {
				panic("middleware")
			}
			return true, nil
		})
		check.Is(t, lease.Rollback(t.Context()), ErrUnknown, "%d shards", shards)
		w.db.SetHook(nil)
		w.wantHeld(l, limit, left)
	}
}

// The same for a lease on a bucket and its parent's: each is given back independently.
func TestPanicWhileALevelIsGivenBack(t *testing.T) {
	w, l := family(t, 100, Options{})
	lease := must(t, l, stored(Costs{"rpm": 3}))
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if _, entity, _, _, _ := layout.ParseBucketPK(op.Writes[0].Target().PK); entity == "org" {
			panic("middleware")
		}
		return true, nil
	})
	check.MustBe(t, lease.Rollback(t.Context()), ErrUnknown)
	w.wantSpent(l, "given back", map[string]int64{acme: 0, "org": 3})
}
