package limiter

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// counted is how many denials the shards of a bucket count.
func (w *world) counted(l *Limiter, entity string) (n int64) {
	for _, b := range w.shards(l, entity, gpt) {
		n += b.Denied / 1000
	}
	return n
}

// Denials are counted without a write more. While something is granted they go with the charges. Once a quota is
// spent nothing is, and the look that goes out each second brings them, at most ten seconds late.
func TestDenialsCostNoWrite(t *testing.T) {
	for limit, most := range map[Limit]int{
		PerSecond("rps", 2):                  2 * 62,
		Quota("spend", 5, Monthly(1, "UTC")): 5 + 62, // each is granted, and a look a second
	} {
		synctest.Test(t, func(t *testing.T) {
			w := virtual(t)
			l := w.started(Options{})
			denied, before := int64(0), w.db.Stats().WriteUnits
			for range 600 { // a minute, ten requests a second
				_, err := l.Acquire(t.Context(), asks(Costs{limit.Name: 1}, limit))
				if errors.Is(err, ErrLimited) {
					denied++
				} else {
					fine(t, err)
				}
				l.desks.Wait()
				time.Sleep(96 * time.Millisecond)
				if late := denied - w.counted(l, acme); late < 0 || late > 120 {
					t.Fatalf("%s: of %d denials %d are not counted", limit.Name, denied, late)
				}
			}
			if n := w.db.Stats().WriteUnits - before; n > most {
				t.Errorf("%s: %d writes, want at most %d", limit.Name, n, most)
			}
		})
	}
}

// Whatever is refused, lost or split, a denial is counted once, or not at all if an answer was lost or its process
// has ended.
func TestDenialsAreCountedOnce(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w, r := virtual(t), rand.New(rand.NewPCG(seed, 51))
			procs := []*Limiter{w.started(Options{}), w.started(Options{Ahead: time.Second}), w.started(Options{})}
			limits := []Limit{PerSecond("rps", 5), PerDay("rpd", 100000)}
			denied := int64(0)
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				switch n := r.IntN(40); {
				case len(op.Writes) != 1 || seed%2 == 0:
				case n == 0:
					return false, memdynamo.Fail(store.Unavailable)
				case n == 1:
					return r.IntN(2) == 0, memdynamo.Fail(store.Unknown)
				}
				return true, nil
			})
			for i := range 400 {
				if i == 200 {
					w.split(procs[0], 2)
				}
				l := procs[r.IntN(len(procs))]
				_, err := l.Acquire(t.Context(), asks(Costs{"rps": 1 + r.Int64N(3)}, limits...))
				l.desks.Wait()
				if errors.Is(err, ErrLimited) {
					denied++
				}
				time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
			}
			w.db.SetHook(nil)
			for _, l := range procs {
				time.Sleep(5 * time.Second)
				for range 3 { // each is granted once more, on each shard
					_, _ = l.Acquire(t.Context(), asks(Costs{"rps": 1}, limits...))
					l.desks.Wait()
				}
			}
			got := w.counted(procs[0], acme)
			if got > denied || seed%2 == 0 && got < denied {
				t.Errorf("seed %d: %d counted of %d", seed, got, denied)
			}
			if denied == 0 || got == 0 {
				t.Errorf("seed %d: %d denied, %d counted: it says nothing", seed, denied, got)
			}
		})
	}
}
