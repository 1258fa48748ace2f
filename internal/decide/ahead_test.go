package decide

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/prefetch"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// plenty refills a hundred tokens a second: prefetched tokens may be held for half a second, in
// which it fills halfway.
var plenty = bucket.Limit{Name: "rps", Capacity: 100_000, Amount: 100_000, Period: 1000}

// costing is a request for so many millitokens.
func costing(milli int64, l bucket.Limit) Want {
	w := asks(0, l)
	w.Costs, w.Ahead = table.Costs([]bucket.Limit{l}, milli), 2000
	return w
}

// ten requests for a token each.
func ten() []Want { return slices.Repeat([]Want{costing(1000, plenty)}, 10) }

// process is a process's state of a bucket, with prefetching.
type process struct {
	*Bucket
	t     *testing.T
	image table.Shard // the stored item
}

func newProcess(t *testing.T) *process {
	p := &process{Bucket: NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32}), t: t}
	p.image = table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: noon,
		State: bucket.New([]bucket.Limit{plenty}, 0, 1, noon)}
	p.See(p.image, noon, Unsent)
	return p
}

// ofAQuota replaces the bucket's limits by a quota.
func (p *process) ofAQuota() []bucket.Limit {
	limits := []bucket.Limit{{Name: "rpy", Capacity: 1_000_000, Period: bucket.QuotaPeriod, Reset: "m0h0@UTC"}}
	p.image.State = bucket.New(limits, 0, 1, noon)
	p.image.Calendars.Has, p.image.Calendars.Until = true, p.image.State.PeriodEnd()
	p.See(p.image, noon, Unsent)
	return limits
}

// shows records an image with a level of milli.
func (p *process) shows(milli int64) {
	p.image.State.Slots = slices.Clone(p.image.State.Slots)
	p.image.State.Slots[p.image.State.Index("rps")].Tokens = milli
	p.See(p.image, noon, Unsent)
}

// sends plans a charge for new requests.
func (p *process) sends(group []Want, ms int64) Planned {
	p.t.Helper()
	for _, w := range group {
		p.Begin(Choice{Do: Take}, w, noon+ms)
	}
	n, plan := p.Plan(Choice{Do: Take}, group, len(group), clock(noon+ms))
	if n != len(group) || !plan.Takes {
		p.t.Fatalf("%d of %d, %+v", n, len(group), plan)
	}
	return plan
}

// charges sends a charge, which holds, and returns how much it has prefetched.
func (p *process) charges(group []Want, ms int64) (ahead int64) {
	p.t.Helper()
	plan := p.sends(group, ms)
	after, held, err := plan.Write.Apply(p.image.Item())
	if err != nil || !held {
		p.t.Fatalf("not held: %v", err)
	}
	if p.image, err = table.DecodeShard(after); err != nil {
		p.t.Fatal(err)
	}
	p.Took(p.image, plan, Joined(group), group, noon+ms)
	return took(plan)
}

func took(p Planned) int64 {
	if p.ahead == nil {
		return 0
	}
	c, _ := table.Find(p.ahead.Take, "rps")
	return c.Milli
}

// grants expects n requests to be granted without a write. It returns the numbers of the requests
// after which another prefetch is due.
func (p *process) grants(n int, milli, ms int64) (renew []int) {
	p.t.Helper()
	for i := range n {
		h, ok := p.Grant(costing(milli, plenty), clock(noon+ms))
		if !ok || h.Costs[0].Milli != milli {
			p.t.Fatalf("request %d: granted %v, %+v", i, ok, h)
		}
		if h.Renew {
			renew = append(renew, i)
		}
	}
	return renew
}

func (p *process) left(ms, want int64) {
	p.t.Helper()
	check.Equal(p.t, p.Left(0, "rps", clock(noon+ms)), want, "left after %d ms", ms)
}

