package table

import (
	"bytes"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Quotas are stored like this. A quota is a limit whose refill amount is 0, with a calendar. An
// item with a quota stores until when its calendars need not be read:
//
//	b_q_ra 0  b_q_rsched "1m0h0D1"  sched_tz "UTC"  vu 1798761600000
//
// The period of an item is the one that contains its refill instant (see bucket.State.Stored for
// the second after an edge). The first write after its end makes the level whole and moves the
// instant into the next period. The attribute vu ("valid until"), the first edge ahead, prevents
// that from happening twice: every such write changes vu, and requires the vu of its image.
const attrValidUntil = "vu"

// Further fields of a quota, like FieldTokens.
const (
	fieldExtra   = "tu"  // topped up in this period
	fieldGranted = "gc"  // how many shards a grant was for; the count if absent
	fieldStart   = "ws"  // of the period that the first use began
	fieldApplied = "wa"  // the start of the level's period
	fieldBefore  = "wtc" // the counter when a period began that is not yet applied
	fieldResets  = "rn"  // how often an operator has made it whole
)

// noCalendar marks a limit that does not share the item's calendar.
const noCalendar = "-"

// Quota fields of an item, in the order in which they are removed.
var quotaFields = [...]string{
	layout.FieldCalendar, fieldExtra, fieldGranted, layout.FieldLength, fieldStart, fieldApplied, fieldBefore,
	fieldResets,
}

func (c *Calendars) decode(it item.Item) (err error) {
	c.Zone = (&item.Reader{It: it}).Str(layout.AttrZone)
	c.Schedule = it[layout.FieldSchedule] != nil
	c.Until, c.Has, err = item.Int(it, attrValidUntil)
	return err
}

// CalendarsOf returns the stored calendars of an item, from the attributes that OfQuotas names. An
// unreadable one is treated as changed by another client.
func CalendarsOf(it item.Item) (c Calendars) {
	if c.decode(it) != nil {
		c.Until, c.Has = 0, true
	}
	return c
}

// OfQuotas reports whether an attribute, or an attribute of a limit without its prefix, is one that
// only quotas have.
func OfQuotas(attr []byte) bool {
	name := attr[bytes.LastIndexByte(attr, '_')+1:]
	switch string(name) {
	case layout.FieldCalendar, layout.FieldSchedule, layout.FieldRaises, fieldExtra, layout.FieldLength, fieldStart,
		fieldApplied, fieldBefore, fieldResets, attrValidUntil:
		return true
	}
	return string(attr) == layout.AttrZone
}

// Complete makes a limit of an item a quota, from the attributes that OfQuotas names. ends is the
// entry EndsOf of a remainder map, which must belong to the item's refill instant.
func (c Calendars) Complete(sl *bucket.Slot, it item.Item, rf int64, ends item.Value) error {
	err := c.quota(it, sl, rf)
	b := Shard{Calendars: c, State: bucket.State{RF: rf, Slots: []bucket.Slot{*sl}}}
	if err == nil {
		err = b.decodeEnds(ends)
	}
	*sl = b.State.Slots[0]
	return err
}

// quota decodes the attributes of a limit that is a quota, has a schedule, or is raised. A quota
// with a schedule is an error, and so is a refill amount of 0 without a calendar.
func (c Calendars) quota(it item.Item, sl *bucket.Slot, rf int64) error {
	if err := c.periods(it, sl, rf); err != nil || sl.Name == bucket.WCU {
		return err
	}
	raises, _ := it[namesOf(sl.Name).raises].(*types.AttributeValueMemberS)
	if raises != nil {
		if _, err := bucket.ParseRaises(raises.Value); err != nil {
			return fmt.Errorf("attribute %q: %w", namesOf(sl.Name).raises, err)
		}
		sl.Limit = sl.WithRaises(raises.Value)
	}
	*sl = sl.As(rf)
	return nil
}

// periods decodes the attributes of quota that Python clients also use.
func (c Calendars) periods(it item.Item, sl *bucket.Slot, rf int64) (err error) {
	if stored := calendarOf(it, namesOf(sl.Name).schedule, layout.FieldSchedule); stored != "" && sl.Name != bucket.WCU {
		form, err := calendar.ReadSchedule(stored, c.Zone)
		switch {
		case err != nil:
			return fmt.Errorf("the schedule of limit %q: %w", sl.Name, err)
		case sl.Amount == 0:
			return fmt.Errorf("limit %q is a quota with the schedule %q, which this module does not serve", sl.Name, stored)
		}
		sl.Limit, err = sl.WithSchedule(form)
		return err
	}
	if sl.Amount != 0 {
		return nil
	}
	r := item.Reader{It: it}
	if n := r.Int(attrLimit(sl.Name, layout.FieldLength)); n > 0 {
		sl.Reset = fmt.Sprintf("+%d", n)
		sl.End = c.begun(&r, sl, rf)
	} else if r.Err != nil {
		return r.Err
	} else if stored := calendarOf(it, attrLimit(sl.Name, layout.FieldCalendar), layout.FieldCalendar); stored == "" {
		return notPositive(sl.Name, layout.FieldAmount, 0)
	} else if sl.Reset, err = calendar.Read(stored, c.Zone); err != nil {
		return fmt.Errorf("attribute %q: %w", attrLimit(sl.Name, layout.FieldCalendar), err)
	}
	sl.Period = bucket.QuotaPeriod
	sl.Extra = max(0, r.Int(attrLimit(sl.Name, fieldExtra)))
	sl.Resets = max(0, r.Int(attrLimit(sl.Name, fieldResets)))
	if sl.End == 0 && sl.FirstUse() == 0 {
		sl.End = c.until(sl.Limit, rf)
	}
	return r.Err
}

// until returns the end of the period that contains the refill instant, for a calendar quota. Other
// zone data may give a later end than ours, but not later than the end of our next period.
func (c Calendars) until(l bucket.Limit, rf int64) int64 {
	own := l.Next(rf)
	if c.Until <= own || c.Until > l.Next(own) {
		return own
	}
	return c.Until
}

// begun returns the end of a period that began at a quota's first use, or 0 if there was none. If
// another shard began the period, begun applies it: the level is whole, less the tokens taken
// since.
func (c Calendars) begun(r *item.Reader, sl *bucket.Slot, rf int64) int64 {
	start, applied := r.Int(attrLimit(sl.Name, fieldStart)), rf
	if start == 0 {
		return 0
	}
	if most := bucket.Never - sl.FirstUse(); start > most { // no charge could require it, see sameGifts
		r.Fail("attribute %q is %d, want at most %d", attrLimit(sl.Name, fieldStart), start, most)
	}
	if _, ok := r.Value(attrLimit(sl.Name, fieldApplied)); ok {
		applied = r.Int(attrLimit(sl.Name, fieldApplied))
	}
	if start > applied {
		sl.PeriodPending, sl.Tokens = true, sl.Capacity
		if v, ok := r.Value(attrLimit(sl.Name, fieldBefore)); ok {
			before, isCounter := readCounter(v)
			if !isCounter {
				r.Fail("attribute %q is %s: %w", attrLimit(sl.Name, fieldBefore), item.Shown(v), item.ErrNotInteger)
			}
			sl.Tokens = bucket.SubSat(sl.Capacity, max(0, sl.Used-before.Low()))
		}
	}
	return bucket.AddSat(start, sl.FirstUse())
}

// calendarOf returns the calendar or schedule of a limit: its own, or the one shared in its item.
func calendarOf(it item.Item, own, shared string) string {
	for _, attr := range [...]string{own, shared} {
		if s, ok := it[attr].(*types.AttributeValueMemberS); ok {
			if s.Value == noCalendar {
				return ""
			}
			return s.Value
		}
	}
	return ""
}

// ends returns the ends of the periods that do not end with the first one, nil if there are none.
// If they are not stored, every process computes them from its own zone data.
func ends(s bucket.State) (e item.Item) {
	first := s.PeriodEnd()
	for _, sl := range s.Slots {
		if sl.Renews() && sl.FirstUse() == 0 && sl.End > first && sl.End != calendar.Never {
			if e == nil {
				e = item.Item{}
			}
			e[sl.Name] = item.N(sl.End)
		}
	}
	return e
}

// decodeEnds decodes the result of ends, for the refill instant of the item.
func (b *Shard) decodeEnds(v item.Value) error {
	m, ok := v.(*types.AttributeValueMemberM)
	if !ok || b.Calendars.Until == 0 {
		return nil // another client has changed a calendar since
	}
	for i := range b.State.Slots {
		sl := &b.State.Slots[i]
		n, ok, err := item.Int(m.Value, sl.Name)
		if err != nil {
			return err
		}
		if ok && n > b.State.RF && sl.Renews() && sl.FirstUse() == 0 {
			sl.End = n
			*sl = sl.As(b.State.RF)
		}
	}
	return nil
}

// within holds while the item is in the period in which the quota tokens to give back were taken,
// and was not created later.
func (c Cost) within() (out []item.Cond) {
	if c.Milli > 0 || c.End == 0 {
		return nil
	}
	if c.Born != 0 {
		out = append(out, item.Compare(AttrBorn, item.Le, item.N(c.Born)))
	}
	if n := c.Limit.FirstUse(); n > 0 {
		start := item.N(c.End - n) // both, because another shard may have begun a period that is not yet applied
		return append(out,
			item.Compare(attrLimit(c.Limit.Name, fieldApplied), item.Eq, start),
			item.Compare(attrLimit(c.Limit.Name, fieldStart), item.Eq, start))
	}
	rn := attrLimit(c.Limit.Name, fieldResets)
	whole := item.Absent(rn)
	if c.Resets > 0 {
		whole = item.Compare(rn, item.Eq, item.N(c.Resets))
	}
	return append(out, item.Compare(layout.AttrRF, item.Lt, item.N(c.End)), whole)
}
