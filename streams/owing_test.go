package streams

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// If a list of owed days is not stored, or that is unknown, its usage is not done: within a window
// it is carried on, at the end counted again, and then found counted. The day gets it once.
func TestUnstoredListsAreNotDone(t *testing.T) {
	for _, c := range []struct {
		applied, final bool
		kind           store.Kind
	}{{false, false, store.Unavailable}, {false, true, store.Unavailable}, {true, false, store.Unknown},
		{true, true, store.Unknown}, {false, false, store.Throttled}, {false, true, store.Throttled}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { listNotStored(t, c.applied, c.final, c.kind) })
		})
	}
}

func listNotStored(t *testing.T, applied, final bool, kind store.Kind) {
	r, seen := newRig(t), int64(0)
	const n = 20
	round := func() {
		for i := range n {
			r.take(fmt.Sprint("tenant-", i), 0, 1, 100)
		}
	}
	round()
	r.within(&seen, nil, true) // later batches continue the day
	round()
	state, _ := r.within(&seen, nil, false)
	if !final {
		r.now += time.Hour.Milliseconds() // carried usage is due with the next record
		r.take("another", 0, 1, 1)
	}
	lists := 0
	r.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if target(op).PK == ledger.OwedPK && !strings.HasPrefix(target(op).SK, "#") {
			lists++
			return applied, memdynamo.Fail(kind)
		}
		return true, nil
	})
	payload := windowed(records(r.since(seen)), state, final)
	out, err := r.agg.Invoke(t.Context(), payload)
	if (err != nil) != final || lists == 0 {
		t.Fatalf("response %s, %v after %d lists", out, err, lists)
	}
	r.db.SetHook(nil)
	if final {
		out, err = r.agg.Invoke(t.Context(), payload) // as Lambda does
	} else {
		check.Equal(t, strings.Count(r.metrics.String(), fmt.Sprintf(`"Pending":%d`, n+1)), 1,
			"not carried on: %s", r.metrics.String())
		_, after, _ := strings.Cut(string(out), `"state":`)
		out, err = r.agg.Invoke(t.Context(), windowed(nil, []byte(strings.TrimSuffix(after, "}")), true))
	}
	check.Must(t, err, "the next attempt: %s", out)
	r.now += 3 * time.Hour.Milliseconds()
	r.metrics.Reset()
	check.Must(t, check.Err(r.agg.Invoke(t.Context(), windowed(nil, nil, true)))) // the day catches up
	for i := range n {
		check.MustEqual(t, r.snapshot(fmt.Sprint("tenant-", i), aDay).Counts["rpm"], 2, "day of tenant %d", i)
	}
}

// The same if lists fail twice. The list of the first attempt was not stored, so usage that is then
// found counted is carried on too.
func TestListsThatFailTwiceAreCarriedOn(t *testing.T) {
	for day, want := range map[string]int64{"begins": 1, "goes on": 2} {
		t.Run(day, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { listNotStoredTwice(t, want) }) })
	}
}

// listNotStoredTwice requires want tokens in the day of each of two buckets. One of them was listed
// before.
func listNotStoredTwice(t *testing.T, want int64) {
	r, seen := newRig(t), int64(0)
	if want == 2 {
		r.take("first", 0, 1, 100)
		r.take("second", 0, 1, 100)
		r.within(&seen, nil, true)
	}
	r.take("first", 0, 1, 100)
	state, _ := r.within(&seen, nil, false)
	r.now += time.Hour.Milliseconds() // due with the next record
	r.take("second", 0, 1, 100)
	r.fails(func(op memdynamo.Op) bool {
		return strings.HasPrefix(target(op).SK, "0")
	})
	state, _ = r.within(&seen, state, false) // counts the first, cannot list it
	r.now += time.Hour.Milliseconds()        // now the second is due too
	r.take("third", 0, 1, 1)
	state, _ = r.within(&seen, state, false) // finds the first, counts the second
	r.db.SetHook(nil)
	_, _ = r.within(&seen, state, true)
	r.now += 3 * time.Hour.Milliseconds()
	r.within(&seen, nil, true) // the day catches up
	for _, of := range []string{"first", "second"} {
		check.Equal(t, r.snapshot(of, aDay).Counts["rpm"], want, "day of the %s", of)
	}
}