// After ten requests for a token, the next charge prefetches five: 80 % of the demand of half a
// second, as estimated from the first requests, which stand for 723 ms. They are granted without a
// write, and more is requested when 20 % is left.
func TestBusyProcessTakesAhead(t *testing.T) {
	p := newProcess(t)
	if n := p.charges(ten(), 0); n != 0 || p.Holds() {
		t.Errorf("%d prefetched by a process without requests", n)
	}
	if n := p.charges(ten(), 0); n != 5000 || !p.Holds() {
		t.Fatalf("%d taken ahead, want 5000", n)
	}
	level, _ := p.image.State.LevelAt(p.image.State.Index("rps"), noon)
	p.left(0, 5000)
	check.Equal(t, level, 75_000, "millitokens left of 100 tokens")
	if h, ok := p.Grant(costing(5001, plenty), clock(noon)); ok {
		t.Errorf("more was granted than is held: %+v", h)
	}
	other := plenty
	other.Amount /= 2
	if h, ok := p.Grant(costing(1000, other), clock(noon)); ok {
		t.Errorf("granted under another limit: %+v", h)
	}
	check.Slices(t, p.grants(22, 200, 0), []int{19},
		"requests that ask for more: the one after which 1000 of 5000 are left, once")
	p.Renewed(0)
	p.Renewed(1) // its outcome is unknown
	if renew := p.grants(1, 200, 0); len(renew) != 1 {
		t.Error("after that is over, no request asks again")
	}
	p.Renewed(0)
	plan := p.sends(ten(), 0)
	if renew := p.grants(1, 200, 0); len(renew) != 0 {
		t.Error("more is requested than the call under way")
	}
	p.Unanswered(plan, false)
	p.left(499, 200)
	p.left(500, 0) // over
	if h, ok := p.Grant(costing(200, plenty), clock(noon+500)); ok {
		t.Errorf("granted when it was over: %+v", h)
	}
	p.sends(ten(), 500) // reports that it expired
	if p.Grant(costing(200, plenty), clock(noon+500)); p.Holds() {
		t.Error("it holds expired tokens")
	}
}

// Prefetched tokens of a charge are held, even if the last request before its answer does not
// prefetch.
func TestTakenAheadBesideARequestWithout(t *testing.T) {
	p := newProcess(t)
	p.charges(ten(), 0)
	plan := p.sends(ten(), 10)
	without := costing(1000, plenty)
	without.Ahead = 0
	p.Decide(without, &Attempt{}, clock(noon+11))
	after, _, err := plan.Write.Apply(p.image.Item())
	image, odd := table.DecodeShard(after)
	check.Must(t, errors.Join(err, odd))
	p.Took(image, plan, Joined(ten()), ten(), noon+12)
	if took(plan) == 0 {
		t.Fatal("nothing was taken ahead")
	}
	p.left(12, took(plan))
}

// A call that is aborted under way may have prefetched: its tokens are not held, and the next
// charge prefetches again.
func TestAnAbortedCallHoldsNothing(t *testing.T) {
	p := newProcess(t)
	p.charges(ten(), 0)
	var e Effects
	now := func() Now { return Now{Ms: noon + 10, At: time.UnixMilli(noon + 10)} }
	p.Ask(&Waiter{Want: costing(1000, plenty)}, true, now, &e)
	c := e.Calls[0]
	p.Advance(c, now, &e)
	if took(c.Planned) == 0 {
		t.Fatal("nothing was taken ahead")
	}
	p.Abort(c, errors.New("panic"), time.UnixMilli(noon+10), &e)
	p.left(12, 0)
	if n := took(p.sends(ten(), 20)); n == 0 {
		t.Error("nothing is taken ahead any more")
	}
}

// The more of the refill is used, the less is prefetched from a bucket that is not full: for ten
// requests in 723 ms, 85 % of half a second if nine tenths are left. After a denial, every expired
// token counts as missed.
func TestTokensThatMayBeMissedAreNotTakenAhead(t *testing.T) {
	for name, c := range map[string]struct {
		perSecond float64
		denied    bool
		want      int64
	}{"much is left": {10, false, 5000}, "nothing": {100, false, 3000}, "much, but it was denied": {10, true, 1000}} {
		p := newProcess(t)
		p.charges(ten(), 0)
		k := p.lock()
		k.shards[0].others = others{all: map[string]float64{"rps": c.perSecond * 10_000}, elapsed: 10_000}
		if c.denied {
			k.shards[0].holding.demand.Denied()
		}
		p.mu.Unlock()
		check.Equal(t, took(p.sends(ten(), 0)), c.want, "%s: taken ahead", name)
	}
}

