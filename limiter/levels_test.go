package limiter

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// An entity is charged together with up to three levels above it. For a fifth level or a circle,
// the error names the path to it, and nothing is charged.
func TestHowManyLevelsAreCharged(t *testing.T) {
	all := []string{acme, "team", "org", "root", "world"}
	for n := 1; n <= len(all); n++ {
		for _, circle := range []bool{false, true} {
			w, l := newProcess(t, Options{})
			w.configure(l, "", "", rpm10)
			for i, id := range all[:n] {
				parent := append(all[:n:n], "")[i+1]
				if circle && i == n-1 {
					parent = all[n/2]
				}
				w.entity(l, id, parent)
			}
			before := w.db.Snapshot()
			lease, err := l.Acquire(t.Context(), stored(Costs{"rpm": 2}))
			if n <= maxLevels && !circle {
				if err != nil || len(lease.Status()) != n {
					t.Fatalf("%d levels: %v", n, err)
				}
				for i, id := range all {
					if s := w.spent(l, id); s != 0 != (i < n) || i < n && (s != 2 || lease.Status()[i].Entity != id) {
						t.Errorf("%d levels: %s has spent %d, %+v", n, id, s, lease.Status())
					}
				}
				continue
			}
			path := strings.Join(all[:min(n, maxLevels)], " -> ") + " -> " + all[n/2]
			if n > maxLevels {
				path = strings.Join(all, " -> ")
			}
			want := `limiter: invalid: acquire "acme/gpt-4": parents of "acme": ` + path +
				", want no circle and at most 4 levels"
			if !errors.Is(err, ErrInvalid) || err.Error() != want {
				t.Errorf("%d levels, circle %v: %v\nwant %s", n, circle, err, want)
			}
			w.sameTable(before)
		}
	}
}

// A parent must be an existing entity with limits: the error says which of the two is missing, and
// of which entity.
func TestParentsThatAreIncomplete(t *testing.T) {
	for name, c := range map[string]struct {
		org  bool // there is such an entity
		want error
		says string
	}{
		"no entity and no limits": {false, ErrInvalid, `"acme/gpt-4": parent of "acme": there is no entity "org"`},
		"no limits":               {true, ErrNoLimits, `acquire "org/gpt-4"`},
	} {
		w, l := newProcess(t, Options{OnUnavailable: PolicyAllow})
		w.configure(l, acme, gpt, rpm10)
		w.entity(l, acme, "org")
		if c.org {
			w.entity(l, "org", "")
		}
		before := w.db.Snapshot()
		lease, err := l.Acquire(t.Context(), stored(Costs{"rpm": 1}))
		if lease != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v", name, lease, err)
		}
		w.sameTable(before)
	}
}

// A parent that is bypassed, or that blocks, stays so whatever the child is.
func TestParentsThatAreBypassed(t *testing.T) {
	w, l := family(t, 5, Options{})
	w.entity(l, "org", "root")
	w.entity(l, "root", "")
	w.says(l, "org", gpt, "disabled", item.S("bypass"))
	lease := must(t, l, stored(Costs{"rpm": 7})) // more than the parent would grant
	if s := lease.Status(); len(s) != 2 || s[0].Entity != acme || s[1].Entity != "root" || !lease.Charged() {
		t.Errorf("status %+v, charged %v", s, lease.Charged())
	}
	w.wantSpent(l, "beside one that is bypassed", map[string]int64{acme: 7, "org": 0, "root": 7})
	if w.db.Item(layout.BucketKey(l.namespace, "org", gpt, 0)) != nil {
		t.Error("it has a bucket")
	}
}
