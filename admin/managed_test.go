package admin

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// muchManaged is more than fits into one item.
func (w *world) muchManaged() config.Provisioner {
	p := config.Provisioner{Namespace: w.ns.id, Hash: "h", Entities: map[string][]string{}}
	for i := range 800 {
		p.Entities[fmt.Sprintf("%s-%05d", strings.Repeat("x", 300), i)] = []string{"gpt-4"}
	}
	return p
}

// What does not fit into one item is stored in 256 pages, eight at once, and the item comes last. Afterwards
// only what has changed is written.
func TestManagedNamesFillPages(t *testing.T) {
	w := newWorld(t)
	was, err := w.ns.managed(t.Context())
	w.must(err)
	p := w.muchManaged()
	remember := func(want string) {
		t.Helper()
		got := w.counted(func() {
			was, err = w.ns.remember(t.Context(), was, p)
			w.must(err)
		})
		check.Equal(t, got, want, "it costs")
		read, err := w.ns.managed(t.Context())
		if w.must(err); !read.Paged || read.Hash != p.Hash || len(read.Entities) != len(p.Entities) ||
			read.Entities["one more"] == nil != (p.Entities["one more"] == nil) {
			t.Errorf("read back: paged %v, hash %s, %d entities", read.Paged, read.Hash, len(read.Entities))
		}
	}
	remember("BatchGetItem:3 TransactWriteItems:33")
	remember("TransactWriteItems:1") // it still is what was read: that is asked
	p.Hash = "i"
	remember("TransactWriteItems:1")
	p.Entities = maps.Clone(p.Entities)
	p.Entities["one more"] = []string{"o3"}
	remember("TransactWriteItems:2")
	p.Entities = map[string][]string{"one more": {"o3"}} // it stays in pages
	remember("TransactWriteItems:32")
	for fail := 1; fail <= 4; fail++ { // each of its reads
		calls := 0
		w.failOn(store.Unavailable, false, func(memdynamo.Op) bool { calls++; return calls == fail })
		check.Is(t, check.Err(w.ns.Plan(t.Context(), declare())), limiter.ErrUnavailable, "read %d fails", fail)
		w.db.SetHook(nil)
	}
	for _, k := range layout.ProvisionerPageKeys(w.ns.id) { // a page that has nothing need not be there
		if page, err := config.DecodeProvisioner(w.db.Item(k)); err == nil && len(page.Entities) == 0 {
			w.db.Delete(k)
		}
	}
	again, err := w.ns.managed(t.Context())
	if w.must(err); len(again.Entities) != 1 || len(again.items) != 2 {
		t.Errorf("%d entities in %d items", len(again.Entities), len(again.items))
	}
}

// Scopes are recorded in the order of their names, so that nothing changes where nothing has.
func TestManagedScopesAreSorted(t *testing.T) {
	s := scopeSet{}
	want := config.Provisioner{Namespace: "ns", System: true, Entities: map[string][]string{"a": nil, "b": nil}}
	for i := range 20 {
		r := fmt.Sprintf("r%02d", i)
		s[Scope{Resource: r}], s[Scope{"a", r}], s[Scope{"b", r}] = true, true, true
		want.Resources = append(want.Resources, r)
		want.Entities["a"] = append(want.Entities["a"], r)
		want.Entities["b"] = append(want.Entities["b"], r)
	}
	s[Scope{}], s[Scope{Entity: "b"}] = true, true
	want.Entities["b"] = append([]string{"_default_"}, want.Entities["b"]...)
	check.Deep(t, s.state("ns"), want)
	all := managedScopes(want)
	if len(all) != 62 || all[0] != (Scope{"a", "r00"}) || all[40] != (Scope{Entity: "b"}) ||
		all[41] != (Scope{Resource: "r00"}) || all[61] != (Scope{}) {
		t.Errorf("scopes %v", all)
	}
}

// Whichever call fails while pages are stored, it is told, and what both states have is managed still.
func TestPagesThatAreHalfStored(t *testing.T) {
	w := newWorld(t)
	was, err := w.ns.managed(t.Context())
	w.must(err)
	empty := w.db.Snapshot()
	for fail := 1; fail <= 36; fail++ {
		w.db = empty.Snapshot()
		w.ns.calls.db = w.db
		calls := 0
		w.failOn(store.Unavailable, false, func(memdynamo.Op) bool { calls++; return calls == fail })
		_, err := w.ns.remember(t.Context(), was, w.muchManaged())
		w.db.SetHook(nil)
		if !errors.Is(store.Outcome(err), limiter.ErrUnavailable) || calls != fail {
			t.Errorf("call %d of %d fails: %v", fail, calls, err)
		}
		again, err := w.ns.managed(t.Context())
		w.must(err)
		if again.Paged {
			t.Errorf("call %d fails, and pages are said to be there", fail)
		}
		w.must(check.Err(w.ns.remember(t.Context(), again, w.muchManaged())))
	}
}
