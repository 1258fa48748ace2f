package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// form is how limits are kept in the item of a bucket, and what the writes do to them there. There
// are two: byLevel, for rates and quotas, and byEpoch, for slots. What
// limits are called and stored as in configurations is in configlimits.go.
type form interface {
	// put adds all attributes of a slot to a new item.
	put(it item.Item, sl bucket.Slot)
	// names are all attributes that a limit may have in an item.
	names(l bucket.Limit) []string
	// is holds while the limit is stored exactly like this.
	is(l bucket.Limit) []item.Cond
	// untouched holds while nobody has taken from slot i of an image, nor given back.
	untouched(b Shard, i int) item.Cond
	// untaken holds while nobody has taken from a slot of the image of a charge.
	untaken(p *planned, sl bucket.Slot) item.Cond
	// add adds a cost of a plain add.
	add(a *adding, c Cost)
	// adjust adds a cost, not zero, that is settled whatever the item holds.
	adjust(u *item.Update, c Cost) []item.Cond
	// charge adds what a charge does to slot i.
	charge(p *planned, i int)
	// resize adds what happens to slot i where the count of shards changes.
	resize(r *resized, i int)
}

// formOf returns the form of a limit.
func formOf(l bucket.Limit) form {
	if l.Lends() {
		return byEpoch{}
	}
	return byLevel{}
}

// decodeLimit reads the limit of an item that an attribute is of, if it is the one by which the
// form of that limit is told: it has no name for all others. missing says that it is there in part,
// and outgrown that its counter has outgrown 64 bits.
func (b *Shard) decodeLimit(it item.Item, attr string) (sl bucket.Slot, missing, outgrown bool, err error) {
	if name, ok := limitOfEpoch(attr); ok {
		sl, err = b.decodeSlots(it, name)
		return sl, false, false, err
	}
	name, ok := limitOfTokens(attr)
	if !ok || it[slotsAttr(name, fieldEpoch)] != nil { // of that name are slots
		return sl, false, false, nil
	}
	if sl, missing, outgrown, err = decodeSlot(it, name); err == nil && !missing {
		err = b.Calendars.quota(it, &sl, b.State.RF)
	}
	return sl, missing, outgrown, err
}

// indexes returns which limit of the image, with what is stored in part, and which limit that is
// stored in full has a name, -1 for none. One of another form is replaced.
func (p *planned) indexes(name string) (image, stored int) {
	stored = p.c.Image.State.Index(name)
	if stored < 0 || formOf(p.c.Image.State.Slots[stored].Limit) == (byLevel{}) {
		return p.image.Index(name), stored
	}
	p.cond = append(p.cond, p.c.Image.Untouched(name))
	p.replace(stored)
	return -1, -1
}

// replace removes limit j of the image, which is of another kind now.
func (p *planned) replace(j int) {
	if j < 0 {
		return
	}
	was := p.c.Image.State.Slots[j]
	p.cond = append(p.cond, storedAs(was.Limit)...)
	p.u.Remove = append(p.u.Remove, LimitAttrs(was.Limit)...)
}

// byLevel is the form of limits that have a level and a counter: see [Charge], and for what quotas
// have besides, quota.go.
type byLevel struct{}

func (byLevel) put(it item.Item, sl bucket.Slot) {
	it[attrLimit(sl.Name, fieldTokens)] = item.N(sl.Tokens)
	it[attrLimit(sl.Name, fieldCapacity)] = item.N(sl.Capacity)
	it[attrLimit(sl.Name, fieldAmount)] = item.N(sl.Amount)
	it[attrLimit(sl.Name, fieldPeriod)] = item.N(sl.Period)
	it[attrLimit(sl.Name, fieldUsed)] = item.N(sl.Used)
	if sl.Held != 0 {
		it[attrHeld(sl.Name)] = item.N(-sl.Held)
	}
	if sl.Ended != 0 {
		it[attrEnded(sl.Name)] = item.N(sl.Ended)
	}
	if sl.Soft {
		it[attrSoft(sl.Name)] = item.N(0)
	}
}

func (byLevel) names(l bucket.Limit) []string {
	out := make([]string, 0, len(fields)+2)
	for _, f := range fields {
		out = append(out, attrLimit(l.Name, f))
	}
	if l.Renews() {
		for _, f := range quotaFields {
			out = append(out, quotaAttr(l.Name, f))
		}
	}
	if l.Soft {
		out = append(out, attrSoft(l.Name))
	}
	return append(out, attrHeld(l.Name), attrEnded(l.Name))
}

func (byLevel) is(l bucket.Limit) []item.Cond {
	return []item.Cond{
		item.Compare(attrLimit(l.Name, fieldCapacity), item.Eq, item.N(l.Capacity)),
		item.Compare(attrLimit(l.Name, fieldAmount), item.Eq, item.N(l.Amount)),
		item.Compare(attrLimit(l.Name, fieldPeriod), item.Eq, item.N(l.Period)),
	}
}

func (byLevel) untouched(b Shard, i int) item.Cond {
	sl := b.State.Slots[i]
	return item.Compare(attrLimit(sl.Name, fieldUsed), item.Eq, b.counter(nil, sl, 0))
}

func (byLevel) untaken(p *planned, sl bucket.Slot) item.Cond {
	return item.Compare(attrLimit(sl.Name, fieldUsed), item.Le, p.c.Image.counter(&p.numbers, sl, 0))
}

func (byLevel) adjust(u *item.Update, c Cost) []item.Cond {
	tk := attrLimit(c.Limit.Name, fieldTokens)
	u.Add = append(u.Add, spend(tk, c)...)
	return append([]item.Cond{item.Exists(tk)}, c.within()...)
}
