package e2e

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// promise is a promise of the design. find returns how it was broken, if it was, and figures of
// what it checked.
type promise struct {
	name string
	find func(*observation) (broken []string, figures string)
}

// checks are the promises that every run must keep.
var checks = []promise{usageIsExact, bookAgrees, writesConserve, sharesAddUp, neverOverAdmits}

var (
	usageIsExact    = promise{"I5 snapshots = counters", findInexactUsage}
	bookAgrees      = promise{"I5 counters = clients", findDisagreement}
	writesConserve  = promise{"I2 writes conserve", findMintedOrLost}
	sharesAddUp     = promise{"I3 shares add up", findUnevenShares}
	neverOverAdmits = promise{"I1 never over-admits", findExcess}
)

// hold checks all promises, and fails the test for broken ones.
func (r *rig) hold(o *observation) {
	r.t.Helper()
	for _, c := range checks {
		broken, figures := c.find(o)
		r.t.Logf("%-24s %s", c.name, figures)
		for _, b := range first(broken, 5) {
			r.t.Errorf("%s: %s", c.name, b)
		}
	}
	for _, err := range first(o.book.Errs(), 3) {
		r.t.Errorf("a client got %v", err)
	}
}

func first[T any](all []T, n int) []T { return all[:min(n, len(all))] }

// cell is one snapshot's count of one limit.
type cell struct {
	loadcheck.Account
	window, start string
}

func (c cell) String() string {
	return fmt.Sprintf("%s/%s %s, %s from %s", c.Entity, c.Resource, c.Limit, c.window, c.start)
}

// windows are the template's, in their obvious form.
var windows = map[string]time.Duration{"hourly": time.Hour, "daily": 24 * time.Hour}

// findInexactUsage compares the snapshots of every hour and day with the growth of the consumption
// counters in the stream.
func findInexactUsage(o *observation) (broken []string, figures string) {
	want, got := map[cell]int64{}, map[cell]int64{}
	o.grown(func(c change, a loadcheck.Account, tokens int64) {
		for name, length := range windows {
			start := time.UnixMilli(c.created).UTC().Truncate(length)
			want[cell{a, name, layout.Timestamp(start.UnixMilli())}] += tokens
		}
	})
	for _, s := range o.snapshots {
		for limit, n := range s.Counts {
			got[cell{loadcheck.Account{Entity: s.Entity, Resource: s.Resource, Limit: limit}, s.Window, s.Start}] += n
		}
	}
	all := maps.Clone(want)
	maps.Copy(all, got)
	var sum, counted, diff int64
	for c := range all {
		if want[c] != got[c] {
			broken = append(broken, fmt.Sprintf("%v: snapshot %d, counters %d", c, got[c], want[c]))
		}
		sum, counted, diff = sum+got[c], counted+want[c], diff+max(want[c]-got[c], got[c]-want[c])
	}
	slices.Sort(broken)
	return broken, fmt.Sprintf("snapshots=%d counters=%d diff=%d, in %d cells of %d snapshots", sum, counted, diff,
		len(all), len(o.snapshots))
}

// grown calls f for each growth of a limit's counter, in whole tokens.
func (o *observation) grown(f func(c change, a loadcheck.Account, tokens int64)) {
	for _, c := range o.changes {
		for _, sl := range c.new.State.Slots {
			if growth := sl.Used - used(c.old, sl.Name); growth != 0 && sl.Name != bucket.WCU {
				f(c, loadcheck.Account{Entity: c.new.Entity, Resource: c.new.Resource, Limit: sl.Name}, growth/bucket.Milli)
			}
		}
	}
}

func used(b *table.Shard, limit string) int64 {
	if b == nil {
		return 0
	}
	if i := b.State.Index(limit); i >= 0 {
		return b.State.Slots[i].Used
	}
	return 0
}

// findDisagreement compares the growth of the counters with the consumption that the clients know.
func findDisagreement(o *observation) (broken []string, figures string) {
	grown := map[loadcheck.Account]int64{}
	o.grown(func(_ change, a loadcheck.Account, tokens int64) { grown[a] += tokens })
	var counters, low, high int64
	clients := o.book.Pages()
	for a, b := range clients {
		if n := grown[a]; n < b.Low || n > b.High {
			broken = append(broken, fmt.Sprintf("%v: counters %d, clients %d to %d", a, n, b.Low, b.High))
		}
		counters, low, high = counters+grown[a], low+b.Low, high+b.High
	}
	for a, n := range grown {
		if _, known := clients[a]; !known {
			broken = append(broken, fmt.Sprintf("%v: counters %d, no client knows of it", a, n))
		}
	}
	slices.Sort(broken)
	l := o.book.Ends()
	return broken, fmt.Sprintf("counters=%d clients=%d..%d; granted=%d denied=%d unavailable=%d unknown=%d adjusted=%d "+
		"rolled_back=%d lost=%d",
		counters, low, high, l.Granted, l.Denied, l.Unavailable, l.Unknown, l.Adjusted, l.RolledBack, l.Lost)
}

