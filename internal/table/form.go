package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// form is how limits are kept in the item of a bucket, and how the writes change them. There are
// two: byLevel, for rates and quotas, and epochs, for slots. A new kind that is kept in a third
// way implements this, and is named in the two places below.
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
	// charge adds a charge's effect on slot i.
	charge(p *planned, i int)
	// resize adds the effect of a new count of shards on slot i.
	resize(r *resized, i int)
}

// formOf returns the form of a limit.
func formOf(l bucket.Limit) form {
	if l.Returns() {
		return epochs{}
	}
	return byLevel{}
}

// hasLevel reports whether a limit is kept by its level: then it may be stored in part, and have
// periods.
func hasLevel(l bucket.Limit) bool { return formOf(l) == byLevel{} }

// LimitAttrs returns the attributes that a limit has in a bucket item.
func LimitAttrs(limit bucket.Limit) []string { return formOf(limit).names(limit) }

// Untouched holds while nobody has taken from a limit, nor given back, since the
// image; always for a limit that is stored in part.
func (b Shard) Untouched(limit string) item.Cond {
	i := b.State.Index(limit)
	if i < 0 {
		return item.All()
	}
	return formOf(b.State.Slots[i].Limit).untouched(b, i)
}
