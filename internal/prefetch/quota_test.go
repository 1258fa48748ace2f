package prefetch

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck/loadchecktest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// period is the grants of a quota in one of its periods.
type period struct{ granted, returned, most int64 }

// quota makes the last limit of some worlds a quota, by the calendar or first use, and in some the
// first, too.
func (w *world) quota(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 12))
	planted := w.d == overEdge || w.d == anyPeriod
	plain := w.d == "" && !w.changes && !w.deletes && !w.foreign && rng.IntN(2) == 0
	if !planted && !plain {
		return
	}
	w.quotas = map[string]map[int64]*period{}
	l := &w.limits[len(w.limits)-1]
	w.quotas[l.Name] = map[int64]*period{}
	*l = bucket.Limit{Name: l.Name, Capacity: 10 * l.Capacity, Period: bucket.QuotaPeriod, Reset: "m*/2@UTC"}
	if rng.IntN(2) == 0 {
		l.Reset = fmt.Sprintf("+%d", 2+rng.IntN(60))
	}
	if l := &w.limits[0]; plain && len(w.limits) > 1 && rng.IntN(2) == 0 { // and another one, with longer periods
		w.quotas[l.Name] = map[int64]*period{}
		*l = bucket.Limit{Name: l.Name, Capacity: 20 * l.Capacity, Period: bucket.QuotaPeriod, Reset: "m*/10@UTC"}
	}
	if w.d == anyPeriod {
		w.returns = true
	}
}

// spends counts the grants of quotas in their periods, by the item, and returns the costs with the
// periods that a lease would record: from the item too, or from the process's image. A grant from
// held tokens must be of the period in which it happens.
func (w *world) spends(k int, it item.Item, image bucket.State, costs []table.Cost, local bool) []table.Cost {
	if w.quotas == nil || it == nil {
		return costs
	}
	b, err := table.DecodeShard(it)
	if err != nil {
		panic(err)
	}
	if !local {
		image = b.State
	}
	out := append([]table.Cost(nil), costs...)
	for i, c := range costs {
		if !c.Limit.Renews() {
			continue
		}
		if j := image.Index(c.Limit.Name); j >= 0 {
			out[i].End, out[i].Resets = image.Slots[j].End, image.Slots[j].Resets
		}
		end := b.State.Slots[b.State.Index(c.Limit.Name)].End
		if local && w.Now >= end+2*w.skew && end != 0 && c.Milli > 0 {
			end = -1 // of a period that was over
		}
		p := w.quotas[c.Limit.Name][end]
		if p == nil {
			p = &period{}
			w.quotas[c.Limit.Name][end] = p
			w.Count("periods")
		}
		p.granted += c.Milli
		p.most = max(p.most, p.granted-p.returned)
	}
	return out
}

// refund counts give-backs of quotas. They belong to the period that the costs name.
func (w *world) refund(costs []table.Cost) {
	for _, c := range costs {
		if p := w.quotas[c.Limit.Name][c.End]; p != nil {
			p.returned += c.Milli
		}
	}
}

// overQuota returns by how much the grants of a period exceed the quota.
func (w *world) overQuota(i int) (worst int64) {
	for end, p := range w.quotas[w.limits[i].Name] {
		most := w.limits[i].Capacity
		if end < 0 {
			most = 0
		}
		worst = max(worst, p.most-most)
	}
	return worst
}

// unspent gives expired quota tokens back, and sometimes gets the result that it was late, not
// written, or nothing.
func (w *world) unspent(p *process, k int) {
	h := p.hold(k)
	back := h.Back(w.clock(p))
	if back == nil {
		return
	}
	if w.OneIn(5) { // it is not sent
		w.After(w.late(), func() { h.GoesBack(back, w.clock(p)) })
		return
	}
	w.Send(loadchecktest.Call{Writes: []item.Write{table.Adjust(key(k), back)},
		Arrived: func(bool) { w.Count("back") },
		Answered: func(held bool) {
			if !held {
				for _, c := range back {
					h.ended.add(c.Limit.Name, -c.Milli)
				}
			}
		}})
}

// quotaBucket returns a bucket of 100 a second and of a quota of 1,000 in two minutes, at an
// instant.
func quotaBucket(at int64) (table.Shard, []bucket.Limit) {
	limits := []bucket.Limit{
		{Name: "rps", Capacity: 100_000, Amount: 100_000, Period: 1000},
		{Name: "rpy", Capacity: 1_000_000, Period: bucket.QuotaPeriod, Reset: "m*/2@UTC"},
	}
	_, b := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Costs: table.Costs(limits),
		Now: at, Draw: 1})
	return b, limits
}

