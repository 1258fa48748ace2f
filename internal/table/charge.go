package table

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Charge is the one planned write on a bucket shard. It does not write the level, which other
// processes change all the time, but a bound on the consumption counter, which their writes cannot
// make wrong.
//
// A limit has a level tk, good at the instant rf, a remainder rest and a counter tc. Spending c
// makes them tk-c and tc+c, so their sum with the refill,
//
//	line(t) = tk + tc + ((t-rf)*ra + rest) / rp
//
// is the same for every process: the counter may have reached it by t. A bucket is never more than
// full, so the counter may not exceed its present value by more than the capacity either. From an
// image, for every t >= rf,
//
//	allowed(t) = min(line(t), tc + capacity)    less while tokens are held, see [Ahead]
//
// bounds the counter at t, whatever other processes have done since the image, because the counter
// does not fall. The update is
//
//	SET  tk = :allowed - :c - tc     (the server's tc, before this update)
//	     rf = :t, rr = the remainders of allowed(t)
//	ADD  tc :c
//	IF   tc <= :allowed - :c         for every limit with a cost
//	     and the item is of the image's generation, count and limits, and rf <= t + 1 s
//
// With the new tk' = allowed - c - tc and tc' = tc + c,
//
//	tc' <= allowed(t)          no more is granted than was allowed
//	tk' + tc' = allowed(t)     the new item's line begins where the old one's is by t
//	allowed(t) <= line(t)      a full bucket loses its refill, and nothing is minted
//
// so two charges from any images commute, and processes do not compete for a clock. If a charge is
// refused, the tokens are gone, or the image is too old to prove that they are there.
//
// Example: capacity 10, refilled by 1 per second, image tk=4 tc=100 rf=0s. At 2 s allowed =
// min(4+100+2, 110) = 106. Others have taken 3 meanwhile (tk=1, tc=103). A charge of 2 needs tc <=
// 104, so it holds. It writes tk = 104-103 = 1 and tc = 105. The bucket does hold 1 + 2s*1 - 2. A
// charge of 4 needs tc <= 102 and is refused: there are 3.
//
// Near full, the image's tc + capacity is the smaller bound. Then the charge writes a level that is
// too low by the tokens that others took since the image, until they are refilled. A charge that
// would write a debt where there is none is refused. Settling into debt needs no bound on a limit
// that is filling: the line includes the debt.
//
// A generation is one life of an item under one set of rules, and a bound holds only within it. A
// write that changes the rules begins a new one: it splits a bucket, changes limits, mends a clock,
// or finds no generation because another client made the item. Such a write also requires the
// generation of its image, or if the image has none, the same refill instant.
//
// How the fields combine:
//
//	acquire   Costs of all limits in force, zero or more; Life
//	settle    Costs of any sign, Force: taken whether covered or not
//	refill    no Costs, or Refill and the costs of the limits in force
//
// Give-backs (Adjust) lower tc. A charge from an earlier image may then leave a full bucket above
// capacity, by the amount given back, until the next charge.
type Charge struct {
	Image    Shard
	Costs    []Cost // of the limits to put in force; nil: take nothing, and leave the stored limits
	Now      int64
	Lifetime Lifetime
	// Slack is for an image that shows a full limit lower than it is: if others have taken more
	// than this since, in percent of the capacity, the write is refused. Zero: any amount. Room, in
	// percent of the capacity, is how much a full limit gives up for writes that add without a
	// clock (see [Add]).
	Slack, Room int64
	Force       bool                   // take the costs even if they are not covered, into debt
	Owe         bool                   // with Force: exclude limits that may not owe, see [Cost.Owed]
	Refill      bool                   // take nothing; such a write, or one without Costs, is not metered
	Gifts       map[string]bucket.Gift // an operator's gifts, by limit; if not nil, the write begins a generation
	// Settles are the differences of leases, of any sign. They are taken by force before the costs,
	// in the same write; each must ride, see [Shard.Rides]. The rest must cover the costs.
	Settles []Cost
	// Ahead is the part of the costs to prefetch, and the held tokens. nil: prefetch nothing, and
	// leave the stored held tokens.
	Ahead *Ahead
}

