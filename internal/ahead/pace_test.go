package ahead

import "testing"

// A turn of a process lasts 0.55 to 0.8 lives of what it takes ahead, and has two writes, or
// one that held. Life is a second here, and a random number of zero the shortest turn.
func TestPaceOfASaturatedBucket(t *testing.T) {
	const life, begins, ends = 1000, 50_000, 50_550
	free := func(p *Pace, now, want int64) {
		t.Helper()
		if got := p.Free(life, now); got != want {
			t.Errorf("at %d: may write from %d, want %d", now, got, want)
		}
	}
	p := &Pace{}
	free(p, begins, begins)
	p.Wrote(life, begins, 0)
	p.Wrote(life, begins, 0)
	free(p, begins, begins) // it is not saturated
	p.Short(begins - 100)
	free(p, begins, ends)
	free(p, ends-1, ends)
	free(p, ends, ends)
	free(p, ends+1, ends+1)
	free(p, begins-50, begins-50) // a clock that was set back has no turn

	p.Wrote(life, ends, 0) // which begins the next one
	free(p, ends+1, ends+1)
	p.Wrote(life, ends+1, 0)
	free(p, ends+2, ends+550)

	p = &Pace{}
	p.Short(begins)
	p.Wrote(life, begins, 1023)
	free(p, begins+1, begins+1)
	p.Answered()
	free(p, begins+1, begins+799)

	p = &Pace{}
	p.Short(begins)
	p.Wrote(life, begins, 1024) // which is as 0
	p.Answered()
	free(p, begins+1, ends)

	p.Wrote(life, begins-1, 0) // by a clock that was set back to before the turn
	p.Short(begins - 1)
	free(p, begins, begins)
}

// A bucket is saturated for ten seconds after it had too little, or until there is plenty.
func TestPaceForgetsThatThereWasTooLittle(t *testing.T) {
	p := &Pace{}
	check := func(now int64, want bool) {
		t.Helper()
		if got := p.Saturated(now); got != want {
			t.Errorf("at %d: saturated %v, want %v", now, got, want)
		}
	}
	check(1, false)
	p.Short(50_000)
	check(49_999, false)
	check(50_000, true)
	check(60_000, true)
	check(60_001, false)
	p.Calm()
	check(50_000, false)
}