// The example of LifeFrom, and a period that the charge itself begins.
func TestNothingIsHeldOverAnEdge(t *testing.T) {
	const edge = began/120_000*120_000 + 120_000
	b, limits := quotaBucket(edge - 30_000)
	costs := table.Costs(limits)
	for at, want := range map[int64]int64{-1000: 500, -200: 200, 0: 0, 500: 0, 999: 0, 1000: 500, 120_000 - 100: 100} {
		check.Equal(t, LifeFrom(b, costs, 500, edge+at), want, "%d ms from the edge: ms", at)
	}
	costs[1].Limit.Reset = "+3"
	_, b = table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Costs: costs[1:],
		Now: edge, Draw: 1})
	check.Equal(t, LifeFrom(b, costs[1:], 10_000, edge+100), 3000, "a period of 3 s begins with the charge: ms")
	begun := b
	begun.State = b.State.Begin([]int64{1000, 0})
	check.Equal(t, LifeFrom(begun, costs[1:], 10_000, edge+100), 2900, "a period of 3 s began 100 ms ago: ms")
}

// Expired tokens of a quota are given back, not counted as expired like a rate's; but not after
// their period is over, or was made whole.
func TestUnspentQuotaGoesBack(t *testing.T) {
	const edge = began/120_000*120_000 + 120_000
	const at = edge - 30_000
	for name, c := range map[string]struct {
		now  int64
		see  func(b *table.Shard)
		back int64
	}{
		"in its period":     {now: at + 500, back: -4000},
		"held still":        {now: at + 499},
		"after its period":  {now: edge},
		"made whole since":  {now: at + 500, see: func(b *table.Shard) { b.State.Slots[1].Resets++ }},
		"of another period": {now: at + 100, see: func(b *table.Shard) { b.State.Slots[1].End += 120_000 }},
	} {
		b, limits := quotaBucket(at)
		h, take := Holding{}, table.Costs(limits, 6000, 6000)
		h.Ask(b, take, 500, Instant{Wall: at})
		h.See(b, 500)
		h.Done(Written, b)
		if !h.Take(table.Costs(limits, 2000, 2000), Instant{Wall: at}) {
			t.Fatal("nothing is held")
		}
		if c.see != nil {
			c.see(&b)
			h.See(b, 500)
		}
		now := Instant{Wall: c.now, Mono: c.now - at}
		back := h.Back(now)
		got, _ := table.Find(back, "rpy")
		if got.Milli != c.back || len(back) > 1 {
			t.Errorf("%s: given back %+v, want %d", name, back, c.back)
		}
		ended := int64(4000)
		if c.back != 0 || name == "held still" {
			ended = 0
		}
		check.Equal(t, h.ended.of("rpy"), ended, "%s: ended", name)
		if _, some := h.BackIn(now); some != (name == "held still") {
			t.Errorf("%s: more is to be given back: %v", name, some)
		}
		if back == nil {
			continue
		}
		check.Equal(t, got.End, edge, "%s: of the period that ends at %d", name, got.End-edge)
		h.GoesBack(back, now) // it was not written
		h.GoesBack(back, now)
		if _, some := h.BackIn(now); !some {
			t.Errorf("%s: unwritten tokens are not given back", name)
		}
		if again := h.Back(now); len(again) != 1 || again[0].Milli != 2*c.back {
			t.Errorf("%s: %+v is to be given back again", name, again)
		}
		h.GoesBack(back, Instant{Wall: edge, Mono: edge - at}) // too late
		if h.ended.of("rpy") != 4000 || h.Back(now) != nil {
			t.Errorf("%s: %d ended", name, h.ended.of("rpy"))
		}
	}
}

// Tokens of a quota are settled only into held tokens of their own period and bucket.
func TestQuotaIsSettledInItsPeriod(t *testing.T) {
	const at = began/120_000*120_000 + 30_000
	b, limits := quotaBucket(at)
	end := b.State.Slots[1].End
	for _, c := range []struct {
		end, resets, born, milli int64
		want                     bool
	}{
		{end, 0, 0, 1000, true}, {end - 120_000, 0, 0, 1000, false}, {end, 1, 0, 1000, false},
		{0, 0, 0, 1000, false}, {0, 0, 0, -1000, true}, {0, 0, 0, 0, true},
		{end, 0, b.Born, 1000, true}, {end, 0, b.Born - 1, 1000, false},
	} {
		h := Holding{}
		h.Ask(b, table.Costs(limits, 6000, 6000), 500, Instant{Wall: at})
		h.Done(Written, b)
		h.Take(table.Costs(limits, 2000, 2000), Instant{Wall: at})
		back := table.Costs(limits, 0, c.milli)
		back[1].End, back[1].Resets, back[1].Born = c.end, c.resets, c.born
		check.Equal(t, h.Settle(back, Instant{Wall: at}), c.want, "%+v: settled", c)
	}
}

