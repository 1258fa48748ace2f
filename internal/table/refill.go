package table

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Refill is the write shape that moves the clock: it credits every limit of the
// item, wcu included, brings wanted limits in force, takes the costs, and
// renews the lifetime. It depends on the image it was planned from: on its
// refill instant, its shard count, and on levels where the credit would
// otherwise come out wrong.
type Refill struct {
	Image Bucket
	Want  []bucket.Limit // limits to bring in force; nil: those stored
	Costs []Cost         // nil: nothing is taken and no level is looked at
	Now   int64
	Life  Lifetime
	Force bool // take the costs whether or not they are covered, into debt
	// Headroom, in ms, is how much of its refill a limit that is full gives up
	// in this write. It makes room for spends that touch no clock, so that many
	// writers at once need not race for it; a bucket that is drained right then
	// has that much less. Zero gives up nothing.
	Headroom int64
}

// Refilled is a planned refill.
type Refilled struct {
	Verdict bucket.Verdict // whether the refilled levels cover the costs
	Short   string         // the limit that takes longest, empty when granted
	Hot     bool           // wcu cannot pay this write even after its refill
	Before  bucket.State   // refilled and with the wanted limits, nothing taken
	After   bucket.State   // with the costs taken
	Credit  bool           // some level gains by it
	Update  item.Update    // to be written only if the verdict is granted
}

// Plan works the refill out. It is pure. Where credit is due the refill instant
// moves, so that whoever planned from the same image loses. Where none is,
// because now is not later than the refill instant, the instant stays: what
// others take meanwhile is theirs. The limits must be those of the image, because
// other clients change them without moving the instant.
func (r Refill) Plan() Refilled {
	image := narrowed(r.Image.mended(r.Want, r.Now), r.Want)
	now := r.Now
	credited := image.At(now)
	want := r.Want
	if image.Index(bucket.WCU) < 0 {
		want = append(slices.Clone(want), bucket.WCULimit())
	}
	before, _ := credited.Adopt(want)

	out := Refilled{Before: before}
	out.Verdict = before.Decide(needsBySlot(before, r.Costs), now)
	if out.Verdict.Slot >= 0 {
		out.Short = before.Slots[out.Verdict.Slot].Name
	}
	if out.Verdict.Granted {
		out.Verdict.At = r.Now
	}
	wcu := before.Slots[before.Index(bucket.WCU)]
	out.Hot = wcu.Tokens < bucket.WCUPerWrite
	if !out.Verdict.Granted && !r.Force {
		return out // nothing to write
	}
	out.After = before.Take(costsBySlot(before, r.Costs, r.Costs != nil))
	p := refillPlan{r: r, stored: image, credited: credited, after: out.After}
	p.drop()
	out.Update = p.update(now)
	out.Credit = p.credit
	return out
}

// mended returns the state with wanted limits that are stored in part filled
// in: what is there is kept, and no level rises above its capacity by mending.
func (b Bucket) mended(want []bucket.Limit, now int64) bucket.State {
	s := b.State
	for _, p := range b.Partial {
		limits := want
		if p.Name == bucket.WCU {
			limits = []bucket.Limit{bucket.WCULimit()}
		}
		for _, l := range limits {
			if l.Name != p.Name || s.Index(p.Name) >= 0 {
				continue
			}
			fresh, _ := s.Adopt([]bucket.Limit{l})
			i := fresh.Index(l.Name)
			fresh.Slots[i].Tokens = min(p.Tokens, fresh.Slots[i].Tokens)
			fresh.Slots[i].Used = p.Used
			s = fresh
		}
	}
	return s
}

type refillPlan struct {
	r        Refill
	stored   bucket.State // as the image, partial limits filled in
	credited bucket.State // refilled
	after    bucket.State // limits changed, costs taken, dropped limits left out
	credit   bool
	u        item.Update
	cond     []item.Cond
}

func (p *refillPlan) update(now int64) item.Update {
	image := p.r.Image
	p.u.Key = image.Key()
	p.u.Set = append(p.u.Set, item.Attr{Name: attrRF, Value: item.N(p.after.RF)})
	if image.State.NoClock {
		p.cond = append(p.cond, item.Exists(item.AttrPK), item.Absent(attrRF))
	} else {
		p.cond = append(p.cond, item.Compare(attrRF, item.Eq, item.N(image.State.RF)))
	}
	if image.NoShardCount {
		p.u.Set = append(p.u.Set, item.Attr{Name: attrShardCount, Value: item.N(1)})
		p.cond = append(p.cond, item.Absent(attrShardCount))
	} else {
		p.cond = append(p.cond, item.Compare(attrShardCount, item.Eq, item.N(int64(image.State.Shards))))
	}
	for _, sl := range image.State.Slots {
		if p.stored.Index(sl.Name) >= 0 {
			p.cond = append(p.cond, stored(sl.Limit)...)
		}
	}
	for i := range p.after.Slots {
		p.slot(i)
	}
	if rr := remainders(p.after); rr != nil {
		p.u.Set = append(p.u.Set, item.Attr{Name: attrRemainders, Value: rr})
	} else {
		p.u.Remove = append(p.u.Remove, attrRemainders)
	}
	live(&p.u, p.r.Life, p.r.Image, p.after, now)
	p.u.If = item.All(p.cond...)
	return p.u
}

