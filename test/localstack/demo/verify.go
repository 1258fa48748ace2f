package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/usage"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// stored is the table's content at the end, in whole tokens.
type stored struct {
	hourly, daily map[loadcheck.Account]int64 // sums of the snapshots
	counters      map[loadcheck.Account]int64 // sums of the consumption counters over all shards that ever existed
	shards        map[[2]string]int           // shards of each entity's resource
	uneven        []string                    // buckets whose shards have different counts
}

func readTable(ctx context.Context, e *engine.Engine, name string) (stored, error) {
	s := stored{
		hourly: map[loadcheck.Account]int64{}, daily: map[loadcheck.Account]int64{}, counters: map[loadcheck.Account]int64{},
		shards: map[[2]string]int{},
	}
	counts := map[[2]string][]int{}
	items, err := e.Items(ctx, name)
	if err != nil {
		return s, err
	}
	for _, it := range items {
		if err := s.add(it, counts); err != nil {
			return s, err
		}
	}
	for _, of := range slices.SortedFunc(maps.Keys(counts),
		func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		s.shards[of] = len(counts[of])
		if slices.ContainsFunc(counts[of], func(n int) bool { return n != len(counts[of]) }) {
			s.uneven = append(s.uneven, fmt.Sprintf("%s on %s has shards with the counts %v", of[0], of[1], counts[of]))
		}
	}
	return s, nil
}

func (s *stored) add(it item.Item, counts map[[2]string][]int) error {
	if ledger.WindowOf(it) != "" {
		snapshot, err := ledger.DecodeSnapshot(it)
		if err != nil {
			return err
		}
		sums := s.hourly
		if snapshot.Window == string(usage.Daily) {
			sums = s.daily
		}
		for limit, n := range snapshot.Counts {
			sums[loadcheck.Account{Entity: snapshot.Entity, Resource: snapshot.Resource, Limit: limit}] += n
		}
		return nil
	}
	if _, _, _, _, ok := layout.ParseBucketPK(item.KeyOf(it).PK); !ok || item.KeyOf(it).SK != layout.SKBucketState {
		return nil
	}
	b, err := table.DecodeShard(it)
	if err != nil {
		return err
	}
	of := [2]string{b.Entity, b.Resource}
	counts[of] = append(counts[of], b.State.Count())
	for _, sl := range b.State.Slots {
		if sl.Name == bucket.WCU {
			continue
		}
		if sl.Spent()%bucket.Milli != 0 {
			return fmt.Errorf("bucket %q: %d millitokens of %s spent, want whole tokens", b.Key().PK, sl.Spent(), sl.Name)
		}
		s.counters[loadcheck.Account{Entity: b.Entity, Resource: b.Resource, Limit: sl.Name}] += sl.Spent() / bucket.Milli
	}
	return nil
}

// sums is the usage of one limit over all entities, and how far the sources differ, summed over
// entities so that differences do not cancel.
type sums struct {
	limit                   string
	hourly, daily, counters int64
	diff                    int64
	low, high               int64    // the clients' bounds
	unexplained             int64    // how far the counters are outside the bounds
	apart                   []string // entities whose counters are, sorted
}

func (s stored) sums(limit string, clients map[loadcheck.Account]loadcheck.Page) sums {
	out := sums{limit: limit}
	all := map[loadcheck.Account]bool{}
	for _, a := range slices.Concat(slices.Collect(maps.Keys(s.hourly)), slices.Collect(maps.Keys(s.daily)),
		slices.Collect(maps.Keys(s.counters)), slices.Collect(maps.Keys(clients))) {
		all[a] = a.Limit == limit
	}
	for a, is := range all {
		if !is {
			continue
		}
		hourly, daily, counter, b := s.hourly[a], s.daily[a], s.counters[a], clients[a]
		out.hourly, out.daily, out.counters = out.hourly+hourly, out.daily+daily, out.counters+counter
		out.low, out.high = out.low+b.Low, out.high+b.High
		out.diff += max(distance(hourly, counter), distance(daily, counter))
		if off := max(0, b.Low-counter, counter-b.High); off > 0 {
			out.unexplained += off
			out.apart = append(out.apart, fmt.Sprintf("%s on %s: %d counted, clients know %d to %d", a.Entity, a.Resource,
				counter, b.Low, b.High))
		}
	}
	slices.Sort(out.apart)
	return out
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// writesPerThousand returns the aggregator's writes per 1,000 processed records.
func writesPerThousand(s *rig) (rate float64, writes, records int) {
	for operation, u := range s.Proxy.Usage() {
		switch operation {
		case "UpdateItem", "PutItem", "DeleteItem", "TransactWriteItems":
			writes += u.Calls
		}
	}
	records = s.aggregating.Stats().Processed
	return 1000 * float64(writes) / float64(max(records, 1)), writes, records
}
