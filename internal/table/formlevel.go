package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// byLevel is the form of limits that have a level and a counter: see [Charge], and quota.go for the
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
