package admin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

var someCalendars = map[string]limiter.Calendar{"daily": limiter.Daily(""), "first": limiter.FromFirstUse(time.Hour)}

// A quota that is topped up grants its amount and the credit, on any number of shards, and
// only the amount in the next period. What is credited twice by one id is credited once.
func TestAQuotaIsToppedUpOnce(t *testing.T) {
	for name, c := range someCalendars {
		for _, splits := range []int{0, 2} {
			if name == "first" && splits > 0 {
				continue // it is not split
			}
			w := newWorld(t)
			w.set(Scope{}, limiter.Quota("rpm", 40, c), limiter.PerHour("rph", 9))
			granted := 0
			if splits > 0 {
				w.split("acme", "gpt-4", splits)
				granted++
			}
			ns, err := w.ns.Once("invoice-1")
			w.must(err)
			var ls []*limiter.Limiter
			for range 2 {
				ls = append(ls, w.limiter())
				added, err := ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 25})
				if err != nil || added["rpm"] != 25 {
					t.Errorf("%s: credit: %v, %v", name, added, err)
				}
			}
			for range 5 {
				granted += w.drained(ls[0]) + w.drained(ls[1])
				w.advance(1100 * time.Millisecond) // longer than a denial is remembered
			}
			check.Equal(t, granted, 65, "%s, %d splits: granted of 40 and 25", name, splits)
			w.advance(25 * time.Hour)
			granted = 0
			for range 5 {
				granted += w.drained(ls[0]) + w.drained(ls[1])
				w.advance(1100 * time.Millisecond)
			}
			check.Equal(t, granted, 40, "%s, %d splits: granted in the next period", name, splits)
			if e := w.events(Scope{Entity: "acme"}); len(e) != 1 || e[0].Details["id"] != "invoice-1" {
				t.Errorf("events %+v", e)
			}
			check.Is(t, check.Err(ns.Reset(t.Context(), "acme", "gpt-4")), validate.ErrInvalid,
				"a reset by the id of a credit")
		}
	}
}

// A reset makes a quota whole, with what it was topped up by. What a lease took before is not
// given back after it: it was forgiven.
func TestAResetQuotaTakesNothingBack(t *testing.T) {
	for name, c := range someCalendars {
		w := newWorld(t)
		w.set(Scope{}, limiter.Quota("rpm", 40, c))
		l := w.limiter()
		lease, err := l.Acquire(t.Context(),
			limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 30}})
		w.must(err)
		_, err = w.ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 5})
		w.must(err)
		added, err := w.ns.Reset(t.Context(), "acme", "gpt-4")
		if err != nil || added["rpm"] != 30 {
			t.Errorf("%s: reset: %v, %v", name, added, err)
		}
		w.must(lease.Rollback(t.Context()))
		w.advance(1100 * time.Millisecond)
		later, err := l.Acquire(t.Context(),
			limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 20}})
		w.must(err)
		w.must(later.Rollback(t.Context()))
		check.Equal(t, w.drained(l), 45, "%s: granted after the reset", name)
	}
}

// An id is used once for each bucket: the same one credits others, too, and another one the same.
func TestAnOperationIsOfItsBucket(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.Quota("rpm", 40, limiter.Daily("")))
	ns, err := w.ns.Once("n-1")
	w.must(err)
	for _, of := range []Scope{{"acme", "gpt-4"}, {"beta", "gpt-4"}, {"acme", "o3"}, {"acme", "gpt-4"}} {
		added, err := ns.Credit(t.Context(), of.Entity, of.Resource, limiter.Costs{"rpm": 8})
		if err != nil || added["rpm"] != 8 {
			t.Errorf("%s: %v, %v", of, added, err)
		}
		got, err := w.ns.Peek(t.Context(), of.Entity, of.Resource)
		if w.must(err); got[0].Levels[0].Remaining != 48 {
			t.Errorf("%s: %+v", of, got[0].Levels)
		}
	}
	if ns, err = w.ns.Once("n-2"); err != nil {
		t.Fatal(err)
	}
	if added, err := ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 8}); err != nil || added["rpm"] != 8 {
		t.Errorf("another id: %v, %v", added, err)
	}
	got, err := w.ns.Peek(t.Context(), "acme", "gpt-4")
	if w.must(err); got[0].Levels[0].Remaining != 56 {
		t.Errorf("another id: %+v", got[0].Levels)
	}
}

// What an id may be, at its bounds.
func TestIdsOfOperations(t *testing.T) {
	w := newWorld(t)
	for id, valid := range map[string]bool{
		"a": true, "azAZ09.-_:": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "a b": false, "a/b": false, "a;b": false, "a@b": false, "a[b": false,
		"a`b": false, "a{b": false, "é": false,
	} {
		if ns, err := w.ns.Once(id); valid != (err == nil) || !valid && !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("%q: %v, %v", id, ns, err)
		}
	}
}

// A bucket that a credit makes knows its parent.
func TestACreditMakesABucketOfAChild(t *testing.T) {
	w := newWorld(t)
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "acme", Parent: "org", Cascade: true})
	w.set(Scope{"acme", "gpt-4"}, limiter.Quota("rpm", 40, limiter.Daily("")))
	ns, err := w.ns.Once("n-1")
	w.must(err)
	_, err = ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 8})
	w.must(err)
	if b := w.bucket("acme", "gpt-4", 0); b.Parent != "org" || !b.Cascade {
		t.Errorf("%+v", b)
	}
}

// Where it cannot be read whether an operation was carried out, it is not carried out.
func TestAnOperationThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 5})
	ns, err := w.ns.Once("n-1")
	w.must(err)
	_, err = ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 2})
	w.must(err)
	w.db.Store(spoilt(w.db.Item(ns.operationOf(Scope{"acme", "gpt-4"}, table.OperationTopUp).Key())))
	if added, err := ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 2}); err == nil || added != nil ||
		!strings.Contains(err.Error(), `"operation"`) {
		t.Errorf("added %v, %v", added, err)
	}
	check.Equal(t, w.left(), 7, "left")
}
