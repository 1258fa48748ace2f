package decide

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/prefetch"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// planFor plans the write of a choice for as much of a group as the shard covers, starting with the
// first, and returns for how many. All of the group were under way; the rest no longer is. From the
// member hurried on, requests are denied if the write is refused.
func (k *facts) planFor(c Choice, group []Want, hurried int, now Now) (n int, p Planned) {
	s := k.at(c.Shard)
	k.ahead, k.trip = group[0].Ahead, now.Trip
	k.hold(s)
	s.end(group...)
	n = 1
	valid := k.unreplaced(group, now.Ms)
	cut := valid < len(group)
	if group = group[:valid]; valid == 0 {
		n = 0
	} else if !c.Alone() {
		d := decider{facts: k, now: now.Ms, looks: c.Asks}
		n = d.covered(c.Shard, group)
	}
	replaced := cut && n == valid
	if n == 0 {
		return 0, Planned{Replaced: replaced}
	}
	s.begin(group[:n]...)
	c.last = hurried < n
	joined := Joined(group[:n])
	p = k.plan(c, joined, now)
	if u, ok := p.Write.(item.Update); ok && k.denials.n > 0 { // it changes an item that exists
		p.Write, p.denials, k.denials = table.CountDenials(u, k.denials.n), k.denials, denials{}
	}
	p.want, p.members, p.Replaced = joined, n, replaced
	p.Shard, p.since, p.generation = c.Shard, s.serial, s.image.Generation
	return n, p
}

// covered returns how many requests of a group, counted from the first, a shard covers together, by
// its image. A shard without an image is asked for all: if it has less, its answer is an image.
func (d decider) covered(shard int, group []Want) (n int) {
	s := d.at(shard)
	if !s.imaged() {
		return len(group)
	}
	for n < len(group) {
		d.want, d.members = Joined(group[:n+1]), n+1
		if d.decideOn(shard, s).Do != Take {
			break
		}
		n++
	}
	return n
}

// coldRoom is the room, in percent of the capacity, that a first write asks for.
const coldRoom = 50

// roomOf is the room, in percent of the capacity, that is left for plain adds in a crowd, where
// full limits may be too low by the slack.
func roomOf(slack int64) int64 { return max(slack*2/5, 1) }

// plan returns the write for a shard. Where adds do not hold, because others hold tokens, all processes send
// charges, by old images. A slack of 100 lets pass the tokens that others take: that saves 4 to 10 % of the
// writes of a fleet in which some processes take ahead.
func (k *facts) plan(c Choice, w Want, now Now) Planned {
	s := k.at(c.Shard)
	add := func(room int64) Planned {
		return Planned{Takes: true, Write: table.Add{
			Namespace: w.Namespace, Entity: w.Name.Entity, Resource: w.Name.Resource, Shard: c.Shard, Shards: k.count,
			Costs: w.Costs, Now: now.Ms, Room: room,
		}.Plan()}
	}
	switch {
	case c.Shard == 0 && s.absent:
		return k.create(w, now)
	case c.Do == Look && s.imaged() && k.denials.due(now) && !w.returns(): // most likely an add would be refused
		return Planned{Write: table.Adjust(s.image.Key(), nil)}
	case !s.imaged(), c.Do == Look:
		return add(coldRoom)
	}
	slack := s.others.slack(s.image.State, w, k.Slack)
	room := roomOf(slack)
	if c.last { // refused only if the tokens are gone, however low that may show a full limit
		slack = 100
	}
	charge := table.Charge{Image: s.image, Costs: w.Costs, Now: now.Ms, Lifetime: w.Lifetime, Slack: slack}
	switch {
	case c.Owe:
		charge.Force, charge.Owe, charge.Slack = true, true, 0 // a full image: what lacks is under way here
	case s.added && s.recent(w, now.Ms, room): // a crowd: leave room for the adds of others
		charge.Room = room
	case s.added: // nobody has charged for long, so the add was refused; its image is fresh
	case s.image.State.HeldAfter(now.Ms-lately) > now.Ms-lately && !s.crowded(w, now.Ms, 100): // adds do not hold there
		charge.Slack = 100
	case s.mustReport(now): // expired tokens, which an add cannot
	case s.crowded(w, now.Ms, slack): // the charge would be refused: try an add, which needs no fresh image
		p := add(room)
		p.adds = true
		return p
	}
	rides, settles := s.boards(now.Ms)
	charge.Settles = settles
	planned := func(p table.Charged, w Planned) Planned {
		if w.Write, w.clock = p.Update, p.Clock; p.Settled {
			w.rides = rides
			for _, d := range rides {
				d.rides = true
			}
		}
		return w
	}
	if c.Do == Take && !c.Owe {
		if more := k.takeAhead(s, w, charge, now); more.Ahead != nil {
			if p := more.Plan(); p.Verdict.Granted {
				return planned(p, Planned{Charges: true, Takes: true, ahead: more.Ahead, took: more.Costs})
			}
			s.holding.Done(prefetch.Refused, table.Shard{})
		}
	}
	p := charge.Plan()
	if !p.Verdict.Granted && !c.Owe { // only the clock is missing, or the limits: mend that, take nothing
		charge.Refill = true
		return Planned{Write: charge.Plan().Update, Charges: true}
	}
	return planned(p, Planned{Charges: true, Takes: true})
}