// No prefetch is requested while the bucket has too little.
func TestNothingIsRenewedOfABucketThatIsShort(t *testing.T) {
	for name, play := range map[string]func(p *process){
		"empty": func(p *process) {
			p.shows(0)
		},
	} {
		p := newProcess(t)
		p.charges(ten(), 0)
		p.charges(ten(), 0)
		play(p)
		check.Equal(t, len(p.grants(20, 200, 0)), 0, "%s: more is asked for", name)
	}
}

// When others have replaced the limits, tokens held under the old ones are not granted.
func TestNothingIsGrantedUnderReplacedLimits(t *testing.T) {
	p := newProcess(t)
	p.charges(ten(), 0)
	p.charges(ten(), 0)
	faster := plenty
	faster.Amount *= 2
	p.image.State.Slots[p.image.State.Index("rps")].Limit = faster
	p.image.Generation++
	if !p.Refused(p.image, Planned{since: Unsent}, noon) {
		t.Fatal("not replaced")
	}
	if h, ok := p.Grant(costing(1000, plenty), clock(noon)); ok {
		t.Errorf("granted %+v", h)
	}
}

// Expired tokens are reported again if the charge was refused, and not if its answer was lost.
func TestRefusedChargesReportExpiredTokensAgain(t *testing.T) {
	for written, want := range map[bool]int{false: 1, true: 0} {
		p := newProcess(t)
		p.charges(ten(), 0)
		p.charges(ten(), 0)
		p.Unanswered(p.sends(ten(), 500), written)
		p.End(0, ten()...)
		p.Unanswered(Planned{}, true) // of a charge that reports nothing
		if plan := p.sends(ten(), 500); plan.ahead == nil || len(plan.ahead.Ended) != want {
			t.Errorf("written %v: reports %+v, want %d limits with expired tokens", written, plan.ahead, want)
		}
	}
}

// Expired tokens are reported with the next write, even if others have taken so much that a plain
// add would be sent first.
func TestExpiredTokensAreReportedInACrowd(t *testing.T) {
	p := newProcess(t)
	p.charges(ten(), 0)
	p.charges(ten(), 0)
	p.image.State.Slots = slices.Clone(p.image.State.Slots)
	of := &p.image.State.Slots[p.image.State.Index("rps")]
	of.Tokens, of.Used = of.Tokens-60_000, of.Used+60_000 // others took 60 tokens
	p.See(p.image, noon+500, Unsent)
	s := p.lock().shards[0]
	if p.mu.Unlock(); !s.crowded(costing(1000, plenty), noon+1500, p.facts.Slack) {
		t.Fatal("others take little")
	}
	plan := p.sends([]Want{costing(1000, plenty)}, 1500)
	if _, ended := plan.Ahead(); len(ended) != 1 || ended[0].Milli != 5000 {
		t.Errorf("reports %+v, want that 5000 expired unspent", ended)
	}
}

// A charge that prefetches nothing and has nothing to report declares nothing. An answer without a
// call under way changes nothing.
func TestNothingIsReportedWhereNothingIsHeld(t *testing.T) {
	p := newProcess(t)
	if taken, ended := p.sends([]Want{costing(1000, plenty)}, 0).Ahead(); taken != nil || ended != nil {
		t.Errorf("it reports %v and %v", taken, ended)
	}
	p = newProcess(t)
	p.charges(ten(), 0)
	p.charges(ten(), 0)
	p.Took(p.image, Planned{}, costing(0, plenty), nil, noon)
	p.left(0, 5000)
}