// slot adds what happens to slot i of the state after.
func (p *refillPlan) slot(i int) {
	after := p.after.Slots[i]
	tk := attrLimit(after.Name, fieldTokens)
	j := p.stored.Index(after.Name)
	if j < 0 { // new to the item; tc may have outlived it
		p.u.Set = append(p.u.Set, item.Attr{Name: tk, Value: item.N(after.Tokens)})
		p.u.Add = append(p.u.Add, item.Attr{Name: attrLimit(after.Name, fieldUsed), Value: item.N(after.Used)})
		p.parameters(after)
		p.cond = append(p.cond, item.Absent(tk))
		p.credit = true
		return
	}
	stored, credited := p.stored.Slots[j], p.credited.Slots[j]
	partial := p.r.Image.State.Index(after.Name) < 0
	if partial {
		for _, q := range p.r.Image.Partial {
			if q.Name == after.Name {
				stored.Tokens, stored.Used = q.Tokens, q.Used
			}
		}
	}
	changed := partial || stored.Limit != after.Limit
	if d := after.Used - stored.Used; d != 0 || partial {
		p.u.Add = append(p.u.Add, item.Attr{Name: attrLimit(after.Name, fieldUsed), Value: item.N(d)})
	}
	if changed {
		p.parameters(after)
	}
	credit := credited.Tokens - p.stored.Slots[j].Tokens
	if credit > 0 {
		p.credit = true
	}
	p.level(tk, stored, after, changed, credited)
}

// level adds the change of a level, and the condition under which it is right
// although others may have spent since the image.
//
// A credit that the capacity does not cut is right for any lower level too. When
// the capacity cuts it, every level from which the bucket is full by now ends at
// the same place, whatever has happened since the image, and one that is above
// capacity (tokens were given back) gets nothing. Outside of these bounds more or
// less was due than planned: crediting that would mint tokens or, as the clock
// moves, lose them. A changed limit needs the very level that was seen. The
// meter wcu need not be exact.
func (p *refillPlan) level(tk string, stored, after bucket.Slot, changed bool, credited bucket.Slot) {
	capacity := p.stored.RateOf(stored.Limit).Capacity
	credit := credited.Tokens - stored.Tokens
	change := after.Tokens - stored.Tokens
	meter := stored.Name == bucket.WCU
	switch {
	case meter:
		p.cond = append(p.cond, item.Compare(tk, item.Le, item.N(max(capacity-credit, stored.Tokens))))
	case changed:
		p.cond = append(p.cond, item.Compare(tk, item.Eq, item.N(stored.Tokens)))
	case stored.Tokens >= capacity:
		need, _ := p.need(stored.Name)
		p.cond = append(p.cond, item.Compare(tk, item.Ge, item.N(max(capacity, need))))
	case credited.Tokens >= capacity:
		elapsed := bucket.SubSat(p.credited.RF, p.stored.RF)
		least := bucket.SubSat(capacity, bucket.Potential(stored.Rest, p.stored.RateOf(stored.Limit), elapsed))
		p.cond = append(p.cond, item.Between(tk, item.N(least), item.N(capacity)))
		level := yield(after.Tokens, p.stored.RateOf(stored.Limit), p.r.Headroom)
		p.u.Set = append(p.u.Set, item.Attr{Name: tk, Value: item.N(level)})
		return
	default:
		top := capacity - credit
		if credited.Rest > 0 {
			top-- // a level at capacity holds no remainder
		}
		if need, wanted := p.need(stored.Name); wanted {
			p.cond = append(p.cond, item.Between(tk, item.N(need-credit), item.N(top)))
		} else {
			p.cond = append(p.cond, item.Compare(tk, item.Le, item.N(top)))
		}
	}
	if change != 0 {
		p.u.Add = append(p.u.Add, item.Attr{Name: tk, Value: item.N(change)})
	}
}

// yield returns what is left of a level that a full limit gives headroom from. It
// does not make debt.
func yield(level int64, r bucket.Rate, headroom int64) int64 {
	return max(bucket.SubSat(level, bucket.Potential(0, r, headroom)), min(level, 0))
}

// need returns the cost that a limit must cover, if there is one.
func (p *refillPlan) need(limit string) (milli int64, wanted bool) {
	for _, c := range p.r.Costs {
		if c.Limit == limit && !p.r.Force {
			return c.Milli, true
		}
	}
	return 0, false
}

func (p *refillPlan) parameters(sl bucket.Slot) {
	p.u.Set = append(p.u.Set,
		item.Attr{Name: attrLimit(sl.Name, fieldCapacity), Value: item.N(sl.Capacity)},
		item.Attr{Name: attrLimit(sl.Name, fieldAmount), Value: item.N(sl.Amount)},
		item.Attr{Name: attrLimit(sl.Name, fieldPeriod), Value: item.N(sl.Period)})
}

// live adds what an update does to the ttl of a bucket that is in state after at
// now.
func live(u *item.Update, life Lifetime, image Bucket, after bucket.State, now int64) {
	if set, remove := newTTL(life, image, after, now); set > 0 {
		u.Set = append(u.Set, item.Attr{Name: AttrTTL, Value: item.N(set)})
	} else if remove {
		u.Remove = append(u.Remove, AttrTTL)
	}
}

// newTTL returns the ttl to set on a bucket that is in state after at now, or
// whether to remove the one it has; neither leaves it alone.
func newTTL(life Lifetime, image Bucket, after bucket.State, now int64) (set int64, remove bool) {
	if after.Shards > 1 {
		life = NeverExpires // a split bucket has siblings that rely on it
	}
	after = withUnnamed(after, image.State)
	fresh := freshTTL(after, now)
	if fresh == 0 {
		life = NeverExpires // it is not full before any date that can be stored
	}
	switch {
	case life == Expires && fresh > 0,
		life == KeepLifetime && image.TTL > 0 && fresh > image.TTL:
		return fresh, false
	case life == NeverExpires && image.TTL != 0:
		return 0, true
	}
	return 0, false
}
