package table

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// All attributes of a limit are in its list, and are removed with it, so that a later limit of the
// same name starts clean. No attribute belongs to two limits, and none is listed twice.
func TestAttributesOfALimit(t *testing.T) {
	all := kinds()
	b := imageOf(0, all, 0, 1, sampleNow)
	for i := range b.State.Slots {
		sl := &b.State.Slots[i]
		sl.Held, sl.Ended = 5, 4
		if sl.Renews() {
			sl.Extra, sl.Resets, sl.End = 3, 2, sampleNow+60_000
		}
	}
	it := b.Item()
	for _, l := range all {
		attrs := LimitAttrs(l)
		unique := slices.Compact(slices.Sorted(slices.Values(attrs)))
		check.Equal(t, len(unique), len(attrs), "%s: %v", l.Name, attrs)
		for _, attr := range attrs {
			if !strings.Contains(attr+"_", "_"+l.Name+"_") {
				t.Errorf("%s: %s", l.Name, attr)
			}
			delete(it, attr)
		}
		for attr := range it {
			if strings.Contains(attr+"_", "_"+l.Name+"_") {
				t.Errorf("%s stays of %s", attr, l)
			}
		}
		if field := attrLimit(l.Name, fieldGranted); slices.Contains(attrs, field) != l.Renews() { // another client's
			t.Errorf("%s: %v", l, attrs)
		}
	}
	left, err := DecodeShard(it)
	if err != nil || len(left.State.Slots) != 1 || len(left.Partial) != 0 {
		t.Errorf("left is %v, %v, %v", left.State, left.Partial, err)
	}
	read := decode(t, b.Item())
	for _, sl := range read.State.Slots {
		if i := b.State.Index(sl.Name); sl.Soft != b.State.Slots[i].Soft {
			t.Errorf("%s is read as soft: %v", sl.Name, sl.Soft)
		} else if was := b.State.Slots[i]; sl.Extra != was.Extra || sl.Resets != was.Resets ||
			sl.End != was.End && sl.FirstUse() > 0 {
			t.Errorf("%s is read as %+v, want %+v", sl.Name, sl, was)
		}
	}
}

// A limit is untouched if its counter is unchanged. Slots are untouched if the counters of both
// epochs are. A missing limit is untouched.
func TestUntouchedLimits(t *testing.T) {
	all := []bucket.Limit{kinds()[1], kinds()[2]}
	put, b := create(sampleNow, Costs(all, 4000, 6000))
	for _, c := range []struct {
		limit string
		since int64 // taken since
		want  bool
	}{
		{"rpm", 0, true}, {"rpm", 1, false}, {"rpm", -1, false},
		{"fly", 0, true}, {"fly", 1000, false},
		{"gone", 0, true},
	} {
		stored := put.Item
		if i := slices.IndexFunc(all, func(l bucket.Limit) bool { return l.Name == c.limit }); c.since != 0 {
			cost := Costs(all[i:i+1], c.since)
			taken := Charge{Image: b, Costs: cost, Now: sampleNow, Force: true}.Plan()
			stored = applied(t, taken.Update, stored)
		}
		check.Equal(t, b.Untouched(c.limit).Holds(stored), c.want, "%d taken of %s", c.since, c.limit)
	}
}