// Buckets that were found counted are listed once all are counted, not at every attempt before.
func TestFoundBucketsAreListedWithTheRest(t *testing.T) {
	r := newRig(t)
	r.take("first", 0, 1, 100)
	r.take("second", 0, 1, 100)
	payload := windowed(records(r.since(0)), nil, true)
	for attempt, want := range []int{1, 0, 2} { // the last attempt lists both
		lists := 0
		r.db.SetHook(func(op memdynamo.Op) (bool, error) {
			for _, w := range op.Writes {
				if _, list := w.(item.Put); list {
					lists++
				}
				if attempt < 2 && w.Target().PK == layout.UsageKey("ns", "second", "gpt", "").PK {
					return false, memdynamo.Fail(store.Unavailable)
				}
			}
			return true, nil
		})
		_, err := r.agg.Invoke(t.Context(), payload)
		if (err == nil) != (attempt == 2) || lists != want {
			t.Errorf("attempt %d: %v, %d lists, want %d", attempt, err, lists, want)
		}
	}
}

// A list is not stored if it would wait for its write units longer than the catch-up waits for
// lists: its days would never be summed.
func TestListsThatWouldBeTooLateAreNotStored(t *testing.T) {
	for late, stored := range map[time.Duration]bool{owedGrace / 3: true, owedGrace: false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.agg.pace = &pace{each: time.Second, next: time.Now().Add(late)}
			a, _ := r.agg.metered()
			var o owing
			from := []*counting{{owed: []usage.Owed{{Bucket: gpt("acme")}}}}
			err := o.store(t.Context(), a, from, closeAttempts)
			if (err == nil) != stored || errors.Is(err, errOwed) == stored || (o.stored == 1) != stored {
				t.Errorf("%v late: %v, stored %d", late, err, o.stored)
			}
		})
	}
}

// A list holds 132 buckets with long names, 64 KB. Each list that is stored while others are
// counted has that many, and so have all lists at the end but the last.
func TestListsAreAsLongAsPossible(t *testing.T) {
	const n, each = 400, 500
	var all []*counting
	for i := range n {
		o := usage.Owed{Bucket: gpt(fmt.Sprintf("%0*d", each-16-5, i))}
		all = append(all, &counting{owed: []usage.Owed{o}})
	}
	r := newRig(t)
	var lists []int
	r.watch(func(op memdynamo.Op) {
		for _, w := range op.Writes {
			put, ok := w.(item.Put)
			owed, err := usage.UnpackOwed(ledger.PackedOwed(put.Item), usage.Daily)
			if !ok || err != nil {
				t.Errorf("%v, %v", w, err)
			}
			lists = append(lists, len(owed))
			r.now++ // the key of a list is its instant
		}
	})
	var begun, whole, failed owing
	for _, c := range all {
		begun.add(t.Context(), r.agg, c, false)
	}
	if got := fmt.Sprint(lists); got != "[132 132 132]" || len(begun.from) != n-3*132 || begun.stored != 3*132 {
		t.Errorf("lists of %s, %d are left", got, len(begun.from))
	}
	lists = nil
	if err := whole.storeAll(t.Context(), r.agg, all); err != nil || fmt.Sprint(lists) != "[132 132 132 4]" {
		t.Errorf("lists of %v, %v", lists, err)
	}
	check.Equal(t, whole.stored, n, "said")
	r.db.SetHook(failing(false, store.Unavailable))
	for _, c := range all {
		failed.add(t.Context(), r.agg, c, false)
	}
	if failed.stored != 0 || len(failed.from) != n {
		t.Errorf("%d kept for the end, %d listed, though no list can be stored", len(failed.from), failed.stored)
	}
}

// A list has each window once, in order, so a repeated name takes no space.
func TestListsAreInOrder(t *testing.T) {
	r := newRig(t)
	var from []*counting
	for _, resource := range []string{"gpt", "claude", "gpt"} {
		of := usage.Bucket{Namespace: "ns", Resource: resource, Entity: "acme"}
		from = append(from, &counting{owed: []usage.Owed{{Bucket: of}}})
	}
	var got []usage.Owed
	r.db.SetHook(func(op memdynamo.Op) (_ bool, err error) {
		got, err = usage.UnpackOwed(ledger.PackedOwed(op.Writes[0].(item.Put).Item), usage.Daily)
		return true, err
	})
	var o owing
	err := o.store(t.Context(), r.agg, from, closeAttempts)
	if err != nil || fmt.Sprint(got) != "[{{ns claude acme} 0} {{ns gpt acme} 0}]" || o.stored != 2 {
		t.Errorf("%v, %v; %d listed", got, err, o.stored)
	}
}
