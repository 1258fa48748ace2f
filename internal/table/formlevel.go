package table

import (
	"strconv"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// byLevel is the form of limits that have a level and a counter: see [Charge], and for what quotas
// have besides, quota.go.
type byLevel struct{}

func (byLevel) put(it item.Item, sl bucket.Slot) {
	n := namesOf(sl.Name)
	it[n.tokens] = item.N(sl.Tokens)
	it[n.capacity] = item.N(sl.Capacity)
	it[n.amount] = item.N(sl.Amount)
	it[n.period] = item.N(sl.Period)
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
	if l.Soft {
		out = append(out, n.soft)
	}
	return append(out, n.held, n.ended)
}

func (byLevel) is(l bucket.Limit) []item.Cond {
	n := namesOf(l.Name)
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

// prefix is another one for a quota from the first use, which other clients do not know.
func (byLevel) prefix(l bucket.Limit) string {
	if l.FirstUse() > 0 {
		return prefixFirstUse
	}
	return prefixLimit
}

func (byLevel) configure(it item.Item, at string, l bucket.Limit, zone string) {
	it[at+fieldAmount] = item.N(l.Amount / bucket.Milli)
	if l.Soft {
		it[at+fieldSoft] = item.Bool(true)
	}
	switch n := l.FirstUse(); {
	case n > 0:
		it[at+fieldLength] = item.N(n / milliPerSecond)
	case l.Renews():
		it[at+fieldCalendar] = item.S(calendar.Stored(l.Reset, zone))
	}
}

func (byLevel) configured(r *reader, l *bucket.Limit, at string) {
	l.Soft = r.flag(at + fieldSoft)
	if l.Reset = r.calendar(at); l.Renews() {
		l.Period = bucket.QuotaPeriod
		return
	}
	l.Amount = r.scaled(at, fieldAmount, bucket.Milli)
}

func (byLevel) another(l bucket.Limit, amount int64) bool { return (amount == 0) != l.Renews() }

func (byLevel) detail(d item.Item, l bucket.Limit) {
	if l.Renews() {
		d[detailReset] = item.S(calendar.Text(l.Reset))
	}
}

// calendar reads the calendar of a quota, empty for a rate. What would change decisions
// and is not served is an error.
func (r *reader) calendar(at string) string {
	if _, ok := r.value(at + fieldSchedule); ok {
		r.fail("attribute %q is the schedule of a Python client, which this module does not serve; store the limit without",
			at+fieldSchedule)
	}
	n, has, err := intAttr(r.it, at+fieldAmount)
	if err != nil || !has || n != 0 {
		return "" // a rate; what is wrong with it is said of its amount
	}
	if length := r.int(at + fieldLength); length != 0 {
		return r.canonical(at+fieldLength, "+"+strconv.FormatInt(length, 10))
	}
	stored := r.str(at + fieldCalendar)
	if stored == "" {
		return ""
	}
	canonical, err := calendar.Read(stored, r.str(attrZone))
	if err != nil {
		r.fail("attribute %q: %w", at+fieldCalendar, err)
	}
	return canonical
}

func (r *reader) canonical(attr, canonical string) string {
	if _, err := calendar.Parse(canonical); err != nil {
		r.fail("attribute %q: %w", attr, err)
	}
	return canonical
}
