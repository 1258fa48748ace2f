package limiter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
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

// TestSettlementOfDeletedBucket (W6): there is nothing to settle in a bucket
// that is gone, before or while the call runs, and no skeleton is left behind.
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
					w.edit(l, 0, item.Item{"b_rpm_tk": nil, "b_rpm_cp": nil, "b_rpm_ra": nil, "b_rpm_rp": nil, "b_rpm_tc": nil})
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

// A settlement whose charge is refused again and again, because others are always
// first, is taken all the same.
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

	// A debt that is taken so outlives no bucket either, though the write that took it
	// could not move the expiry.
	lease = must(t, l, asks(Costs{"rpm": 1}, rpm10))
	w.db.SetHook(hook)
	check.Must(t, adjustThenCommit(Costs{"rpm": 100_000})(t.Context(), lease))
	w.db.SetHook(nil)
	if b := w.shards(l, acme, gpt)[0]; b.TTL*1000 < b.State.FullAt(w.now.Load()) {
		t.Errorf("it expires at %d, before it is full at %d", b.TTL*1000, b.State.FullAt(w.now.Load()))
	}
}

// outrun refuses every charge, as if others were always first, lets the write pass that depends on no image, and has
// then decide on those that follow.
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

// Who observes is told if the expiry of such a debt could not be moved. The settlement has held.
func TestUnmovedExpiryIsReported(t *testing.T) {
	w := newWorld(t)
	var told []Event
	l := w.process(Options{Observe: only(EventUpkeep, func(e Event) { told = append(told, e) })})
	lease := must(t, l, asks(Costs{"rpm": 1}, rpm10))
	w.outrun(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Setup) }) // that of the expiry
	check.Must(t, adjustThenCommit(Costs{"rpm": 100_000})(t.Context(), lease))
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
			t.Errorf("told %d times after %d writes and %s, it expires at %d", told, slowed, took, b.TTL)
		}
	})
}

// A lease on a bucket whose write meter others have taken away gives back what it took.
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
	w.wantHeld(l, rpm10, 10) // beside a limit that is gone, too
}

// A client that panics while a lease on several shards is given back takes nobody down: what became of
// that shard is unknown, and the others are given back.
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

// Nor does it where the lease is on a bucket and on its parent's: each is given back by itself.
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
