package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// A day is the sum of its hours, and a month of its days. Whenever a part changes, the sum is
// computed again from all of them. Doing that twice does no harm: hours of 5, 0 and 7 tokens make a
// day of 12 every time, in every process.
//
// The aggregator reads the day, then its hours, consistently, and writes the day if it is unchanged
// since it was read. So no sum replaces one whose hours were read later, and a refused sum reads
// the hours again. A day is summed, or owed, after each change of an hour. So the last sum has seen
// all hours.
//
// While days were the finest windows, they were counted by marks, which the first sum removes. The
// base of such a day is its count without the hours in it. A day with 42 tokens, when hours begin
// to be counted too, has a base of 42. A month with 100 tokens, of which the days that are gone had
// 60, has a base of 60.
//
// Hours that another aggregator has counted are hours of the day. The hour of midnight is included
// only if our aggregator has counted in it too: the Python aggregator counts its day and its month
// under the same key.

// SumKey returns the key of the owed window that begins at start.
func (o Owed) SumKey(w Window, start int64) item.Key { return o.place(w, start).Key() }

// Summing is the input of the sum of one window.
type Summing struct {
	Owed
	Window, Of Window // such as a day of hours
	Start      int64  // of the window, epoch milliseconds
	Changed    int64  // start of the only changed day of a month; 0: any may have changed
	Until      Window // see [Expiry]
	Days       int    // how many days a snapshot outlives its window

	Stored item.Item   // the snapshot before the parts were read; nil: there was none
	Parts  []item.Item // as read from the table, possibly with other items; nil ones are ignored
}

// PartsQuery finds the hours of the window. It also finds other items, which [Summing.Sum] ignores.
func (s Summing) PartsQuery() item.Query {
	first, last := s.SumKey(Hourly, s.Start), s.SumKey(Hourly, s.Window.End(s.Start)-hourMillis)
	return item.Query{PK: first.PK, From: first.SK, To: last.SK, Consistent: true}
}

// PartKeys returns the keys of the parts. For an unfinished window they end a day after now, because
// reading an absent part costs as much.
func (s Summing) PartKeys(now int64) (out []item.Key) {
	end := s.Window.End(s.Start)
	if s.Start <= now {
		end = min(end, now+dayMillis)
	}
	for at := s.Start; at < end; at = s.Of.End(at) {
		out = append(out, s.SumKey(s.Of, at))
	}
	return out
}

// Last reports whether only the last day of a stored month has changed. The sum then needs only
// this day, because Rest has the sum of the days before it.
func (s Summing) Last() bool {
	was := ledger.SummedOf(s.Stored)
	last := len(was.Parts) - 1
	return s.Of == Daily && s.Changed != 0 && was.Rest != nil && last >= 0 && s.index(s.Changed) == was.Parts[last] &&
		!s.marked()
}

// marked reports whether the stored snapshot was counted by marks, like the finest kind of window.
func (s Summing) marked() bool { return ledger.MarksOf(s.Stored).Any }

func (s Summing) index(start int64) int { return int((start - s.Start) / s.Of.End(0)) }

// Sum returns the write that stores the sum; due is false if it is already stored.
func (s Summing) Sum(now int64) (u item.Update, due bool) {
	sum := ledger.Sum{Place: s.place(s.Window, s.Start)}
	sum.TTL, sum.Version = Expiry(now, s.Start, s.Until, s.Days), now
	was := ledger.SummedOf(s.Stored)
	if s.Last() {
		sum.Parts, sum.Base, sum.Rest = was.Parts, was.Base, was.Rest
		sum.Add(*was.Rest)
		sum.Add(ledger.AmountOf(s.Parts[0]))
		return sum.Update(s.Stored)
	}
	var left ledger.Amount // of the stored sum
	for _, it := range s.Parts {
		if !s.isPart(it) {
			continue
		}
		at, amount := s.index(startOf(it)), ledger.AmountOf(it)
		sum.Add(amount)
		sum.Parts = append(sum.Parts, at)
		if slices.Contains(was.Parts, at) {
			left.Add(amount)
		}
	}
	slices.Sort(sum.Parts)
	if s.Of == Daily {
		sum.Rest = &ledger.Amount{}
		for _, it := range s.Parts {
			if s.isPart(it) && s.index(startOf(it)) != sum.Parts[len(sum.Parts)-1] {
				sum.Rest.Add(ledger.AmountOf(it))
			}
		}
	}
	sum.Base = was.Base
	if was.Version == 0 && s.marked() || was.Version != 0 && s.gone(sum, was, now) {
		base := ledger.AmountOf(s.Stored)
		base.Sub(left)
		sum.Base = &base
	}
	return sum.Update(s.Stored)
}

// Replaced returns the write that removes a day of the Python aggregator from the counts, because
// the sum counts the same records; due is false if there is none.
func (s Summing) Replaced() (u item.Update, due bool) {
	var hours ledger.Amount
	for _, it := range s.Parts {
		if s.Of == Hourly && s.isPart(it) {
			hours.Add(ledger.AmountOf(it))
		}
	}
	for _, it := range s.Parts {
		if s.Window == Daily && startOf(it) == s.Start && ledger.ResourceOf(it) == s.Resource {
			return ledger.Replace(it, hours)
		}
	}
	return u, false
}

// gone reports whether parts of the stored sum have disappeared: it names a part that is missing,
// has more records than its parts, or is so old that parts have expired. More records prove nothing
// shortly after days were the finest windows, because hours catch up with them.
func (s Summing) gone(sum ledger.Sum, was ledger.Summed, now int64) bool {
	events := sum.Events
	if was.Base != nil {
		events += was.Base.Events
	}
	more := events < ledger.AmountOf(s.Stored).Events && !s.marked()
	return more || now >= s.Window.End(s.Start)+int64(s.Days)*dayMillis ||
		slices.ContainsFunc(was.Parts, func(at int) bool { return !slices.Contains(sum.Parts, at) })
}

func (s Summing) isPart(it item.Item) bool {
	at, resource := startOf(it), ledger.ResourceOf(it)
	return (s.Of != Hourly || ledger.IsHourOfDay(it)) && at >= s.Start && at < s.Window.End(s.Start) &&
		(resource == "" || resource == s.Resource)
}

// hasParts reports whether all parts of a sum up to an hour are among the bucket's snapshots.
func hasParts(sum item.Item, snapshots []item.Item, hour int64) bool {
	isDay := func(it item.Item) bool { return ledger.WindowOf(it) == string(Daily) }
	of := Hourly
	if !isDay(sum) && slices.ContainsFunc(snapshots, isDay) {
		of = Daily
	}
	present := map[int64]bool{}
	for _, it := range snapshots {
		if ledger.WindowOf(it) == string(of) {
			present[startOf(it)] = true
		}
	}
	is, from := ledger.SummedOf(sum), startOf(sum)
	return is.Base == nil && !slices.ContainsFunc(is.Parts, func(at int) bool {
		start := from + int64(at)*of.End(0)
		return start <= hour && !present[start]
	})
}
