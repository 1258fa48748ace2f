package pricing

import (
	"fmt"
	"iter"
	"math"
)

// The units of each path, as measured by make cost (docs/cost.md).
const (
	unitsOfAcquire = 1.0 // of each level of a cascade; a settlement takes as much
	unitsOfTouch   = 0.5 // read units, of a process's first request for a bucket
	unitsOfConfig  = 2.5 // read units
	unitsOfUsage   = 1.0
	unitsOfFirst   = 2.0 // additional, of the first snapshot of a window, in the indexes
	unitsOfReads   = 2.5 // read units, per bucket and hour: of the snapshots before, and of owed windows
)

// Bytes stored, including index entries, and the 100 bytes that AWS adds to each item and entry.
const (
	bytesOfBucket   = 1300
	bytesOfSnapshot = 1100
)

const longFold = 600 // seconds: from this on, longer windows are updated every second hour

// Use is the usage of a month. [Use.Check] checks the accepted values.
type Use struct {
	Rate         float64 // granted requests per second, on average
	Settled      float64 // the part of them that is settled, 0 to 1
	SettleWithin float64 // seconds for which settlements wait for a charge (limiter.Options.SettleWithin); 0: none
	Levels       int     // entities that each request charges
	Processes    int
	Starts       float64 // how often each process starts in the month, without any bucket in its cache
	Ahead        float64 // seconds for which they prefetch (limiter.Options.Ahead); 0: they do not
	Entities     int     // with their resources
	Skew         float64 // exponent of Zipf's law for their use; 0: all of them are used all the time
	Windows      int     // of usage
	FoldSeconds  float64 // between writes of usage; 0: usage is written with every batch
	SnapshotDays int     // how long snapshots are kept
	LimitsInCode bool
	StreamShards int     // of the table's stream: as many as the table has partitions
	Audits       float64 // audit events archived in the month
	Utilization  float64 // the average part of provisioned capacity that is used, above 0 to 1
}

// Check returns an error that names an invalid value, or nil.
func (u Use) Check() error {
	const above0, many = math.SmallestNonzeroFloat64, 1e12
	for _, of := range []struct {
		flag               string
		value, least, most float64
	}{
		{"rate", u.Rate, above0, many}, {"settle", u.Settled, 0, 1}, {"levels", float64(u.Levels), 1, 4},
		{"processes", float64(u.Processes), 1, many}, {"entities", float64(u.Entities), 1, many}, {"skew", u.Skew, 0, 3},
		{"windows", float64(u.Windows), 0, 3}, {"snapshot-days", float64(u.SnapshotDays), 1, many},
		{"stream-shards", float64(u.StreamShards), 1, many}, {"audits", u.Audits, 0, many},
		{"fold", u.FoldSeconds, 0, 900}, {"ahead, in seconds,", u.Ahead, 0, 600}, {"starts", u.Starts, 0, many},
		{"settle-within, in seconds,", u.SettleWithin, 0, 60},
		{"utilization", u.Utilization, above0, 1},
	} {
		if of.value >= of.least && of.value <= of.most { // false for NaN
			continue
		}
		least := fmt.Sprintf("%g", of.least)
		if of.least == above0 {
			least = "more than 0"
		}
		return fmt.Errorf("--%s is %g, want %s to %g", of.flag, of.value, least, of.most)
	}
	return nil
}

func (u Use) requests() float64 { return u.Rate * monthSeconds }

// changes returns how many bucket records the stream has in a month.
func (u Use) changes() float64 {
	return u.requests() * float64(u.Levels) * (u.perAcquire() + u.perSettled())
}

// perSettled returns the settlement writes for each request of a level. A waiting settlement is
// written alone only if the process does not charge the bucket in that time: with random requests,
// with a probability of e^(-rate x time). Example: at one per second for a key in a process, and 3
// seconds, 5 % are written alone.
func (u Use) perSettled() (writes float64) {
	if u.SettleWithin == 0 {
		return u.Settled
	}
	for share, n := range u.shares() {
		writes += n * share * math.Exp(-u.Rate*share/float64(u.Processes)*u.SettleWithin)
	}
	return writes * u.Settled
}

// perAcquire returns the writes for each request of a level. Without prefetching it is one. With
// it, one write serves a process for a part of the time for which it prefetches, if requests are
// frequent enough. Example: 16 processes, 900 requests per second on one key, half a second ahead.
// Each process has 28 requests in that time, so one write serves 20 requests.
func (u Use) perAcquire() (writes float64) {
	if u.Ahead == 0 {
		return 1
	}
	for share, n := range u.shares() {
		each := 1.0
		if asked := u.Rate * share / float64(u.Processes) * u.Ahead; asked >= leastAhead {
			each = 1 / (asked * servedAhead)
		}
		writes += n * share * each
	}
	return writes
}