// The rest of a quota in an expired allotment moves to a later one, without a write: of the same
// period and generation.
func TestUnspentQuotaGoesToALaterAllotment(t *testing.T) {
	const at = began/120_000*120_000 + 30_000
	for name, c := range map[string]struct {
		change              func(b *table.Shard)
		moved, unsent, told int64
	}{
		"as it was":             {moved: 6000},
		"in another generation": {change: func(b *table.Shard) { b.Generation += 1 << 12 }, unsent: 6000},
		"made whole since":      {change: func(b *table.Shard) { b.State.Slots[1].Resets++ }, told: 6000},
	} {
		b, limits := quotaBucket(at)
		h := Holding{}
		h.See(b, 500)
		h.Ask(b, table.Costs(limits, 6000, 6000), 500, Instant{Wall: at})
		h.Done(Written, b)
		if b.State.Slots = append([]bucket.Slot(nil), b.State.Slots...); c.change != nil {
			c.change(&b)
		}
		h.See(b, 500)
		h.Ask(b, table.Costs(limits, 1000, 1000), 500, Instant{Wall: at + 100, Mono: 100})
		h.Done(Written, b)
		now := Instant{Wall: at + 500, Mono: 500}
		back, _ := table.Find(h.Back(now), "rpy")
		if left := h.Left("rpy", now); left != 1000+c.moved || -back.Milli != c.unsent {
			t.Errorf("%s: %d are held, and %d go back", name, left, -back.Milli)
		}
		if left := h.Left("rps", now); left != 1000 || h.ended.of("rps") != 6000-c.told {
			t.Errorf("%s: of the rate %d are held, and %d ended", name, left, h.ended.of("rps"))
		}
	}
}

// An image older than the held tokens does not end them.
func TestAnOldImageEndsNothing(t *testing.T) {
	const edge = began/120_000*120_000 + 120_000
	old, limits := quotaBucket(edge - 30_000)
	b := old
	b.State = b.State.At(edge + 2000)
	h := Holding{}
	h.See(b, 500)
	h.Ask(b, table.Costs(limits, 6000, 6000), 500, Instant{Wall: edge + 2000})
	h.Done(Written, b)
	h.See(old, 500)
	check.Equal(t, h.Left("rpy", Instant{Wall: edge + 2001, Mono: 1}), 6000, "held after an old image, of 6000")
}

// A quota shortens the life regardless of the other limits, and of several allotments the first one
// to end gives back.
func TestQuotasAmongOtherLimits(t *testing.T) {
	const at = began/120_000*120_000 + 30_000
	_, limits := quotaBucket(at)
	limits[0].Name, limits[1].Name = "z", "a"
	limits[0], limits[1] = limits[1], limits[0]
	_, b := table.Create(table.NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Costs: table.Costs(limits),
		Now: at, Draw: 1})
	check.Equal(t, LifeFrom(b, table.Costs(limits), 500, at+90_000-100), 100, "100 ms from the edge: ms")
	for _, lives := range [][]int64{{300, 500, 400}, {500, 300, 400}, {400, 500, 300}} {
		h := Holding{}
		for _, life := range lives {
			h.Ask(b, table.Costs(limits, 6000, 6000), life, Instant{Wall: at})
			h.Done(Written, b)
		}
		if ms, ok := h.BackIn(Instant{Wall: at + 50, Mono: 50}); ms != 250 || !ok {
			t.Errorf("lives of %v: something goes back in %d ms, %v, want 250", lives, ms, ok)
		}
	}
}

// The rest of a quota must be given back when its allotment ends, by whichever clock ends it first.
// Tokens of rates, and of other processes, do not count.
func TestQuotasGoBackWhenTheirAllotmentEnds(t *testing.T) {
	const at = began/120_000*120_000 + 30_000
	b, limits := quotaBucket(at)
	rates := shardOf(0, 0)
	rates.Generation = b.Generation
	h := Holding{}
	h.Ask(rates, threes(1000), 100, Instant{Wall: at})
	h.Done(Written, rates)
	h.Ask(b, table.Costs(limits, 6000, 6000), 500, Instant{Wall: at})
	h.Done(Written, b)
	for now, want := range map[Instant]int64{
		{Wall: at}: 500, {Wall: at + 400, Mono: 50}: 100, {Wall: at + 50, Mono: 400}: 100, {Wall: at + 500}: 0,
		{Wall: at, Mono: 501}: 0,
	} {
		if ms, ok := h.BackIn(now); ms != want || !ok {
			t.Errorf("at %+v it goes back in %d ms, %v, want %d", now, ms, ok, want)
		}
	}
}

