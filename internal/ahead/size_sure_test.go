package ahead

import (
	"math"
	"math/rand/v2"
	"testing"
)

// after is the demand of so many requests in so many lives of 500 ms.
func after(requests, lives float64) *Demand {
	d := &Demand{requests: requests, fades: lives * 500, at: began}
	d.began = began - 50*int64(d.fades)
	return d
}

// How many requests are sure, by what has come and by how much may be lost: where 10 come in a life 7, where 333
// come 347, of which a twentieth is lost.
func TestHowManyRequestsAreSure(t *testing.T) {
	for _, c := range []struct{ requests, lives, part, want float64 }{
		{17, 3, .05, 2}, {17, 3, .005, 0}, {0, 3, .05, 0}, {1, 3, .05, 0}, {10, 1, .05, 5}, {30, 3, .05, 7},
		{1000, 3, .05, 347}, {1000, 3, .005, 311}, {1e6, 3, .005, 333_000},
	} {
		if got := after(c.requests, c.lives).sure(500, began, c.part); math.Abs(got-c.want) > c.want/100 {
			t.Errorf("%v requests in %v lives, of which %v may be lost: %v are sure, want %v", c.requests, c.lives, c.part, got,
				c.want)
		}
	}
	if got := after(100, 3).sure(0, began, .05); got != 0 {
		t.Errorf("%v are sure in no time", got)
	}
}

// comes returns how likely 0, 1, 2 and more requests come in the next life. Whether the next event is one of
// those or one of the lives in which we looked is a coin of m to 1: until the n-th of the latter there are so
// many of the former. It is worked out coin by coin.
func comes(n int, lives float64, most int) []float64 {
	all := make([]float64, most)
	all[0] = 1
	for range n {
		next := make([]float64, most)
		for i, p := range all {
			for p *= lives / (lives + 1); i < most; i++ {
				next[i] += p
				p /= lives + 1
			}
		}
		all = next
	}
	return all
}

// A second way to reckon what is sure says the same.
func TestSureIsTheMostOfWhichSoMuchIsLost(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	for range 300 {
		n, lives, part := 1+r.IntN(40), 1+4*r.Float64(), math.Pow(10, -1-2*r.Float64())
		chances, want := comes(n, lives, 150), 0
		for q := 1; q < 100; q++ {
			lost := 0.
			for k := range q {
				lost += chances[k] * float64(q-k)
			}
			if lost > part*float64(q) {
				break
			}
			want = q
		}
		if got := after(float64(n), lives).sure(500, began, part); got != float64(want) {
			t.Errorf("%d requests in %v lives, of which %v may be lost: %v are sure, want %d", n, lives, part, got, want)
		}
	}
}

// Whatever the rate is, and though it is not known: of requests that come at random, no more ends unspent than
// that part of what was asked for.
func TestNoMoreEndsUnspentThanMay(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 8))
	poisson := func(mean float64) (n float64) {
		for at := r.ExpFloat64(); at < mean; at += r.ExpFloat64() {
			n++
		}
		return n
	}
	for _, part := range []float64{spare, loss} {
		for _, rate := range []float64{.3, 1, 2, 3, 5, 8, 12, 20, 50} {
			asked, lost, taken := 0., 0., 0.
			for range 20_000 {
				q := after(max(1, poisson(fadesLives*rate)), fadesLives).sure(500, began, part)
				n := poisson(rate)
				asked, taken, lost = asked+n, taken+q, lost+max(0, q-n)
			}
			if lost > part*asked {
				t.Errorf("at %v in a life: %.2f %% lost, of which %.1f %% may be", rate, 100*lost/asked, 100*part)
			}
			if rate >= 20 && taken < asked/2 {
				t.Errorf("at %v in a life: only %.0f of %.0f are taken", rate, taken, asked)
			}
		}
	}
}

// A story of a bucket that denies. 30 requests come in a life, and 25 of the next are sure enough, or 19 of a
// bucket that is short. What is denied once says nothing of how often it will be. From the second time on a 200th is
// held of what is granted between the two, and since, until that is for a life. A process that keeps pace does
// not mind. A burst that has ended bounds both.
func TestWhoIsDeniedAgainHoldsLittle(t *testing.T) {
	d := after(90, 3)
	is := func(when string, paced bool, want float64) {
		t.Helper()
		if got := d.most(paced, .1, 500, began); math.Abs(got-want) > .01 {
			t.Errorf("%s: tokens for %v requests, want %v", when, got, want)
		}
	}
	then := func(grants int) {
		for range grants {
			d.Granted()
		}
		d.Denied(500, began)
	}
	is("never denied", false, 25)
	then(1000)
	is("denied", false, 25)
	is("denied, and keeps pace", true, 19)
	then(30)
	is("denied again, but as a part of that", false, 25)
	then(800)
	is("denied again", false, 4)
	then(30)
	is("and again, as a part of that", false, 4)
	then(31)
	is("and again, later", false, .155)
	is("and keeps pace", true, 19)
	for range 5000 {
		d.Granted()
	}
	is("not any more", false, 19)
	for range 1001 {
		d.Granted()
	}
	is("not for 200 lives", false, 25)
	then(0)
	d.gap, d.before, d.granted = 1000, 800, 600
	is("after a burst of 800", true, 4)
	is("after a burst of 800, denied", false, 4)
	d.granted = 1200
	is("in one of 1200", true, 6)
	is("in one of 1200, denied", false, 5)
}

// A burst is what is granted between silences of three lives, and counts as one request at least.
func TestBurstsEnd(t *testing.T) {
	d, now := &Demand{}, int64(began)
	ask := func(n int, pause int64) {
		for range n {
			now += pause
			d.Asked(single(1), 500, now)
			d.Granted()
		}
	}
	ask(400, 10)
	if got := d.Burst(); got != math.MaxFloat64 {
		t.Errorf("without a silence: %v", got)
	}
	ask(1, 1500)
	if got := d.Burst(); got != math.MaxFloat64 {
		t.Errorf("three lives are no silence: %v", got)
	}
	ask(1, 1501)
	if got := d.Burst(); got != 401./200 {
		t.Errorf("after 401 requests: %v, want a 200th", got)
	}
	now += 2000
	d.Asked(single(1), 500, now)
	now += 2000
	if d.Asked(single(1), 500, now); d.Burst() != 1./200 {
		t.Errorf("after requests that were denied: %v", d.Burst())
	}
}