// Create returns the write that creates a bucket without a shard 0, for a request of which nothing
// is under way. It takes nothing if other shards live on.
func (b *Bucket) Create(w Want, now Now) Planned {
	k := b.lock()
	defer b.mu.Unlock()
	p := k.create(w, now)
	p.since = Unsent
	return p
}

// create returns the write for a bucket without a shard 0. The bucket starts full, unless other
// shards live on (see Survives). Then a full shard 0 would grant their tokens a second time, so it
// comes back empty, with its former count.
func (k *facts) create(w Want, now Now) Planned {
	fresh := table.NewBucket{
		Namespace: w.Namespace, Entity: w.Name.Entity, Resource: w.Name.Resource, Parent: w.Parent, Cascade: w.Cascade,
		Costs: w.Costs, Lifetime: w.Lifetime, Now: now.Ms, Draw: now.Random,
	}
	if k.count > 1 {
		put, _ := table.CreateEmpty(fresh, k.count)
		return Planned{Write: put, Creates: true}
	}
	takes := fresh.Covered()
	if !takes { // the image denies
		fresh.Costs = table.Costs(table.LimitsOf(w.Costs))
	}
	put, _ := table.Create(fresh)
	return Planned{Write: put, Takes: takes, Creates: true}
}

// crowded reports whether a charge would leave a full limit too low by more than the slack. That is
// an estimate, from what others have been seen to take. Such a charge would probably be refused, so
// a plain add that leaves room is tried first. Example: of a capacity of 100, 10 are refilled per
// second and others take 9. An image of five seconds ago shows 100; the 45 that they have taken
// since are more than a slack of 30. Without plain adds, 64 processes that ask for 90 % of 100 a second
// pay 1.60 writes per grant, not 1.03.
func (s *seen) crowded(w Want, now int64, slack int64) bool {
	state := s.image.State
	for _, c := range w.Costs {
		i := state.Index(c.Limit.Name)
		if i < 0 || c.Milli == 0 {
			continue
		}
		r := state.Rate(i)
		if !c.Limit.Refills() { // it never overflows
			continue
		}
		gone := s.others.rate(c.Limit.Name) * min(float64(now-s.at), s.others.elapsed)
		if gone <= float64(r.Capacity)*float64(slack)/100 {
			continue
		}
		if w := bucket.Wait(state.Slots[i].Tokens, state.Slots[i].Rest, r, r.Capacity); bucket.AddSat(state.RF, w) <= now {
			return true
		}
	}
	return false
}

// recent reports whether the shard was refilled too recently to have gained a part of its
// capacities since. The part is in percent: at 10 per second, 12 % of a capacity of 100 take 1.2 s.
func (s *seen) recent(w Want, now int64, part int64) bool {
	state := s.image.State
	for _, c := range w.Costs {
		if i := state.Index(c.Limit.Name); i >= 0 && c.Milli > 0 && c.Limit.Refills() {
			r := state.Rate(i)
			if now-state.RF > bucket.Wait(0, 0, r, r.Capacity*part/100) {
				return false
			}
		}
	}
	return true
}
