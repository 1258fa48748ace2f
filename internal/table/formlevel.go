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
