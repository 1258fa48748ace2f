package table

import (
	"cmp"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// putQuotas adds the attributes of quotas, schedules and raises to a new item.
func (b Shard) putQuotas(it item.Item) {
	zone := b.zone(b.State)
	for _, sl := range b.State.Slots {
		for _, a := range clockParameters(sl, zone) {
			it[a.Name] = a.Value
		}
		for _, a := range started(sl) {
			it[a.Name] = a.Value
		}
		if sl.Resets > 0 {
			it[attrLimit(sl.Name, fieldResets)] = item.N(sl.Resets)
		}
	}
	if zone != "" {
		it[layout.AttrZone] = item.S(zone)
	}
	if until, ok := validUntil(b.State); ok {
		it[attrValidUntil] = item.N(until)
	}
}

// zone returns the zone of an item's version 1 calendars and schedules in a state: the image's zone
// while a limit uses it, otherwise the zone of the first limit that has one.
func (b Shard) zone(s bucket.State) string {
	first := ""
	for _, sl := range s.Slots {
		zone := zoneOf(sl.Limit)
		if zone != "" && zone == b.Calendars.Zone {
			return zone
		}
		if first == "" {
			first = zone
		}
	}
	return first
}

// validUntil returns the vu of a state: its next edge, or 0 while a quota waits for its first use,
// so every charge looks first. ok is false without quotas and schedules.
func validUntil(s bucket.State) (until int64, ok bool) {
	until, ok = s.NextEdge()
	for _, sl := range s.Slots {
		if sl.FirstUse() > 0 && sl.End == 0 {
			return 0, true
		}
	}
	return until, ok
}

// operated reports whether Python has reset or credited the bucket since the last request, or changed
// its limits: vu is 0, and not because a quota waits for its first use.
func (b Shard) operated() bool {
	if !b.Calendars.Has || b.Calendars.Until != 0 {
		return false
	}
	until, has := validUntil(b.State)
	return !has || until != 0
}

// zoneOf returns the zone of a limit's calendar or schedule, or "".
func zoneOf(l bucket.Limit) string {
	return cmp.Or(calendar.Zone(l.Reset), calendar.Zone(l.Schedule()))
}

// clockParameters returns the further attributes that define a quota, a schedule or raises.
func clockParameters(sl bucket.Slot, zone string) []item.Attr {
	return append(append(periods(sl, zone), schedule(sl, zone)...), raises(sl)...)
}

// periods returns the attributes that define a quota.
func periods(sl bucket.Slot, zone string) []item.Attr {
	switch n := sl.FirstUse(); {
	case !sl.Renews():
		return nil
	case n > 0:
		return []item.Attr{{Name: attrLimit(sl.Name, layout.FieldLength), Value: item.N(n / 1000)}}
	}
	return []item.Attr{{Name: attrLimit(sl.Name, layout.FieldCalendar), Value: item.S(calendar.Stored(sl.Reset, zone))}}
}

// schedule returns the attribute that defines a schedule.
func schedule(sl bucket.Slot, zone string) []item.Attr {
	form := sl.Schedule()
	if form == "" {
		return nil
	}
	return []item.Attr{{Name: namesOf(sl.Name).schedule, Value: item.S(calendar.Stored(form, zone))}}
}

// raises returns the attribute with the raises of a limit.
func raises(sl bucket.Slot) []item.Attr {
	form := sl.Raises()
	if form == "" {
		return nil
	}
	return []item.Attr{{Name: namesOf(sl.Name).raises, Value: item.S(form)}}
}

// started returns the attributes of a level's period, and of its top-up.
func started(sl bucket.Slot) (out []item.Attr) {
	if n := sl.FirstUse(); n > 0 && sl.End > 0 {
		start := item.N(sl.End - n)
		out = append(out, item.Attr{Name: attrLimit(sl.Name, fieldStart), Value: start},
			item.Attr{Name: attrLimit(sl.Name, fieldApplied), Value: start})
	}
	if sl.Renews() && sl.Extra > 0 {
		out = append(out, item.Attr{Name: attrLimit(sl.Name, fieldExtra), Value: item.N(sl.Extra)})
	}
	return out
}

// calendars adds the changes of the item's calendars to an update, and their conditions to cond. Limits
// become quotas or stop being quotas, periods begin, and the end of the first one is stored. The conditions
// ensure that no other write has begun a period, changed a calendar, or reset or credited anything meanwhile.
func (b Shard) calendars(cond []item.Cond, u *item.Update, after bucket.State) []item.Cond {
	zone := b.zone(after)
	for _, sl := range after.Slots {
		if !hasLevel(sl.Limit) {
			continue
		}
		was := bucket.Slot{}
		if j := b.State.Index(sl.Name); j >= 0 {
			was = b.State.Slots[j]
		}
		if was.Reset != sl.Reset || sl.Renews() && zone != b.Calendars.Zone {
			change(u, periods(sl, zone), attrLimit(sl.Name, layout.FieldCalendar), attrLimit(sl.Name, layout.FieldLength))
		}
		if shared := b.Calendars.Schedule && was.Name == ""; was.Schedule() != sl.Schedule() || shared ||
			sl.Schedule() != "" && zone != b.Calendars.Zone {
			own := schedule(sl, zone)
			if own == nil && b.Calendars.Schedule {
				own = []item.Attr{{Name: namesOf(sl.Name).schedule, Value: item.S(noCalendar)}}
			}
			change(u, own, namesOf(sl.Name).schedule)
		}
		if was.Raises() != sl.Raises() {
			change(u, raises(sl), namesOf(sl.Name).raises)
		}
		if was.Reset != sl.Reset || sl.Renews() && was.End != sl.End || was.Extra != sl.Extra || was.PeriodPending {
			change(u, started(sl), attrLimit(sl.Name, fieldStart), attrLimit(sl.Name, fieldApplied),
				attrLimit(sl.Name, fieldExtra), attrLimit(sl.Name, fieldGranted), attrLimit(sl.Name, fieldBefore))
		}
		if sl.Resets > was.Resets {
			u.Add = append(u.Add, item.Attr{Name: attrLimit(sl.Name, fieldResets), Value: item.N(sl.Resets - was.Resets)})
		}
	}
	if zone != b.Calendars.Zone && zone != "" {
		u.Set = append(u.Set, item.Attr{Name: layout.AttrZone, Value: item.S(zone)})
	}
	until, has := validUntil(after)
	switch {
	case has && (!b.Calendars.Has || until != b.Calendars.Until):
		u.Set = append(u.Set, item.Attr{Name: attrValidUntil, Value: item.N(until)})
	case !has && b.Calendars.Has:
		u.Remove = append(u.Remove, attrValidUntil)
	}
	return b.notOperated(cond)
}

// notOperated adds the conditions that Python has not reset or credited anything since the image. It sets vu to
// 0 then, and its next request sets vu back, maybe to the same first edge. After that only quotas show it.
func (b Shard) notOperated(cond []item.Cond) []item.Cond {
	if len(b.State.Slots) <= maxLimitsNamed {
		for _, sl := range b.State.Slots {
			cond = sameGifts(cond, sl)
		}
	}
	if b.Calendars.Has {
		return append(cond, item.Compare(attrValidUntil, item.Eq, item.N(b.Calendars.Until)))
	}
	return append(cond, noValidUntil)
}

var noValidUntil = item.Absent(attrValidUntil)

// sameGifts adds the conditions that a quota is topped up as in its image, that no operator has made it whole
// since, and that no first use has begun a period. With more limits than usual they are left out, as DynamoDB
// allows 300 operators: then a quota shows no more than a rate.
func sameGifts(cond []item.Cond, sl bucket.Slot) []item.Cond {
	if !sl.Renews() {
		return cond
	}
	cond = append(cond, numbered(attrLimit(sl.Name, fieldExtra), sl.Extra))
	if n := sl.FirstUse(); n > 0 { // a reset ends the period, and the next use begins another
		return append(cond, numbered(attrLimit(sl.Name, fieldStart), sl.End-n))
	}
	return append(cond, numbered(attrLimit(sl.Name, fieldResets), sl.Resets))
}

// numbered holds while an attribute is read as n.
func numbered(attr string, n int64) item.Cond {
	if n > 0 {
		return item.Compare(attr, item.Eq, item.N(n))
	}
	return item.Any(item.Absent(attr), item.Compare(attr, item.Le, item.N(0)))
}

// entered reports whether a write that finds the state is the first in the period of quota i,
// according to the image. Then the level is whole, whatever is left of the period before. All other
// writes that would begin the period are refused, because this one changes vu. A first-use period
// that is over is left in the same way while the next one has not begun.
func (b Shard) entered(at bucket.State, i int) bool {
	if b.State.NoClock || at.RF < b.State.RF { // the clock is mended, and levels are taken as they are
		return false
	}
	if sl := at.Slots[i]; sl.Renews() && sl.End == 0 { // over, and the next period waits for its first use
		j := b.State.Index(sl.Name)
		return j >= 0 && b.State.Slots[j].End != 0 &&
			at.RF >= bucket.AddSat(b.State.Slots[j].End, bucket.EdgeMargin)
	}
	was, moved := b.moved(at.Slots[i])
	if was.End == 0 { // its first use
		return moved && was.SameEdges(at.Slots[i].Limit)
	}
	return moved && at.RF >= bucket.AddSat(was.End, bucket.EdgeMargin)
}

// moved reports whether a quota is in another period than in the image.
func (b Shard) moved(sl bucket.Slot) (was bucket.Slot, moved bool) {
	j := b.State.Index(sl.Name)
	if !sl.Renews() || sl.End == 0 || j < 0 {
		return was, false
	}
	was = b.State.Slots[j]
	return was, was.End != sl.End
}

// change sets attributes, and removes all others that are not set.
func change(u *item.Update, set []item.Attr, others ...string) {
	u.Set = append(u.Set, set...)
	for _, attr := range others {
		if !slices.ContainsFunc(set, func(a item.Attr) bool { return a.Name == attr }) {
			u.Remove = append(u.Remove, attr)
		}
	}
}
