package limiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// settlement is one way to settle a lease on 2 of 10 tokens.
type settlement struct {
	name   string
	settle func(context.Context, *Lease) error
	left   int64 // tokens after it, of the 8 before
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

// TestSettlementsUnderFaults: the write of every settlement meets every fault.
// What is not known to be written may be repeated and then counts once; what may
// be written is not repeated.
func TestSettlementsUnderFaults(t *testing.T) {
	cases := []struct {
		name     string
		forever  bool
		hook     func(f *faulty, op memdynamo.Op) (bool, error)
		commit   string // outcome; "" as for commit
		rollback string
		settled  bool // in the table
		rival    int64
	}{
		{"none", false, func(*faulty, memdynamo.Op) (bool, error) { return true, nil }, "granted", "granted", true, 0},
		{"somebody else writes first", false,
			func(f *faulty, _ memdynamo.Op) (bool, error) { f.rival(); return true, nil }, "granted", "granted", true, 1},
		{"applied, answer lost", false, inject(true, store.Unknown), "unknown", "unknown", true, 0},
		{"not applied, answer lost", false, inject(false, store.Unknown), "unknown", "unknown", false, 0},
		{"throttled once", false, inject(false, store.Throttled), "granted", "granted", true, 0},
		{"throttled for ever", true, inject(false, store.Throttled), "unavailable", "unavailable", false, 0},
		{"conflict once", false, inject(false, store.Conflict), "granted", "granted", true, 0},
		{"conflict for ever", true, inject(false, store.Conflict), "unavailable", "unavailable", false, 0},
		{"store down", true, inject(false, store.Unavailable), "unavailable", "unavailable", false, 0},
		{"canceled in flight, applied", false, vanish(true), "unknown", "granted", true, 0},
		{"never answered, applied", false, hang(true), "unknown", "unknown", true, 0},
		{"never answered, not applied", false, hang(false), "unknown", "unknown", false, 0},
	}
	for _, s := range settlements {
		for _, c := range cases {
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					l := w.process(Options{Timeout: 2 * time.Second})
					lease := must(t, l, asks(Costs{"rpm": 2}, rpm10))
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					env := &faulty{w: w, cancel: cancel, rival: func() { must(t, w.bystander(l), asks(Costs{"rpm": 1}, rpm10)) }}
					hook := func(op memdynamo.Op) (bool, error) { return c.hook(env, op) }
					if !c.forever {
						hook = onCall(isWrite, 0, hook)
					}
					w.db.SetHook(hook)
					err := s.settle(ctx, lease)
					w.db.SetHook(nil)

					want := c.commit
					if s.name == "rollback" {
						want = c.rollback
					}
					if kindName(err) != want {
						t.Fatalf("outcome %v, want %s", err, want)
					}
					left := map[bool]int64{true: s.left, false: 8}[c.settled] - c.rival
					w.wantHeld(l, rpm10, left)
					if got := w.used(l, "rpm"); got != 10-left {
						t.Fatalf("counted %d used, want %d", got, 10-left)
					}

					again := s.settle(t.Context(), lease)
					if want == "unavailable" {
						if again != nil {
							t.Fatalf("second try after unavailable: %v", again)
						}
						w.wantHeld(l, rpm10, s.left)
						return
					}
					if s.name == "rollback" && again != nil || s.name != "rollback" && !errors.Is(again, ErrLeaseClosed) {
						t.Fatalf("second try: %v, want a lease that has ended", again)
					}
					w.wantHeld(l, rpm10, left)
				})
			})
		}
	}
}

// TestSettlementCanceledBeforehand: a commit whose caller has gone is unavailable
// and can be repeated; a rollback is carried out all the same.
func TestSettlementCanceledBeforehand(t *testing.T) {
	for _, s := range settlements {
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t)
			l := w.process(Options{})
			lease := must(t, l, asks(Costs{"rpm": 2}, rpm10))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := s.settle(ctx, lease)
			if s.name == "rollback" {
				if err != nil {
					t.Fatal(err)
				}
			} else {
				if !errors.Is(err, ErrUnavailable) {
					t.Fatalf("got %v, want unavailable", err)
				}
				w.wantHeld(l, rpm10, 8)
				if err := s.settle(t.Context(), lease); err != nil {
					t.Fatal(err)
				}
			}
			w.wantHeld(l, rpm10, s.left)
		})
	}
}

