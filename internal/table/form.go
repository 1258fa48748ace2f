package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// form is how limits are kept, and what the writes do to them in the item of a bucket. There are
// two: byLevel, for rates and quotas, and byEpoch, for slots. A kind to come that is kept in a
// third way implements this, and is named in the two places below.
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

// hasLevel reports whether a limit is kept by its level: then it may be stored in part, and have
// periods.
func hasLevel(l bucket.Limit) bool { return formOf(l) == byLevel{} }

// decodeLimit reads a limit of an item if this attribute is the one that tells the form of the
// limit. For every other attribute the slot has no name. missing says that the limit is there in
// part, and outgrown that its counter has outgrown 64 bits.
func (b *Shard) decodeLimit(it item.Item, attr string, sl *bucket.Slot) (missing, outgrown bool, err error) {
	if name, ok := limitOfEpoch(attr); ok {
		*sl, err = b.decodeSlots(it, name)
		return false, false, err
	}
	name, ok := limitOfTokens(attr)
	if !ok {
		return false, false, nil
	}
	names := namesOf(name)
	if it[names.epoch] != nil { // of that name are slots
		return false, false, nil
	}
	sl.Name = name
	if missing, outgrown, err = decodeSlot(it, names, sl); err == nil && !missing {
		err = b.Calendars.quota(it, sl, b.State.RF)
	}
	return missing, outgrown, err
}

// indexes returns which limit of the image, with what is stored in part, and which limit that is
// stored in full has a name, -1 for none. One of another form is replaced.
func (p *planned) indexes(name string) (image, stored int) {
	stored = p.c.Image.State.Index(name)
	if stored < 0 || hasLevel(p.c.Image.State.Slots[stored].Limit) {
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
