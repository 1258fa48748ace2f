package limiter

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// TestGiftsAreFoundOnAllShards: a process denies by images of 32 empty shards, when
// all of them are filled by others, as a reset does. The first look shows tokens that
// no refill explains: all shards are read then, once, and all tokens can be had.
func TestGiftsAreFoundOnAllShards(t *testing.T) {
	for _, cascade := range []bool{false, true} {
		testGifts(t, cascade)
	}
}

func testGifts(t *testing.T, cascade bool) {
	const shards = 32
	w := newWorld(t)
	l := w.process(Options{})
	if cascade {
		w.entity(l, acme, "org")
		w.entity(l, "org", "")
	}
	w.configure(l, "", "", PerHour("rph", 3200))
	w.configure(l, "org", gpt, PerHour("rph", 1_000_000))
	one := stored(Costs{"rph": 1})
	must(t, l, one).Rollback(t.Context())
	w.split(l, shards)
	for drain(t, l, stored(Costs{"rph": 50})) > 0 {
		w.advance(time.Second)
	}
	drain(t, l, one)
	w.advance(time.Second)
	for k := range shards {
		w.edit(l, k, item.Item{"b_rph_tk": item.N(100_000)})
	}
	w.db.ResetStats()
	granted := 0
	for range 3 { // two seconds
		granted += drain(t, l, one)
		w.advance(time.Second)
	}
	st := w.db.Stats()
	t.Logf("cascade %v: %d granted for %d updates, %d transactions and %.0f read units", cascade, granted, st.Updates,
		st.Transactions, st.ReadUnits)
	if granted < 3200 {
		t.Errorf("cascade %v: %d of 3200 granted in two seconds", cascade, granted)
	}
	if st.ReadUnits > 3*shards {
		t.Errorf("cascade %v: %.0f read units, want at most %d", cascade, st.ReadUnits, 3*shards)
	}
}