// step is one write in the stream: one change, or the two of a split.
type step struct {
	at      change
	sibling *table.Shard // the new shard
}

// steps pairs the records of transactions, which may come in any order, with others in between.
// alone lists shards whose counterpart is missing.
func (o *observation) steps() (out []step, alone []string) {
	type half struct {
		entity, resource string
		shard, count     int
	}
	parents, siblings := map[half]int{}, map[half]*table.Shard{}
	for _, c := range o.changes {
		s := c.new.State
		switch {
		case c.old == nil && s.Shard > 0:
			h := half{c.new.Entity, c.new.Resource, bucket.SplitParent(s.Shard), s.Shards}
			if i, ok := parents[h]; ok {
				out[i].sibling = c.new
				delete(parents, h)
			} else {
				siblings[h] = c.new
			}
			continue
		case c.old != nil && s.Shards > c.old.State.Count():
			h := half{c.new.Entity, c.new.Resource, s.Shard, s.Shards}
			if b, ok := siblings[h]; ok {
				out = append(out, step{c, b})
				delete(siblings, h)
				continue
			}
			parents[h] = len(out)
		}
		out = append(out, step{at: c})
	}
	for h := range parents {
		alone = append(alone, fmt.Sprintf("%v has been counted and its sibling does not exist", h))
	}
	for h := range siblings {
		alone = append(alone, fmt.Sprintf("%v has a sibling and was not split", h))
	}
	return out, alone
}

// findUnevenShares adds up the shares of capacity and rate of all shards after every write, also
// during a split. At the end it checks that every bucket has all its shards.
func findUnevenShares(o *observation) (broken []string, figures string) {
	type name struct{ entity, resource string }
	all := map[name]map[int]*table.Shard{}
	sums, largest := 0, 1
	steps, _ := o.steps()
	for _, s := range steps {
		b := s.at.new
		n := name{b.Entity, b.Resource}
		if all[n] == nil {
			all[n] = map[int]*table.Shard{}
		}
		all[n][b.State.Shard] = b
		if s.sibling != nil {
			all[n][s.sibling.State.Shard] = s.sibling
		}
		largest = max(largest, b.State.Shards)
		sums++
		broken = append(broken, uneven(all[n], fmt.Sprintf("%s/%s at %s", b.Entity, b.Resource, s.at.sequence))...)
	}
	for n, shards := range all {
		if shards[0] == nil {
			continue // reported above
		}
		for k := range shards[0].State.Shards {
			if b := shards[k]; b == nil || b.State.Shards != shards[0].State.Shards {
				broken = append(broken, fmt.Sprintf("%v: shard %d is not at the count %d of shard 0 in the end", n, k,
					shards[0].State.Shards))
			}
		}
	}
	return broken, fmt.Sprintf("sums=%d largest=%d shards broken=%d", sums, largest, len(broken))
}

func uneven(shards map[int]*table.Shard, where string) (broken []string) {
	if shards[0] == nil {
		return []string{where + ": shard 0 is missing"}
	}
	for _, l := range shards[0].State.Slots {
		if l.Name == bucket.WCU {
			continue
		}
		var capacity, amount int64
		for _, b := range shards {
			r := b.State.RateOf(l.Limit)
			capacity, amount = capacity+r.Capacity, amount+r.Amount
		}
		if capacity != l.Capacity || amount != l.Amount {
			broken = append(broken, fmt.Sprintf("%s: shares of %s add up to %d/%d, want %d/%d", where, l.Name, capacity, amount,
				l.Capacity, l.Amount))
		}
	}
	return broken
}

// findExcess returns the worst window that the clients saw.
func findExcess(o *observation) (broken []string, figures string) {
	all, err := o.book.Judge(0, true)
	if err != nil {
		broken = append(broken, err.Error())
	}
	for _, j := range all {
		if j.Excess > 0 {
			broken = append(broken, fmt.Sprintf("%v: %v", j.Account, j.Result))
		}
	}
	worst, _ := all.Worst()
	slices.Sort(broken)
	return broken, fmt.Sprintf("worst_excess=%s tokens bound=0, of %d limits, at %s/%s %s", bucket.Tokens(worst.Excess),
		len(all), worst.Entity, worst.Resource, worst.Limit)
}