// Charged is a planned charge.
type Charged struct {
	Verdict bucket.Verdict // whether the image's levels at Now cover the costs
	Short   string         // the limit with the longest wait, empty when granted
	Before  bucket.State   // the image at Now with the limits in force and the Settles taken, but not the Costs
	Settled bool           // the write includes the Settles, if any: not if it begins a generation
	Clock   int64          // the refill instant of the write; a stored one more than MaxLag later refuses it
	Update  item.Update    // to be written if the verdict is granted, or by force
}

// Plan plans the charge. It is pure.
func (c Charge) Plan() Charged {
	c.Costs = InForce(c.Costs, c.Now)
	p := plans.Get().(*planned)
	defer p.done()
	p.prepare(c)
	var few [8]int64
	out := Charged{Before: p.before, Settled: p.settled != nil,
		Verdict: p.before.Decide(needsBySlot(few[:0], p.before, c.taken()), p.before.RF)}
	if out.Verdict.Granted {
		out.Verdict.At = c.Now
	} else {
		out.Short = p.before.Slots[out.Verdict.Slot].Name
		if !c.Force {
			return out
		}
	}
	p.holdUntil()
	for i := range p.before.Slots {
		formOf(p.before.Slots[i].Limit).charge(p, i)
	}
	p.finish() // the clock, the lifetime, and the conditions on the image's generation and count
	out.Update, out.Clock = p.u, p.stored.RF
	return out
}

// prepare brings the image to the instant of the charge, with the limits of the costs in force, and
// decides whether the charge begins a generation. It does if the item
//
//	has none          another client made it: its next write must not be mistaken
//	                  for one of ours
//	was operated on   Python reset or credited it: an earlier image lacks the tokens
//	has no clock      or one that is far ahead: the image does not give its line
//	has no count      its capacity is not known: a shard of two has half of a shard of one
//	changes limits    10 tokens of a capacity of 10 are not 10 of 20: a charge from
//	                  an earlier image would cap the counter at tc + 10. By a schedule
//	                  they change for every image at the same edge, so all agree.
func (p *planned) prepare(c Charge) {
	p.c, p.image = c, c.Image.mended(c.Costs)
	p.makeLists()
	p.begins = c.Image.Generation == 0 || c.Image.operated() || p.brokenClock() || c.Image.NoShardCount ||
		c.Ahead != nil && c.Ahead.Mend
	p.before = p.image.At(c.Now)
	for _, cost := range c.Costs {
		p.adopt(cost.Limit)
	}
	if p.image.Index(bucket.WCU) < 0 {
		p.adopt(bucket.WCULimit())
	}
	p.begins = p.give() || p.begins || len(p.image.Slots) != len(c.Image.State.Slots)
	if p.begins {
		p.drop()
	}
	p.costs = costsBySlot(p.costs[:0], p.before, c.taken(), c.taken() != nil)
	p.before = p.before.Begin(p.costs)
	p.full = p.full[:0]
	for i, sl := range p.before.Slots {
		p.full = append(p.full, (sl.Tokens >= p.before.Rate(i).Capacity || p.lowered(i) || p.changed(sl)) && sl.Refills())
		p.begins = p.begins || p.moved(sl)
	}
	p.settle()
	p.makeRoom()
	p.after = p.before.TakeIn(p.slots[:0], p.costs)
	p.slots = p.after.Slots
	p.stored = p.after.Stored()
}

// makeRoom lowers nearly full levels, so that Room percent of the capacity is free after the costs
// are taken. With a capacity of 100, a room of 20 and a cost of 5, a level of 100 counts as 85, and
// is written as 80. Only there can an [Add] hold.
func (p *planned) makeRoom() {
	if p.c.Room <= 0 || p.begins {
		return
	}
	p.before.Slots = slices.Clone(p.before.Slots)
	for i := range p.before.Slots {
		sl, r := &p.before.Slots[i], p.before.Rate(i)
		top := bucket.AddSat(r.Capacity-percent(p.c.Room, r.Capacity), p.costs[i])
		if sl.Name != bucket.WCU && sl.Tokens > top && sl.Refills() {
			sl.Tokens, sl.Rest = top, 0
		}
	}
}

