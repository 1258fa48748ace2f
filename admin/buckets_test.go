package admin

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// Listings and sums work over pages, with indexes of keys and of whole items.
func TestBucketsAndCapacity(t *testing.T) {
	for _, all := range []bool{false, true} {
		w := newWorld(t)
		w.db.ProjectAll = all
		w.set(Scope{}, limiter.PerMinute("rpm", 80))
		w.create(Entity{ID: "e0"})
		for i := range 5 {
			id := fmt.Sprint("e", i)
			if i > 0 {
				w.create(Entity{ID: id, Parent: "e0"})
			}
			w.take(id, "gpt-4", limiter.Costs{"rpm": int64(i)})
			w.take(id, "other", limiter.Costs{"rpm": 1})
		}
		w.split("e4", "gpt-4", 2)
		for at, want := range map[Scope]int{{}: 10, {Resource: "gpt-4"}: 5, {Entity: "e1"}: 2, {"e4", "gpt-4"}: 1,
			{Entity: "x"}: 0, {"x", "y"}: 0} {
			if got := collect(t, w.ns.Buckets(t.Context(), at)); len(got) != want {
				t.Errorf("%s: %d buckets, want %d", at, len(got), want)
			}
		}
		c, err := w.ns.Capacity(t.Context(), "gpt-4", "rpm", false)
		if err != nil || c != (Capacity{"gpt-4", "rpm", 5, 400, 400 - 11}) {
			t.Errorf("capacity %+v, %v", c, err)
		}
		c, err = w.ns.Capacity(t.Context(), "gpt-4", "tpm", false)
		if err != nil || c != (Capacity{Resource: "gpt-4", Limit: "tpm"}) {
			t.Errorf("capacity of a limit that no bucket has %+v, %v", c, err)
		}
		w.take("x0", "gpt-4", limiter.Costs{"rpm": 1}) // nobody has described it
		c, err = w.ns.Capacity(t.Context(), "gpt-4", "rpm", true)
		if err != nil || c.Entities != 2 || c.Capacity != 160 {
			t.Errorf("capacity without children %+v, %v", c, err)
		}
	}
}

// What is left of a capacity is no less than nothing of an entity in debt, and no more than the capacity of
// one that was credited.
func TestCapacityOfDebtAndCredit(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.Quota("rpd", 10, limiter.Daily("")))
	for _, entity := range []string{"a", "debt", "credit"} {
		w.take(entity, "gpt-4", limiter.Costs{"rpd": 3})
	}
	_, err := w.ns.Credit(t.Context(), "credit", "gpt-4", limiter.Costs{"rpd": 50})
	w.must(err)
	lease, err := w.limiter().Acquire(t.Context(),
		limiter.Request{Entity: "debt", Resource: "gpt-4", Costs: limiter.Costs{"rpd": 1}})
	w.must(err)
	w.must(errors.Join(lease.Settle(limiter.Costs{"rpd": 100}), lease.Commit(t.Context())))
	w.set(Scope{Entity: "b"}, tpm500) // counts for nothing
	w.take("b", "gpt-4", limiter.Costs{"tpm": 1})
	for entity, want := range map[string]int64{"a": 7, "debt": -93, "credit": 57} {
		got, err := w.ns.Peek(t.Context(), entity, "gpt-4")
		w.must(err)
		if n := got[0].Levels[0].Remaining; n != want {
			t.Errorf("%s has %d left, want %d", entity, n, want)
		}
	}
	c, err := w.ns.Capacity(t.Context(), "gpt-4", "rpd", false)
	if err != nil || c != (Capacity{"gpt-4", "rpd", 3, 30, 7 + 0 + 10}) {
		t.Errorf("capacity %+v, %v", c, err)
	}
}
