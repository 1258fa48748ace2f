package main

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
)

// TestPrices plays two minutes: the snapshots hold what was granted (playAll checks it),
// each bucket that is in use in a fold is written once for it, nothing is refused, and
// a pending bucket takes less than 80 bytes.
func TestPrices(t *testing.T) {
	const tenants, perSecond = 200, 5
	loads := []load{{tenants: tenants, perSecond: perSecond, fold: 60, windows: 2},
		{tenants: tenants, perSecond: perSecond, fold: 1, windows: 1}}
	short := span{measured: 120, twice: 120, together: 1}
	told := 0
	err := playAll(t.Context(), short, loads, func(p price) {
		told++
		t.Log(p)
		if p.acquires != 120*perSecond || p.refused != 0 || p.perBucket() > 80 {
			t.Errorf("%v: %d acquires, %d writes refused, %.0f bytes of state per bucket", p.load, p.acquires, p.refused,
				p.perBucket())
		}
		if got, want := p.snapshots-p.longer, bucketsInUse(t, p.load, short); got != want {
			t.Errorf("%v: %d snapshots of hours written, %d buckets in use, fold by fold", p.load, got, want)
		}
	})
	if err != nil || told != len(loads) {
		t.Fatal(told, err)
	}
}

// bucketsInUse returns how many buckets are in use in each fold that is measured, all
// folds together.
func bucketsInUse(t *testing.T, l load, p span) (sum int) {
	t.Helper()
	traffic, err := newTraffic(t.Context(), l.tenants, warmUp)
	if err != nil {
		t.Fatal(err)
	}
	used := map[item.Key]bool{}
	warm := l.tenants / l.perSecond
	for second := range warm + p.measured {
		if traffic.inTurn = second < warm; second == warm {
			traffic.now = begin
		}
		if err := traffic.acquires(t.Context(), l.perSecond); err != nil {
			t.Fatal(err)
		}
		for _, c := range traffic.db.Drain() {
			if second >= warm && c.Key.SK == layout.SKBucketState {
				used[c.Key] = true
			}
		}
		if (second-warm+1)%int(l.fold) == 0 {
			sum += len(used)
			clear(used)
		}
	}
	return sum
}

// The records are those that package streamtest makes of the same writes.
func TestRecords(t *testing.T) {
	traffic, err := newTraffic(t.Context(), 3, begin)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for range 4 {
		if err := traffic.acquires(t.Context(), 500); err != nil {
			t.Fatal(err)
		}
		for _, c := range traffic.db.Drain() {
			if c.Key.SK != layout.SKBucketState {
				continue
			}
			got := traffic.records.of(c)
			want := streamtest.Record{Sequence: got.Sequence, Created: got.Created, Old: c.Old, New: c.New}.JSON()
			if seen++; string(got.Body) != string(want) {
				t.Fatalf("record\n%s\nwant\n%s", got.Body, want)
			}
		}
	}
	if seen != 2000 {
		t.Errorf("%d records of 2000 acquires", seen)
	}
}
