package limiter

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// calls counts the calls of f by name, in the order in which they were first made.
func (w *world) calls(f func()) string {
	var mu sync.Mutex
	calls := map[string]int{}
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		calls[string(op.Name)]++
		return true, nil
	})
	f()
	w.db.SetHook(nil)
	return fmt.Sprint(calls)
}

// The first use of an entity and its parents is one transaction, after the reads
// of their limits, which found no bucket, and one that looks for other shards of all of them.
func TestCascadeFirstUseIsOneTransaction(t *testing.T) {
	w, l := family(t, 100, Options{})
	got := w.calls(func() { must(t, l, stored(Costs{"rpm": 3})) })
	if got != "map[BatchGetItem:3 TransactWriteItems:1]" {
		t.Errorf("calls %s", got)
	}
	w.wantSpent(l, "first use", map[string]int64{acme: 3, "org": 3})
	got = w.calls(func() { must(t, l, stored(Costs{"rpm": 3})) })
	if got != "map[UpdateItem:2]" {
		t.Errorf("calls %s when warm", got)
	}
	w.entity(l, "bob", "org")
	got = w.calls(func() { must(t, l, Request{Entity: "bob", Resource: gpt, Costs: Costs{"rpm": 2}}) })
	if got != "map[BatchGetItem:2 PutItem:1 UpdateItem:1]" {
		t.Errorf("calls %s where the parent has a bucket", got)
	}
	w.wantSpent(l, "second child", map[string]int64{acme: 6, "bob": 2, "org": 8})
}

// So is the first use after buckets known with several shards have gone as a whole.
func TestCascadeGoneAsAWholeIsOneTransaction(t *testing.T) {
	w, l := family(t, 100, Options{})
	w.configure(l, acme, gpt, PerMinute("rpm", 100))
	for _, e := range []string{acme, "org"} {
		must(t, l, Request{Entity: e, Resource: gpt, Costs: Costs{"rpm": 1}})
		w.splitOf(l, e, 2)
		w.advance(time.Second)
	}
	for range 8 { // it sees all shards
		must(t, l, stored(Costs{"rpm": 1}))
	}
	for _, e := range []string{acme, "org"} {
		for _, it := range w.shards(l, e, gpt) {
			w.db.Delete(it.Key())
		}
	}
	w.advance(2 * time.Second)
	got := w.calls(func() { must(t, l, stored(Costs{"rpm": 1})) })
	if !strings.Contains(got, "TransactWriteItems") || strings.Contains(got, "PutItem") {
		t.Errorf("calls %s", got)
	}
	w.wantSpent(l, "created", map[string]int64{acme: 1, "org": 1})
}

// Somebody else creates one or all of the buckets first. The refusal brings what there is: a bucket that
// is there is charged, and only one that is not is created. One that cannot be read is an error.
func TestCascadeFirstUseRaces(t *testing.T) {
	for _, c := range []struct {
		rivals []string
		spoils bool
		calls  string // behind the transaction that is refused
	}{
		{rivals: []string{acme}, calls: "map[UpdateItem:2]"}, // which cascades
		{rivals: []string{"org"}, calls: "map[BatchGetItem:1 PutItem:1 UpdateItem:1]"},
		{rivals: []string{acme, "org"}, calls: "map[UpdateItem:2]"},
		{rivals: []string{acme}, spoils: true},
	} {
		w, l := family(t, 100, Options{})
		other := w.bystander(l)
		calls, met := map[memdynamo.OpName]int{}, false
		w.db.SetHook(oneByOne(func(op memdynamo.Op) (bool, error) {
			switch {
			case met:
				calls[op.Name]++
			case isTransaction(op):
				met = true
				for _, e := range c.rivals {
					must(t, other, Request{Entity: e, Resource: gpt, Costs: Costs{"rpm": 1}, Limits: []Limit{rpm10}})
				}
				if c.spoils {
					w.edit(l, 0, item.Item{"b_rpm_tk": item.S("many")})
				}
			}
			return true, nil
		}))
		_, err := l.Acquire(t.Context(), stored(Costs{"rpm": 3}))
		w.db.SetHook(nil)
		if c.spoils {
			if !errors.Is(err, ErrUnreadable) || w.spent(l, "org") != 1 {
				t.Errorf("a bucket that cannot be read: %v, and its parent is charged %d", err, w.spent(l, "org"))
			}
			continue
		}
		if child, org := w.spent(l, acme), w.spent(l, "org"); err != nil || child < 3 || org < 3 || child > 4 || org > 5 {
			t.Errorf("%s created by somebody else: %v, %d and %d were charged", c.rivals, err, child, org)
		}
		if got := fmt.Sprint(calls); got != c.calls {
			t.Errorf("%s created by somebody else: %s, want %s", c.rivals, got, c.calls)
		}
	}
}

// A child that is used for the first time is not created where its parent denies.
func TestCascadeFirstUseThatTheParentDenies(t *testing.T) {
	w, l := family(t, 10, Options{})
	must(t, l, stored(Costs{"rpm": 10}))
	w.entity(l, "child", "org")
	other := w.process(Options{})
	_, err := other.Acquire(t.Context(), Request{Entity: "child", Resource: gpt, Costs: Costs{"rpm": 1}})
	if denied, ok := errors.AsType[*LimitError](err); !ok || denied.Entity != "org" {
		t.Errorf("got %v, want denied by org", err)
	}
	if b := w.shards(l, "child", gpt); len(b) > 0 {
		t.Errorf("created %+v", b)
	}
}