// touches returns how often in a month a process uses a bucket that is not in its cache, for each
// level, and reads it. The cache is assumed to hold all buckets (limiter.Options.MaxBuckets).
func (u Use) touches() float64 {
	if u.Starts == 0 {
		return 0
	}
	lives := u.Starts * float64(u.Processes)
	return min(lives*u.inUse(monthSeconds/lives), u.requests())
}

const (
	leastAhead  = 3.7 // requests in that time, below which nothing is prefetched
	servedAhead = 0.7 // part of the time that a write serves, as measured (docs/hot-keys.md)
)

// usage returns the write units of a month's usage, for each level, and how many of them are in
// indexes. An hour is written with every fold; a day and a month once per finished hour, or two.
func (u Use) usage() (all, indexes float64) {
	if u.Windows == 0 {
		return 0, 0
	}
	const hour = 3600
	hours, catchUps := u.inUse(hour), u.inUse(hour)*monthHours
	var writes float64
	switch {
	case u.FoldSeconds == 0:
		writes = u.requests() * (u.perAcquire() + u.perSettled())
		catchUps = writes
	case u.FoldSeconds >= longFold:
		catchUps = u.inUse(2*hour) * monthHours / 2
		fallthrough
	default:
		writes = u.inUse(u.FoldSeconds) * monthSeconds / u.FoldSeconds
	}
	firsts := hours * monthHours
	if u.Windows > 1 {
		writes += catchUps
		firsts += u.inUse(24*hour) * monthDays
	}
	if u.Windows > 2 {
		writes += catchUps
		firsts += u.inUse(monthSeconds)
	}
	indexes = firsts * unitsOfFirst
	return writes*unitsOfUsage + indexes, indexes
}

// readsOfUsage returns the read units, for each level.
func (u Use) readsOfUsage() float64 {
	if u.Windows == 0 {
		return 0
	}
	return u.inUse(3600) * monthHours * unitsOfReads
}

// stored returns the GB in the table: a bucket for each entity, and the snapshots for as long as
// they are kept.
func (u Use) stored() float64 {
	bytes := u.inUse(24*3600) * bytesOfBucket
	days := float64(u.SnapshotDays)
	for i, seconds := range []float64{3600, 24 * 3600, monthSeconds}[:u.Windows] {
		kept := days * []float64{24, 1, 1 / monthDays}[i]
		bytes += u.inUse(seconds) * kept * bytesOfSnapshot
	}
	return bytes * float64(u.Levels) / gb
}

// inUse returns how many entities are used within a number of seconds: at most all entities, or the
// number of requests; with Zipf's law, the expected number.
func (u Use) inUse(seconds float64) float64 {
	requests := u.Rate * seconds
	if u.Skew == 0 {
		return min(float64(u.Entities), requests)
	}
	used := 0.0
	for share, n := range u.shares() {
		used -= n * math.Expm1(requests*math.Log1p(-share)) // 1 - (1 - share)^requests
	}
	return used
}

// shares yields shares of the requests, by Zipf's law, and how many entities have each, the busiest
// first. Entities whose ranks differ by a thousandth are combined.
func (u Use) shares() iter.Seq2[float64, float64] {
	ranks := func(yield func(weight, entities float64) bool) {
		for first, n := 1, 0; first <= u.Entities; first += n {
			n = min(1+first/1000, u.Entities+1-first)
			if !yield(math.Pow(float64(first)+float64(n-1)/2, -u.Skew), float64(n)) {
				return
			}
		}
	}
	all := 0.0
	for weight, n := range ranks {
		all += weight * n
	}
	return func(yield func(share, entities float64) bool) {
		for weight, n := range ranks {
			if !yield(weight/all, n) {
				return
			}
		}
	}
}

// The resources of an aggregator invocation. The time is the measured CPU time (docs/measured.md),
// on the 0.29 of a core that 512 MiB have, plus calls of some milliseconds.
const (
	msOfInvocation    = 40.0
	msOfRecord        = 1.0
	recordsOfABatch   = 1000.0
	bytesOfAnArchived = 1000.0
)

// BytesLogged is what an invocation logs: the line of the batch and its metrics line.
const BytesLogged = 850

// invocations returns the aggregator's invocations in a month: a batch is sent one second after its
// first record, or when it is full.
func (u Use) invocations() float64 {
	each := u.changes() / monthSeconds / float64(u.StreamShards) // records per second
	return monthSeconds * float64(u.StreamShards) * max(each/(1+each), each/recordsOfABatch)
}

// busy returns the share of hours with at least one event, for a number of events per month.
func busy(times float64) float64 { return -math.Expm1(-times / monthHours) }