// Denied requests count as demand: otherwise a process with few grants of a saturated bucket would
// ask for less and less. A request with a floor gets no prefetched tokens.
func TestDeniedRequestsAreDemand(t *testing.T) {
	p := newProcess(t)
	p.charges(ten(), 0)
	p.shows(0)
	requests := func() float64 {
		k := p.lock()
		defer p.mu.Unlock()
		return k.shards[0].holding.demand.Requests(noon) * 722.5 // which the requests stand for
	}
	was := requests()
	for i := range 3 { // the second and third by the remembered denial
		d := p.Decide(costing(5000, plenty), &Attempt{}, clock(noon))
		check.MustEqual(t, d.Do, Deny, "%+v", d.Choice)
		got := requests() - was
		check.Equal(t, int(got+.5), i+1, "%v requests were asked for", got)
	}
	floored := costing(5000, plenty)
	floored.Costs[0].Floor = 40
	p.Decide(floored, &Attempt{}, clock(noon))
	check.Equal(t, int(requests()-was+.5), 3, "a request that leaves 40 percent is demand")
	p.shows(90_000)
	p.charges([]Want{floored}, 0)
	check.Equal(t, int(requests()-was+.5), 3, "a request that leaves 40 percent is demand once it is granted")
}

// A request into debt prefetches nothing, nor does an image without a clock.
func TestDebtsAndClocklessImagesPrefetchNothing(t *testing.T) {
	for name, c := range map[string]struct {
		owes, noClock bool
		floor         int64
		partial       []table.PartialLimit
		want          int64
	}{
		"a request":        {want: 5000},
		"one that owes":    {owes: true},
		"no clock":         {noClock: true},
		"one that leaves":  {floor: 10},
		"stored in part":   {partial: []table.PartialLimit{{}}},
		"stored and known": {partial: []table.PartialLimit{}, want: 5000},
	} {
		p := newProcess(t)
		p.charges(ten(), 0)
		if c.noClock {
			p.image.State.NoClock, p.image.State.RF = true, 0
		}
		p.image.Partial = c.partial
		p.See(p.image, noon, p.Seen(0).Serial)
		choice := Choice{Do: Take, Owe: c.owes}
		group := ten()
		for i := range group {
			group[i].Costs = slices.Clone(group[i].Costs)
			group[i].Costs[0].Floor = c.floor
			p.Begin(choice, group[i], noon)
		}
		if _, plan := p.Plan(choice, group, 10, clock(noon)); took(plan) != c.want {
			t.Errorf("%s: %d taken ahead, want %d", name, took(plan), c.want)
		}
	}
}

// A quota was made whole, as the next image shows: tokens held from before are not granted.
func TestNothingIsGrantedOfBeforeAReset(t *testing.T) {
	p := newProcess(t)
	limits := p.ofAQuota()
	w := costing(1000, limits[0])
	for range 2 {
		p.charges([]Want{w, w, w, w, w, w, w, w, w, w}, 0)
	}
	if p.Left(0, "rpy", clock(noon)) == 0 {
		t.Fatal("nothing is held")
	}
	p.image.State.Slots = slices.Clone(p.image.State.Slots)
	p.image.State.Slots[0].Resets++
	p.See(p.image, noon+1, Unsent)
	check.Equal(t, p.Left(0, "rpy", clock(noon+1)), 0, "held")
}

// A request with a floor neither prefetches nor reports, so its floor is a condition of the write:
// 30 of 100 tokens are left meanwhile, and batch must leave 40.
func TestAFloorHoldsWhileSomethingIsToBeReported(t *testing.T) {
	p := newProcess(t)
	p.charges(ten(), 0)
	if p.charges(ten(), 0) == 0 {
		t.Fatal("nothing is taken ahead")
	}
	const later = 5000 // all held tokens have expired
	batch := costing(1000, plenty)
	batch.Costs[0].Floor = 40
	p.Begin(Choice{Do: Take}, batch, noon+later)
	n, plan := p.Plan(Choice{Do: Take}, []Want{batch}, 1, clock(noon+later))
	if n != 1 || plan.ahead != nil {
		t.Errorf("n %d, ahead %+v", n, plan.ahead)
	}
	stored := p.image
	stored.State = stored.State.At(noon + later)
	i := stored.State.Index("rps")
	stored.State.Slots[i].Tokens, stored.State.Slots[i].Used = 30_000, stored.State.Slots[i].Used+70_000
	stored.State.RF = p.image.State.RF
	if _, held, err := plan.Write.Apply(stored.Item()); err != nil || held {
		t.Errorf("held %v, %v: batch got a token of the 40 that it leaves to others", held, err)
	}
}