// Tokens that move to a later allotment are held there, and leave less room for give-backs.
func TestTokensMovedToALaterAllotmentTakeRoom(t *testing.T) {
	const at = began/120_000*120_000 + 30_000
	for _, c := range []struct {
		back int64
		want bool
	}{{500, true}, {501, false}} {
		b, limits := quotaBucket(at)
		h := Holding{}
		h.Ask(b, table.Costs(limits, 6000, 6000), 500, Instant{Wall: at})
		h.Done(Written, b)
		h.Ask(b, table.Costs(limits, 1000, 1000), 500, Instant{Wall: at + 100, Mono: 100})
		h.Done(Written, b) // 7000 are declared
		h.Take(table.Costs(limits, 500, 500), Instant{Wall: at + 100, Mono: 100})
		back := table.Costs(limits[1:], c.back)
		back[0].End = b.State.Slots[1].End
		now := Instant{Wall: at + 500, Mono: 500}
		if got := h.Settle(back, now); got != c.want || h.Left("rpy", now) > 7000 {
			t.Errorf("%d come back to 6500 of 7000: %v, %d are held", c.back, got, h.Left("rpy", now))
		}
	}
}

// Give-backs are in order of name, without zeros.
func TestGiveBacksAreInOrder(t *testing.T) {
	h := Holding{}
	var costs []table.Cost
	for _, name := range []string{"c", "a", "d", "b"} {
		costs = append(costs, table.Cost{Limit: bucket.Limit{Name: name}, Milli: -1000, End: 5000})
	}
	costs = append(costs, table.Cost{Limit: bucket.Limit{Name: "e"}, End: 5000},
		table.Cost{Limit: bucket.Limit{Name: "a"}, Milli: 300, End: 5000})
	h.GoesBack(costs, Instant{})
	names := ""
	for _, c := range h.Back(Instant{}) {
		if names += c.Limit.Name; c.Milli != -1000 {
			t.Errorf("%+v", c)
		}
	}
	if names != "abcd" || h.ended.any() {
		t.Errorf("%q goes back, ended %+v", names, h.ended)
	}
}

// A reset that was seen while a charge was under way ends the tokens of the charge.
func TestAResetBehindACharge(t *testing.T) {
	const at = began/120_000*120_000 + 30_000
	for resets, want := range map[int64]int64{0: 6000, 1: 0} {
		b, limits := quotaBucket(at)
		h := Holding{}
		h.Ask(b, table.Costs(limits, 6000, 6000), 500, Instant{Wall: at})
		later := b
		later.State.Slots = append([]bucket.Slot(nil), b.State.Slots...)
		later.State.Slots[1].Resets = resets
		h.See(later, 500)
		h.Done(Written, b)
		check.Equal(t, h.Left("rpy", Instant{Wall: at + 1, Mono: 1}), want, "%d resets: held", resets)
	}
}

// The edges of a bucket's quotas only affect requests that take from them.
func TestEdgesConcernQuotasOnly(t *testing.T) {
	const at = began/120_000*120_000 + 119_900
	b, limits := quotaBucket(at - 60_000)
	b.Calendars.Until = at + 50
	check.Equal(t, LifeFrom(b, table.Costs(limits[:1]), 500, at), 500, "a rate: ms")
	check.Equal(t, LifeFrom(b, table.Costs(limits), 500, at), 50, "a quota, too: ms")
}

// Give-backs belong to one period, one bucket and one reset. Earlier ones have expired.
func TestGiveBacksAreOfOneReset(t *testing.T) {
	const edge = 5000
	quota := bucket.Limit{Name: "rpy", Capacity: 1_000_000, Period: bucket.QuotaPeriod, Reset: "m*/2@UTC"}
	for _, c := range []struct{ end, born, resets, back, ended int64 }{
		{edge, 7, 1, -3000, 0}, {edge, 7, 2, -2000, 1000}, {edge, 7, 0, -1000, 2000},
		{edge, 8, 0, -2000, 1000}, {edge, 6, 2, -1000, 2000},
		{edge + 1, 7, 1, -2000, 1000}, {edge + 1, 6, 0, -2000, 1000}, {edge - 1, 7, 1, -1000, 2000},
		{edge - 1, 8, 2, -1000, 2000},
	} {
		h := Holding{}
		h.GoesBack([]table.Cost{{Limit: quota, Milli: -1000, End: edge, Born: 7, Resets: 1}}, Instant{})
		h.GoesBack([]table.Cost{{Limit: quota, Milli: -2000, End: c.end, Born: c.born, Resets: c.resets}}, Instant{})
		if len(h.back) != 1 || h.back[0].Milli != c.back || h.ended.of("rpy") != c.ended {
			t.Errorf("%+v: %+v goes back, %d have ended", c, h.back, h.ended.of("rpy"))
		}
	}
}
