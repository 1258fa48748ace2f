package limiter

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// joined is what all of a group want, as one.
func joined(group []*acquirer) want {
	w := group[0].want
	w.costs = sum(group)
	return w
}

// sum adds up the costs of a group.
func sum(group []*acquirer) []table.Cost {
	out := group[0].want.costs
	for i, m := range group[1:] {
		if i == 0 {
			out = slices.Clone(out)
		}
		for j, c := range m.want.costs {
			out[j].Milli = bucket.AddSat(out[j].Milli, c.Milli)
		}
	}
	return out
}

// covered returns how many of a group, from its first on, a shard covers together, by
// its image and what others take. One without an image is asked for half of each capacity
// at most: if one write asked for more than there is, it would be refused for all.
func (d decider) covered(shard int, group []*acquirer) int {
	s, n := d.at(shard), 0
	for n < len(group) {
		d.want = joined(group[:n+1])
		if s.imaged() {
			if d.evaluate(shard, s).action != write {
				break
			}
		} else if n > 0 && slices.ContainsFunc(d.want.costs,
			func(c table.Cost) bool { return c.Milli > c.Limit.Capacity/2 }) {
			break
		}
		n++
	}
	return n
}

// plan is a planned write on a shard.
type plan struct {
	write   item.Write
	takes   bool  // it takes the costs
	creates bool  // it creates the bucket, or restores its shard 0
	charges bool  // it depends on the image
	adds    bool  // it is a plain add in place of a charge
	since   int   // the serial number of the image when it was planned
	life    int64 // the generation of that image
}

// coldRoom is the room, in percent of the capacity, that a first write asks for.
const coldRoom = 50

// roomOf is the room, in percent of the capacity, that is left for plain adds in a
// crowd, where full limits may be shown lower by the slack.
func roomOf(slack int64) int64 { return max(slack*2/5, 1) }

// plan returns the write for a shard; the lock is held.
func (k *known) plan(c choice, w want, now, slack int64) plan {
	s := k.at(c.shard)
	add := func(room int64) plan {
		return plan{takes: true, write: table.Add{
			Namespace: w.namespace, Entity: w.name.entity, Resource: w.name.resource, Shard: c.shard, Shards: k.count,
			Costs: w.costs, Now: now, Room: room,
		}.Plan()}
	}
	switch {
	case c.shard == 0 && s.absent:
		return k.createBucket(w, now)
	case !s.imaged(), c.look:
		return add(coldRoom)
	}
	slack = s.others.slack(s.image.State, w, slack)
	if c.last { // refused only if the tokens are gone, however low that may show a full limit
		slack = 100
	}
	charge := table.Charge{Image: s.image, Costs: w.costs, Now: now, Life: w.life, Slack: slack}
	switch {
	case c.owe:
		charge.Force, charge.Slack = true, 0 // a full image: what is short is under way in this process
	case c.last:
	case s.added && s.recent(w, now, roomOf(slack)): // a crowd: leave room for the adds of others
		charge.Room = roomOf(slack)
	case s.added: // nobody has charged for long, so the add was refused; its image is fresh
	case s.crowded(w, now, slack): // the charge would be refused: try an add, which needs no fresh image
		p := add(roomOf(slack))
		p.adds = true
		return p
	}
	planned := charge.Plan()
	if !planned.Verdict.Granted && !c.owe { // only the clock is missing, or the limits: mend that, take nothing
		charge.Refill = true
		return plan{write: charge.Plan().Update, charges: true}
	}
	return plan{write: planned.Update, charges: true, takes: true}
}

// createBucket returns the write for a bucket whose shard 0 is not there: a full
// bucket, unless shards live on (see siblings), whose tokens would be minted a second
// time; then shard 0 comes back empty with the count that it had.
func (k *known) createBucket(w want, now int64) plan {
	fresh := table.NewBucket{
		Namespace: w.namespace, Entity: w.name.entity, Resource: w.name.resource, Parent: w.parent, Cascade: w.cascade,
		Costs: w.costs, Life: w.life, Now: now, Draw: random(),
	}
	if k.count > 1 {
		put, _ := table.CreateEmpty(fresh, k.count)
		return plan{write: put, creates: true}
	}
	put, _ := table.Create(fresh)
	return plan{write: put, takes: true, creates: true}
}

// crowded reports whether a charge would show a full limit lower than it is by more
// than the slack, as far as what others take can be told: then it would most
// likely be refused, and a plain add that leaves room is tried first. Example: of a
// capacity of 100, 10 are refilled per second and others take 9. An image of five seconds
// ago shows 100; the 45 that they have taken since are more than a slack of 30.
func (s *seen) crowded(w want, now int64, slack int64) bool {
	state := s.image.State
	for _, c := range w.costs {
		i := state.Index(c.Limit.Name)
		if i < 0 || c.Milli == 0 {
			continue
		}
		r := state.Rate(i)
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

// recent reports whether somebody has refilled the shard so recently that a part of
// its capacities, in percent, cannot have been refilled since: 12 % of a capacity of 100,
// at 10 per second, within 1.2 s.
func (s *seen) recent(w want, now int64, part int64) bool {
	state := s.image.State
	for _, c := range w.costs {
		if i := state.Index(c.Limit.Name); i >= 0 && c.Milli > 0 {
			r := state.Rate(i)
			if now-state.RF > bucket.Wait(0, 0, r, r.Capacity*part/100) {
				return false
			}
		}
	}
	return true
}