// A busy process that shares a bucket saves up for many requests before it asks, in 0.6 of a life,
// and takes exactly what it has saved up. A share of a tenth saves up the refill of 30 ms in 300,
// and of 40 ms at most.
func TestABusyProcessSavesUpForManyRequests(t *testing.T) {
	for _, c := range []struct {
		part, saved float64
		want        Action
		after       int64
		takes       int64
	}{
		{.1, 0, Deny, 300, 0}, {.1, 29, Deny, 10, 0}, {.1, 30, Take, 0, 2000}, {.5, 39, Deny, 2, 0}, {.5, 40, Take, 0, 3000},
	} {
		p := newProcess(t)
		for range 2 { // 20 requests: 13.8 in a life
			p.charges(ten(), 0)
		}
		p.shows(50_000)
		s := p.lock().shards[0]
		s.holding.Holding = prefetch.Holding{}
		s.shares = map[int64]*share{0: {part: c.part, at: noon, saved: c.saved, most: 60}}
		p.mu.Unlock()
		d := p.Decide(costing(1000, plenty), &Attempt{}, clock(noon))
		if d.Do != c.want || d.Do == Deny && (d.Denial.After != c.after || !d.Denial.Estimated) {
			t.Errorf("%+v: %+v, after %d ms", c, d.Choice, d.Denial.After)
		}
		if c.want == Take {
			plan := p.sends([]Want{costing(1000, plenty)}, 0)
			check.Equal(t, took(plan), c.takes, "%+v: taken ahead", c)
		}
	}
}

// A grant from held tokens has the levels of the last image.
func TestHeldGrantHasTheLastImage(t *testing.T) {
	p := newProcess(t)
	p.charges(ten(), 0)
	p.charges(ten(), 0)
	h, _ := p.Grant(costing(1000, plenty), clock(noon))
	if h.Key != p.image.Key() || !slices.Equal(h.Limits, p.image.State.Limits()) {
		t.Errorf("%+v, want key %v and limits %v", h, p.image.Key(), p.image.State.Limits())
	}
	added := plenty
	added.Name = "added"
	p.image.State.Slots = slices.Insert(p.image.State.Slots, 0, bucket.Slot{Limit: added, Tokens: added.Capacity})
	p.See(p.image, noon, Unsent)
	if h, _ = p.Grant(costing(1000, plenty), clock(noon)); !slices.Equal(h.Limits, p.image.State.Limits()) {
		t.Errorf("limits %v, want %v", h.Limits, p.image.State.Limits())
	}
}

// A lease gives back into the held tokens, as far as they are declared.
func TestLeaseGivesBackIntoHeldTokens(t *testing.T) {
	p := newProcess(t)
	p.charges(ten(), 0)
	p.charges(ten(), 0)
	p.grants(1, 3000, 0)
	for _, c := range []struct {
		shard    int
		milli    int64
		want     bool
		leftThen int64
	}{{0, 2000, true, 4000}, {0, 1001, false, 4000}, {0, -500, true, 3500}, {1, 1, false, 3500}} {
		got := p.GiveBack(c.shard, table.Costs([]bucket.Limit{plenty}, c.milli), clock(noon))
		p.left(0, c.leftThen)
		check.Equal(t, got, c.want, "%d to shard %d", c.milli, c.shard)
	}
	if seenAs(plenty, 10).GiveBack(0, table.Costs([]bucket.Limit{plenty}, 0), clock(noon)) {
		t.Error("a process that holds nothing takes something back")
	}
}

// Grants from held tokens count as demand like charges.
func TestGrantedRequestsAreDemand(t *testing.T) {
	p := newProcess(t)
	p.charges(ten(), 0)
	p.charges(ten(), 0)
	was := p.demand()
	if p.grants(5, 1000, 0); p.demand() < was*1.24 || p.demand() > was*1.26 {
		t.Errorf("a demand of %v, and of %v with five requests more than twenty", was, p.demand())
	}
}