// charge adds the effect on slot i.
func (byLevel) charge(p *planned, i int) {
	sl, cost := p.before.Slots[i], p.costs[i]
	n := namesOf(sl.Name)
	tk, tc := n.tokens, n.used
	j, stored := p.indexes(sl.Name)
	if j < 0 || stored < 0 {
		if j < 0 { // new to the item: if two charges add a limit of 10, only one may start it at 10
			p.cond = append(p.cond, item.Absent(tk))
		} else { // partly stored, without a line: a level of 4 is used only if it is still 4
			partial, _ := p.c.Image.partial(sl.Name)
			p.cond = append(p.cond, item.Compare(tk, item.Eq, item.N(partial.Tokens)))
		}
		p.set(tk, item.N(p.stored.Slots[i].Tokens))
		p.become(sl, bucket.Limit{})
		// A counter may be left from an earlier life. There must be one, even if it is zero.
		p.u.Add = append(p.u.Add, item.Attr{Name: tc, Value: item.N(cost)})
		return
	}
	p.cond = append(p.cond, storedAs(p.image.Slots[j].Limit)...)
	if !p.image.Slots[j].Same(sl.Limit) { // changed
		p.become(sl, p.image.Slots[j].Limit)
	}
	p.add(tc, bucket.AddSat(cost, p.settles(i)))
	p.hold(i)
	if p.c.Image.entered(p.before, i) {
		p.set(tk, item.N(p.stored.Slots[i].Tokens))
		return
	}
	if gift := p.c.Gifts[sl.Name].Milli; gift < 0 { // it includes the tokens that others have taken since the image
		p.set(tk, item.N(p.stored.Slots[i].Tokens))
		p.cond = append(p.cond, p.numbers.Compare(tc, item.Le, p.c.Image.counter(&p.numbers, sl, -gift)))
		return
	}
	p.level(i, tk, tc)
}

// level adds the bound of slot i's counter, and the conditions. In the example above (image tc=100,
// 6 tokens by now), if others have taken n since (a test runs all of these):
//
//	cost 2, granted     tk = 104 - tc      if tc <= 104   n <= 4: the tokens are there
//	no cost, a refill   tk = 106 - tc      if tc <= 106   n <= 6: more were granted by a
//	                                                      later line, and would look like debt
//	cost 9, by force    tk =  97 - tc      always         3 + n are owed: the line is the
//	                                                      same for everybody
//	full, slack of 20 % tk = 110 - c - tc  if tc <= 102   n <= 2: tc + capacity is less than
//	                                                      the line, so n would be lost
//	cost 9, soft limit  as by force
func (p *planned) level(i int, tk, tc string) {
	sl, cost := p.before.Slots[i], p.costs[i]
	capacity := p.before.Rate(i).Capacity
	if sl.Name == bucket.WCU && sl.Tokens >= capacity && bucket.SubSat(p.before.RF, p.image.RF) >= sl.Period {
		// The meter fills in a second: an image older than this says nothing about it, and earlier
		// writes of others must not look like load now.
		p.set(tk, p.numbers.N(capacity-cost))
		return
	}
	// The image's counter is 100 and the level after the charge 4 of 6: the counter may reach 104.
	allowed := p.c.Image.counter(&p.numbers, sl, p.stored.Slots[i].Tokens)
	p.u.SetLess = append(p.u.SetLess, item.Less{Name: tk, Value: allowed, Minus: tc})
	if sl.Name == bucket.WCU {
		return
	}
	c, costs := Find(p.c.taken(), sl.Name)
	force := p.c.Force && !(p.c.Owe && !c.Owed())
	if force && !p.full[i] || sl.Soft && (!p.full[i] || p.c.Slack == 0 || p.c.Slack == 100) {
		return // a soft limit may refuse while it shows too little, but not permanently
	}
	most := sl.Tokens // how many tokens others may have taken since the image
	covered := costs && !force && !sl.Soft
	if covered {
		most = bucket.SubSat(most, c.Need(p.before))
	} else if p.full[i] {
		most = bucket.AddSat(most, max(0, p.settles(i))) // the image did not include the debt from the settlement
	}
	if p.c.Slack > 0 && p.full[i] {
		most = min(most, percent(p.c.Slack, capacity))
	}
	if covered || most >= 0 { // a debt needs no condition to stay one
		p.cond = append(p.cond, p.numbers.Compare(tc, item.Le, p.c.Image.counter(&p.numbers, sl, most)))
	}
}
