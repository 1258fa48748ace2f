package decide

import (
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Expiring tokens of a quota are handled by one task, until none are held any more.
func TestUnspentIsMindedByOne(t *testing.T) {
	p := newProcess(t)
	if _, ok := p.Mind(0, clock(noon)); ok {
		t.Error("nothing is held of the shard, and it is minded")
	}
	limits := p.ofAQuota()
	costs := func(milli int64) []Want {
		w := costing(milli, limits[0])
		return []Want{w, w, w, w, w, w, w, w, w, w}
	}
	p.charges(costs(1000), 0)
	p.charges(costs(1000), 10)
	ms, ok := p.Mind(0, clock(noon+20))
	if _, again := p.Mind(0, clock(noon+20)); !ok || ms != 1990 || again {
		t.Fatalf("minded %v in %d ms, and again %v", ok, ms, again)
	}
	left := p.Left(0, "rpy", clock(noon+20))
	if u, ms, more := p.Unspent(0, clock(noon+1000)); u.Costs != nil || ms != 1010 || !more {
		t.Errorf("before that is over: %+v, %v in %d ms", u, more, ms)
	}
	u, _, more := p.Unspent(0, clock(noon+2010))
	if c, _ := table.Find(u.Costs, "rpy"); more || c.Milli != -left || c.End != p.image.State.PeriodEnd() {
		t.Fatalf("%d were left: %+v, more %v", left, u, more)
	}
	// It was not written: the tokens are back, and the caller must handle them.
	if !p.Unwritten(u, clock(noon+2020)) || p.Unwritten(Unspent{}, clock(noon+2020)) {
		t.Error("no task handles unwritten tokens, or two do")
	}
	if u, _, more = p.Unspent(0, clock(noon+4000)); more || u.Costs[0].Milli != -left {
		t.Errorf("%+v goes back, more %v", u, more)
	}
}

// A clock that panics leaves a shard's expiring tokens to another task.
func TestAPanicLeavesAShardToOthers(t *testing.T) {
	p := newProcess(t)
	limits := p.ofAQuota()
	group := slices.Repeat([]Want{costing(1000, limits[0])}, 10)
	p.charges(group, 0)
	p.charges(group, 10)
	if _, ok := p.Mind(0, clock(noon+20)); !ok {
		t.Fatal("not minded")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the clock did not panic")
			}
		}()
		p.Unspent(0, func() Now { panic("clock") })
	}()
	if _, ok := p.Mind(0, clock(noon+20)); !ok {
		t.Error("no task handles the shard any more")
	}
}

// A process prefetches from a bucket once a request gives a time for it, and from shards to which
// it has written.
func TestTakesAheadOnceARequestAllowsIt(t *testing.T) {
	b := seenAs(plenty, 9, 9)
	w := costing(1000, plenty)
	for _, c := range []struct{ ahead, want int64 }{{0, 0}, {2000, 1}} {
		w.Ahead = c.ahead
		b.Begin(Choice{Do: Take, Shard: 1}, w, noon)
		b.Plan(Choice{Do: Take, Shard: 1}, []Want{w}, 1, clock(noon))
		if b.TakesAhead() != (c.want == 1) {
			t.Errorf("for %d ms: takes ahead %v", c.ahead, b.TakesAhead())
		}
	}
	seenAs(perSecond, 3).Unanswered(Planned{}, true) // of a shard with nothing held
}

// A shard is gone, and its held tokens are still granted: the lease records where its tokens are to
// be given back.
func TestGrantsOfAShardThatIsGone(t *testing.T) {
	p := newProcess(t)
	p.charges(ten(), 0)
	p.charges(ten(), 10)
	want := p.image.Key()
	p.Missing(noon+20, 0)
	if h, ok := p.Grant(costing(1000, plenty), clock(noon+30)); !ok || h.Key != want || h.Image.Entity != "acme" {
		t.Errorf("granted %v of %q, by an image of %q", ok, h.Key, h.Image.Entity)
	}
}
