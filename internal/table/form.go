package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// form is how limits are stored in a bucket item, and how writes change them. There are two:
// byLevel for rates and quotas, and epochs for slots. A kind that is stored in a third way
// implements this interface, and is named in the two places below.
type form interface {
	// put adds all attributes of a slot to a new item.
	put(it item.Item, sl bucket.Slot)
	// names returns all attributes that a limit may have in an item.
	names(l bucket.Limit) []string
	// is holds while the limit is stored exactly like this.
	is(l bucket.Limit) []item.Cond
	// untouched holds while nothing was taken from slot i of an image, nor given back.
	untouched(b Shard, i int) item.Cond
	// untaken holds while nothing was taken from a slot of a charge's image.
	untaken(p *planned, sl bucket.Slot) item.Cond
	// add adds a cost to a plain add.
	add(a *adding, c Cost)
	// adjust adds a non-zero cost that is settled regardless of the item.
	adjust(u *item.Update, c Cost) []item.Cond
	// charge adds a charge's effect on slot i.
	charge(p *planned, i int)
	// resize adds the effect of a new shard count on slot i.
	resize(r *resized, i int)
}

// formOf returns the form of a limit.
func formOf(l bucket.Limit) form {
	if l.Returns() {
		return epochs{}
	}
	return byLevel{}
}

// hasLevel reports whether a limit is stored by its level. Such a limit may be stored in part, and
// may have periods.
func hasLevel(l bucket.Limit) bool { return formOf(l) == byLevel{} }

// LimitAttrs returns the attributes that a limit has in a bucket item.
func LimitAttrs(limit bucket.Limit) []string { return formOf(limit).names(limit) }

// Untouched holds while nothing was taken from a limit, nor given back, since the image. For a
// limit that is stored in part it always holds.
func (b Shard) Untouched(limit string) item.Cond {
	i := b.State.Index(limit)
	if i < 0 {
		return item.All()
	}
	return formOf(b.State.Slots[i].Limit).untouched(b, i)
}

// byLevel is the form of limits with a level and a counter: see [Charge], and quota.go for the
// further attributes of quotas.
type byLevel struct{}

func (byLevel) put(it item.Item, sl bucket.Slot) {
	n := namesOf(sl.Name)
	it[n.tokens] = item.N(sl.Tokens)
	own := sl.Own()
	it[n.capacity] = item.N(own.Capacity)
	it[n.amount] = item.N(own.Amount)
	it[n.period] = item.N(own.Period)
	it[n.used] = item.N(sl.Used)
	if sl.Held != 0 {
		it[n.held] = item.N(-sl.Held)
	}
	if sl.Ended != 0 {
		it[n.ended] = item.N(sl.Ended)
	}
	if sl.Soft {
		it[n.soft] = item.N(0)
	}
}

func (byLevel) names(l bucket.Limit) []string {
	n := namesOf(l.Name)
	level := n.level()
	out := level[:]
	if l.Renews() {
		for _, f := range quotaFields {
			out = append(out, attrLimit(l.Name, f))
		}
	}
	if l.Plan != "" {
		out = append(out, n.schedule, n.raises)
	}
	if l.Soft {
		out = append(out, n.soft)
	}
	return append(out, n.held, n.ended)
}

func (byLevel) is(l bucket.Limit) []item.Cond {
	n := namesOf(l.Name)
	l = l.Own()
	return []item.Cond{
		item.Compare(n.capacity, item.Eq, item.N(l.Capacity)),
		item.Compare(n.amount, item.Eq, item.N(l.Amount)),
		item.Compare(n.period, item.Eq, item.N(l.Period)),
	}
}

func (byLevel) untouched(b Shard, i int) item.Cond {
	sl := b.State.Slots[i]
	return item.Compare(namesOf(sl.Name).used, item.Eq, b.counter(nil, sl, 0))
}

func (byLevel) untaken(p *planned, sl bucket.Slot) item.Cond {
	return item.Compare(namesOf(sl.Name).used, item.Le, p.c.Image.counter(&p.numbers, sl, 0))
}

func (byLevel) adjust(u *item.Update, c Cost) []item.Cond {
	tk := namesOf(c.Limit.Name).tokens
	u.Add = append(u.Add, spend(tk, c)...)
	return append([]item.Cond{item.Exists(tk)}, c.within()...)
}

// adding is an add that is being planned.
type adding struct {
	Add
	s    bucket.State // the shard and the count, without limits
	age  int64        // how old, in milliseconds, the refill instant may be
	u    item.Update
	cond []item.Cond
}

// resized is a shard that changes to another one, while that is being planned.
type resized struct {
	b                 Shard
	at, after, stored bucket.State
	uncut             []string
	u                 item.Update
	cond              []item.Cond
}
