package usage

import (
	"cmp"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// shortest is the shortest period, in milliseconds, that has thresholds: for a quota of one token a
// minute, they would cost more than its requests.
const shortest = hourMillis

// Spent is the consumption of one quota in one period, in millitokens.
type Spent struct {
	Limit bucket.Limit
	End   int64 // of the period
	Spent int64 // negative if more was given back than taken
	Of    int64 // the quota plus the credit of the period
}

// reached returns the percents that are spent, in order: 8 of 10 tokens reach 50 and 80.
func (s Spent) reached(percents []int) (out []int) {
	for _, percent := range percents {
		if p := int64(percent); s.Spent >= s.Of/100*p+(s.Of%100*p+99)/100 {
			out = append(out, percent)
		}
	}
	return out
}

// mostLimits is how many limits a bucket with thresholds has. Ours have fewer, even with the limits that
// were renamed since, which stay until their period ends.
const mostLimits = 4 * bucket.MaxSlots

// hasThresholds reports whether the period is long enough for thresholds, and its end can be
// reported: JSON has no form for an instant after the year 9999.
func (s Spent) hasThresholds() bool {
	if s.End < 0 || s.End > stream.MaxMillis {
		return false
	}
	if n := s.Limit.FirstUse(); n > 0 {
		return n >= shortest
	}
	return bucket.SubSat(s.Limit.Next(s.End), s.End) >= shortest
}

// spentOf returns how much is spent of an image's share of the quota in slot i.
func spentOf(s bucket.State, i int) int64 {
	sl := s.Slots[i]
	return bucket.SubSat(bucket.AddSat(s.CapacityOf(sl.Limit), sl.Extra), sl.Tokens)
}

// Spending is how much of a bucket's quotas is spent, as of a batch.
type Spending struct {
	Bucket
	// Shards is how many shards share the quotas. With several, no batch shows the consumption of
	// the whole bucket: all shards must be read, see [Spending.Sum].
	Shards int
	Spent  []Spent // as shown by images of the undivided bucket
}

// spending returns the spending of a bucket's quotas in the batch; due is false if it cannot reach
// a threshold.
func spending(shards []History, conf Config) (s Spending, due bool) {
	s = Spending{Bucket: shards[0].Bucket}
	for _, h := range shards {
		last := h.last().New.State
		if slices.ContainsFunc(last.Slots, conf.reports) && last.Count() <= bucket.MaxShards {
			s.Shards = max(s.Shards, last.Count())
		}
		for _, c := range h.Changes {
			if c.Operation != stream.Remove && h.Shard == 0 && c.New.State.Count() == 1 {
				s.Spent = append(s.Spent, whole(c, conf)...)
			}
		}
	}
	return s, s.Shards > 1 || len(s.Spent) > 0 // hardly ever
}

// percents returns the percents of a quota to report, ascending.
func (c Config) percents(limit string) []int {
	if own, ok := c.Percents[limit]; ok {
		return own
	}
	return c.Percents[""]
}

func (c Config) reports(sl bucket.Slot) bool { return sl.Renews() && len(c.percents(sl.Name)) > 0 }

// whole returns the quotas of an undivided bucket that may have reached a threshold: if the change
// reached it, as from 7 of 10 tokens to 9, or if it is the first change of an hour. The latter
// covers lost records and lowered limits, which no change shows, and costs one read per hour. A
// bucket with more limits than any of ours has none to report.
func whole(c *stream.Change, conf Config) (out []Spent) {
	state := c.New.State
	if len(state.Slots) > mostLimits {
		return nil
	}
	look := c.OldShards != 1 || Hourly.Start(c.OldRF) != Hourly.Start(state.RF)
	for i, sl := range state.Slots {
		if !sl.Renews() || sl.End == 0 {
			continue
		}
		s := Spent{Limit: sl.Limit, End: sl.End, Spent: spentOf(state, i), Of: bucket.AddSat(sl.Capacity, sl.Extra)}
		percents := conf.percents(sl.Name)
		n, before := len(s.reached(percents)), s
		if n == 0 {
			continue // as nearly always
		}
		for _, u := range c.Used {
			if u.Limit == sl.Name {
				before.Spent = bucket.SubSat(s.Spent, u.Milli)
			}
		}
		if look || n > len(before.reached(percents)) {
			out = append(out, s)
		}
	}
	return out
}

// Keys returns the keys of all shards.
func (s Spending) Keys() []item.Key {
	keys := make([]item.Key, s.Shards)
	for i := range keys {
		keys[i] = layout.BucketKey(s.Namespace, s.Entity, s.Resource, i)
	}
	return keys
}

// Wider returns the spending with the shard count that the shards read so far show. ok is false if
// there are no more to read, or if none of our buckets can have so many.
func (s Spending) Wider(shards []table.Shard) (wider Spending, ok bool) {
	most := mostShards(shards)
	ok = most > s.Shards && most <= bucket.MaxShards
	s.Shards = max(s.Shards, most)
	return s, ok
}

// Share decodes a shard. ok is false if it cannot be read, or has more limits than any of ours.
func Share(it item.Item) (b table.Shard, ok bool) {
	b, err := table.DecodeShard(it)
	return b, err == nil && len(b.State.Slots)+len(b.Partial) <= mostLimits
}

func mostShards(shards []table.Shard) (most int) {
	for _, b := range shards {
		most = max(most, b.State.Count())
	}
	return most
}

// Sum returns the spending of a divided bucket's quotas, from all its shards, which were read one
// after the other. Each has its share of the quota and of the credit, and so of the spending:
//
//	600 and 400 of shares of 1,000: 1,000 of 2,000, which are 50 %
//
// A share in an earlier period than others has spent nothing of the later one. If the bucket was
// divided between two reads, the shards do not fit together. Then Sum reports nothing; the record
// of the division will follow in the stream.
func (s Spending) Sum(shards []table.Shard) Spending {
	if !fit(shards) {
		return s
	}
	for _, sl := range shards[0].State.Slots {
		if !sl.Renews() {
			continue
		}
		sum := Spent{Limit: sl.Limit}
		for _, b := range shards {
			if i := b.State.Index(sl.Name); i >= 0 {
				sum.End = max(sum.End, b.State.Slots[i].End)
				sum.Of = max(sum.Of, b.State.Slots[i].Capacity) // shares not yet raised will be
			}
		}
		for _, b := range shards {
			if i := b.State.Index(sl.Name); i >= 0 && b.State.Slots[i].Renews() && b.State.Slots[i].End == sum.End {
				sum.Spent = bucket.AddSat(sum.Spent, spentOf(b.State, i))
				sum.Of = bucket.AddSat(sum.Of, b.State.Slots[i].Extra)
			}
		}
		s.Spent = append(slices.Clip(s.Spent), sum)
	}
	return s
}

// fit reports whether the shards show one bucket at one instant: a shard exists if and only if the
// count of the shard from which it was split includes it.
func fit(shards []table.Shard) bool {
	most := mostShards(shards)
	if most > bucket.MaxShards {
		return false
	}
	count := map[int]int{}
	for _, b := range shards {
		count[b.State.Shard] = b.State.Count()
	}
	for k := 1; k < most; k++ {
		if n := count[bucket.SplitParent(k)]; (count[k] > 0) != (n >= bucket.CountWith(k)) {
			return false
		}
	}
	return count[0] > 0
}

// Thresholds returns the records of the thresholds that the spending has reached at now, grouped by
// quota and period, ascending. They outlive their period like snapshots their window.
func (s Spending) Thresholds(now int64, conf Config) (out [][]ledger.Threshold) {
	spent := slices.Clone(s.Spent)
	slices.SortStableFunc(spent, func(a, b Spent) int {
		return cmp.Or(cmp.Compare(a.Limit.Name, b.Limit.Name), cmp.Compare(a.End, b.End), cmp.Compare(
			len(b.reached(conf.percents(b.Limit.Name))), len(a.reached(conf.percents(a.Limit.Name)))))
	})
	for i, q := range spent {
		if i > 0 && spent[i-1].Limit.Name == q.Limit.Name && spent[i-1].End == q.End || !q.hasThresholds() {
			continue
		}
		var these []ledger.Threshold
		for _, p := range q.reached(conf.percents(q.Limit.Name)) {
			t := ledger.Threshold{
				Namespace: s.Namespace, Entity: s.Entity, Resource: s.Resource, Limit: q.Limit.Name,
				End: q.End, Percent: p, Spent: bucket.WholeTokens(q.Spent), Quota: bucket.WholeTokens(q.Of),
				At: layout.Timestamp(now), TTL: q.End/1000 + int64(conf.SnapshotTTLDays)*dayMillis/1000,
			}
			if item.Validate(t.Update()) == nil { // another client's names may be too long for a key
				these = append(these, t)
			}
		}
		if len(these) > 0 {
			out = append(out, these)
		}
	}
	return out
}
