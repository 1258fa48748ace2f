package decide

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// denied is a remembered denial. It holds until something new is seen of the bucket. Without it, a
// flood would check every shard for every request.
type denied struct {
	want   Want
	c      Choice
	until  int64 // the choice holds before it, epoch ms
	at     int64
	unseen bool // of some shards nothing is known
	shown  Denial
	now    int64 // the instant of shown, epoch ms
}

// covers reports whether a denial applies to this request too: it wants at least as much under the
// same limits.
func (d *denied) covers(w Want, now int64) bool {
	return d != nil && now < d.until && now >= d.at && slices.Equal(d.want.Costs, w.Costs)
}

// deny turns a choice into a denial. It holds until the first shard covers the costs, or the oldest
// image is due for a look.
func (d decider) deny(c Choice) *denied {
	if c.Limit == "" && len(d.want.Costs) > 0 { // the one that is most likely to deny
		rank := func(c table.Cost) int64 {
			if c.Limit.Soft {
				return 0
			}
			return 1 + min(c.Milli, 1)
		}
		c.Limit = slices.MaxFunc(d.want.Costs, func(a, b table.Cost) int { return int(rank(a) - rank(b)) }).Limit.Name
	}
	out, seenShards := &denied{want: d.want, c: c, at: d.now, until: c.at}, 0
	for n, s := range d.shards {
		if n >= d.count || !s.imaged() { // one beyond the count has merged
			continue
		}
		seenShards++
		out.until = min(out.until, min(max(s.at, d.lookedAt), d.now)+max(d.DenyFor, 1))
	}
	out.unseen = seenShards < d.count
	return out
}

// explain returns the denial as of now. In a flood, many requests are denied within a millisecond:
// it is computed once for all of them.
func (d *denied) explain(k *facts, now int64) Denial {
	if d.now != now || d.shown.Levels == nil {
		d.shown, d.now = d.explained(k, now), now
	}
	return d.shown
}

func (d *denied) explained(k *facts, now int64) Denial {
	out := Denial{
		Limit: d.c.Limit, After: bucket.SubSat(max(d.c.at, now+1), now), Estimated: d.unseen || d.c.guess, Full: d.c.full,
		Levels: k.levels(d.want.Costs, now, true),
	}
	for i, c := range d.want.Costs {
		l := &out.Levels[i]
		l.Estimated = d.unseen
		need := c.Milli
		if need > 0 {
			need = bucket.AddSat(need, l.Floor)
		}
		switch {
		case c.Limit.Name == d.c.Limit && !d.c.full:
			l.After = out.After
			if c.Milli > 0 && !c.Limit.Soft { // the image may show more, which others take by then
				l.Remaining = min(l.Remaining, c.Milli/bucket.Milli-1)
			}
		case l.Milli >= need || c.Limit.Soft:
		case c.Limit.Renews():
			l.After = l.Edge
		default:
			r := c.Limit.Whole()
			r.Capacity = max(r.Capacity, need) // a limit that cannot hold it now may later, by its schedule
			l.After = min(bucket.Wait(l.Milli, l.Rest, r, need), longest)
		}
		if c.Limit.Returns() {
			l.After = min(l.After, slotsAfter)
		}
		if l.Floor > 0 && bucket.AddSat(now, l.After) >= l.Limit.Changes(now) { // then the floor is another one
			l.Estimated, out.Estimated = true, true
		}
	}
	out.slots(d.want)
	return out
}

// slotsAfter is the wait, in ms, for slots that are not free: it is unknown when their holders will
// be done. A second later one look shows more.
const slotsAfter = 1000

// slots makes a denial by slots an estimate: as long as the other limits need, or otherwise at most
// slotsAfter.
func (out *Denial) slots(w Want) {
	i := slices.IndexFunc(w.Costs, func(c table.Cost) bool { return c.Limit.Name == out.Limit && c.Limit.Returns() })
	if i < 0 {
		return
	}
	out.After, out.Estimated = min(out.After, slotsAfter), true
	for _, l := range out.Levels {
		if l.After > out.After {
			out.Limit, out.After = l.Limit.Name, l.After
		}
	}
}

// Refusal returns the denial of a request that has been charged but does not wait as long as it
// would have to, or that the queue does not admit.
func (b *Bucket) Refusal(w Want, until, now int64) Denial {
	k := b.lock()
	defer b.mu.Unlock()
	d := decider{facts: k, want: w, now: now, attempt: &Attempt{Waits: true, Until: until, InLine: true}}
	return d.deny(d.behind(Choice{Do: Deny, at: now + 1})).explain(k, now)
}

// giveUp returns the denial of a request that has used up its round trips before it could do c. If
// others have taken the tokens, the denial lasts until the costs have refilled. In two cases it
// only lasts as long as an image may deny: several shards hold the costs together, but there is no
// time left to take them; or the writes were refused for other reasons, such as shards that merge.
func (d decider) giveUp(c Choice) Choice {
	out := Choice{Do: Deny, at: d.now, guess: true}
	for _, c := range d.want.Costs {
		if !c.Limit.Refills() || c.Limit.Soft || c.Milli == 0 { // what others keep taking may be there all the same
			continue
		}
		if at := bucket.AddSat(d.now, bucket.Wait(0, 0, c.Limit.Whole(), c.Milli)); at >= out.at {
			out.at, out.Limit = at, c.Limit.Name
		}
	}
	switch soon := bucket.AddSat(d.now, max(d.DenyFor, 1)); {
	case out.Limit == "":
		out.at = soon
	case !d.attempt.Lost, c.Do == Several:
		out.at = min(out.at, soon)
	}
	return out
}

// mending returns the denial of costs that can be taken once shards have merged.
func (d decider) mending(c Choice) Choice {
	c.Do, c.at, c.guess = Deny, bucket.AddSat(d.now, max(mergeTime, d.lag())), true
	return c
}

// A denial writes nothing. This process counts its denials here, and the next write on any shard
// adds them to the item. Where all writes are refused, as once a quota is spent, a look adds them
// instead: it holds whatever the shard has. If tokens have come back meanwhile, such a look is a
// write more. Slots come back at any time, so looks at them add nothing.

// Denied counts a denied request of the bucket.
func (b *Bucket) Denied(mono int64) {
	k := b.lock()
	defer b.mu.Unlock()
	if k.denials.n == 0 {
		k.denials.since = mono
	}
	k.denials.n++
}

// LevelsIn returns the levels of a bucket that belongs to this process alone, at its instant.
func LevelsIn(s bucket.State, costs []table.Cost) []Level { return local(s).levels(costs, s.RF, false) }

// DenialIn returns why such a bucket denies a request, by its verdict.
func DenialIn(s bucket.State, w Want, v bucket.Verdict, now int64) Denial {
	k := local(s)
	d := decider{facts: k, want: w, now: now}
	return d.deny(Choice{Do: Deny, at: v.At, Limit: s.Slots[v.Slot].Name}).explained(k, now)
}

// local returns the facts about a bucket of this process alone.
func local(s bucket.State) *facts {
	image := table.Shard{Entity: "local", State: s}
	return &facts{Settings: &Settings{}, count: 1, shards: map[int]*seen{0: {image: image, at: s.RF}}}
}