// TestSettlementOfDeletedBucket (W6): there is nothing to settle in a bucket
// that is gone, before or while the call runs, and no skeleton is left behind.
func TestSettlementOfDeletedBucket(t *testing.T) {
	for _, s := range settlements {
		for _, when := range []string{"before", "in flight", "a limit of it"} {
			t.Run(s.name+"/"+when, func(t *testing.T) {
				w := newWorld(t)
				l := w.process(Options{})
				lease := must(t, l, asks(Costs{"rpm": 2}, rpm10))
				gone := func() { w.db.Delete(layout.BucketKey(l.namespace, acme, gpt, 0)) }
				switch when {
				case "before":
					gone()
				case "a limit of it":
					w.edit(l, 0, item.Item{"b_rpm_tk": nil, "b_rpm_cp": nil, "b_rpm_ra": nil, "b_rpm_rp": nil, "b_rpm_tc": nil})
				default:
					w.db.SetHook(onCall(isWrite, 0, func(memdynamo.Op) (bool, error) { gone(); return true, nil }))
				}
				if err := s.settle(t.Context(), lease); err != nil {
					t.Fatal(err)
				}
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
				if n := drain(t, l, asks(Costs{"rpm": 1}, rpm10)); n != 10 {
					t.Fatalf("%d granted afterwards, want a full bucket of 10", n)
				}
			})
		}
	}
}

// TestRollbackGoesToTheShardThatPaid (W11), and so do adjustments.
func TestRollbackGoesToTheShardThatPaid(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	limit := PerMinute("rpm", 80)
	must(t, l, asks(Costs{"rpm": 1}, limit))
	w.split(l, 4)
	must(t, l, asks(Costs{"rpm": 1}, limit)) // learns the count
	levels := func() (out []int64) {
		for _, b := range w.shards(l, acme, gpt) {
			out = append(out, b.State.Slots[b.State.Index("rpm")].Tokens)
		}
		return out
	}
	hit := map[int]bool{}
	// A process stays with a shard for up to 16 writes: 3,000 requests are 180 draws or more.
	for n := 0; n < 200 || len(hit) < 4 && n < 3000; n++ {
		before := levels()
		lease := must(t, l, asks(Costs{"rpm": 3}, limit))
		shard := lease.items[0].Shard
		hit[shard] = true
		if after := levels(); after[shard] != before[shard]-3000 {
			t.Fatalf("lease names shard %d, levels went from %d to %d", shard, before, after)
		}
		if shard%2 == 0 {
			if err := lease.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		} else if err := adjustThenCommit(Costs{"rpm": -3})(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		if after := levels(); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Fatalf("levels %d, were %d before shard %d paid and was given back", after, before, shard)
		}
	}
	if len(hit) != 4 {
		t.Fatalf("shards %v paid, want all 4", hit)
	}
}

// Whether a lease has charged something can be asked at any time, also while it is
// being settled.
func TestChargedWhileSettling(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
	lease := must(t, l, asks(Costs{"rpm": 2}, rpm10))
	w.db.SetHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			if !lease.Charged() || lease.Cause() != nil || lease.Entity() != acme {
				t.Error("the lease has charged")
			}
		}
	}()
	for range 10 {
		if err := lease.Rollback(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
	}
	<-done
	w.db.SetHook(nil)
	if err := lease.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	w.wantHeld(l, rpm10, 10)
}

// A settlement whose charge is refused again and again, because others are always
// first, is taken all the same.
func TestSettlementThatAlwaysLosesIsTaken(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
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
	if err := adjustThenCommit(Costs{"rpm": 3})(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	w.db.SetHook(nil)
	if refused == 0 || refused >= desk.SettleAttempts {
		t.Errorf("%d charges were refused before it was taken", refused)
	}
	w.wantHeld(l, rpm10, 5)

	// A debt that is taken so outlives no bucket either, though the write that took it
	// could not move the expiry.
	lease = must(t, l, asks(Costs{"rpm": 1}, rpm10))
	w.db.SetHook(hook)
	if err := adjustThenCommit(Costs{"rpm": 100_000})(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	w.db.SetHook(nil)
	if b := w.shards(l, acme, gpt)[0]; b.TTL*1000 < b.State.FullAt(w.now.Load()) {
		t.Errorf("it expires at %d, before it is full at %d", b.TTL*1000, b.State.FullAt(w.now.Load()))
	}
}

// Who observes is told if the expiry of such a debt could not be moved. The settlement has held.
func TestUnmovedExpiryIsReported(t *testing.T) {
	w := newWorld(t)
	var told []Event
	l := w.process(Options{Observe: only(EventUpkeep, func(e Event) { told = append(told, e) })})
	lease := must(t, l, asks(Costs{"rpm": 1}, rpm10))
	settled := false
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if u, ok := op.Writes[0].(item.Update); ok && len(u.SetLess) > 0 {
			return false, w.refusedNow(op)
		}
		if settled { // the next write is for the expiry
			return false, memdynamo.Fail(store.Setup)
		}
		settled = true
		return true, nil
	})
	if err := adjustThenCommit(Costs{"rpm": 100_000})(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0].Entity != acme || told[0].Resource != gpt || !errors.Is(told[0].Err, ErrSetup) {
		t.Errorf("told %+v", told)
	}
}

// The expiry is tried to be moved a few times, with pauses, where the table slows it down.
func TestAnExpiryIsMovedAsSoonAsTheTableLets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		told := 0
		l := w.process(Options{Observe: only(EventUpkeep, func(Event) { told++ })})
		lease := must(t, l, asks(Costs{"rpm": 1}, rpm10))
		longestPauses(t)
		settled, slowed := false, 0
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if u, ok := op.Writes[0].(item.Update); ok && len(u.SetLess) > 0 {
				return false, w.refusedNow(op)
			}
			if !settled {
				settled = true
				return true, nil
			}
			if slowed++; slowed < 8 {
				return false, memdynamo.Fail(store.Conflict)
			}
			return true, nil
		})
		begin := time.Now()
		if err := adjustThenCommit(Costs{"rpm": 100_000})(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begin).Round(time.Millisecond)
		if b := w.shards(l, acme, gpt)[0]; told != 0 || slowed != 8 || took != (2+4+8+16+32+64+128)*time.Millisecond ||
			b.TTL*1000 < b.State.FullAt(w.now.Load()) {
			t.Errorf("told %d times after %d writes and %s, it expires at %d", told, slowed, took, b.TTL)
		}
	})
}

// A lease on a bucket whose write meter others have taken away gives back what it took.
func TestRollbackWithoutAMeter(t *testing.T) {
	w := newWorld(t)
	l := w.process(Options{})
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
	if err := lease.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantHeld(l, rpm10, 10) // beside a limit that is gone, too
}

// A client that panics while a lease on several shards is given back takes nobody down: what became of
// that shard is unknown, and the others are given back. Where there are no others it passes through.
func TestPanicWhileSeveralShardsAreGivenBack(t *testing.T) {
	limit := PerDay("rpd", 8)
	for shards, left := range map[int]int64{1: 0, 2: 4, 4: 6} {
		w := newWorld(t)
		l := w.process(Options{})
		must(t, l, asks(Costs{"rpd": 0}, limit))
		w.split(l, shards)
		lease := must(t, l, asks(Costs{"rpd": 8}, limit))
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if _, _, _, shard, _ := layout.ParseBucketPK(op.Writes[0].Target().PK); shard == shards/2 {
				panic("middleware")
			}
			return true, nil
		})
		err, passed := error(nil), any(nil)
		func() {
			defer func() { passed = recover() }()
			err = lease.Rollback(t.Context())
		}()
		if errors.Is(err, ErrUnknown) != (shards > 1) || (passed != nil) != (shards == 1) {
			t.Errorf("%d shards: got %v and %v, want unknown, or the panic of a single one", shards, err, passed)
		}
		w.db.SetHook(nil)
		w.wantHeld(l, limit, left)
	}
}

// A settlement that is slowed down is sent eight times at most, with pauses for the table to recover.
func TestSettlementsThatAreSlowedDownEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		lease := must(t, w.process(Options{}), asks(Costs{"rpm": 1}, rpm10))
		sent := 0
		w.db.SetHook(func(memdynamo.Op) (bool, error) { sent++; return false, memdynamo.Fail(store.Throttled) })
		if err := lease.Rollback(t.Context()); !errors.Is(err, ErrUnavailable) || sent > 8 {
			t.Errorf("sent %d times: %v", sent, err)
		}
	})
}
