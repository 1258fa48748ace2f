package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
)

// result is everything that was measured. Nothing in it is assumed.
type result struct {
	ends        clients.Ends
	hotDenied   int // on the hot bucket
	errs        []error
	usage       []sums // of rpm and tpm
	worst       loadcheck.Judged
	worstHot    loadcheck.Judged // of the hot bucket
	worstBusy   loadcheck.Judged // of the busy tenant
	busy        busy
	writesPer   float64
	writes      int
	records     int
	hot         resharded
	hotWrites   float64 // of the hot bucket over the rush, a second
	stored      int     // shards of the hot bucket in the table
	uneven      []string
	lost        int64 // writes lost to other clients
	planned     int   // requests of the rush
	leftOut     int   // of these, not sent because the machine is too slow
	swept       int   // audit events that expired
	archive     archiveCheck
	kept        bool   // the malformed record is stored with its payload
	trouble     string // the injected trouble
	missing     []string
	undelivered int // records given up by the event source mappings
}

// archiveCheck compares the archive with the events that expired.
type archiveCheck struct{ archived, expired, duplicates, missing, wrong int }

func checkArchive(a *audits, lines map[string]int) archiveCheck {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := archiveCheck{expired: len(a.expire), archived: len(lines)}
	for id := range a.expire {
		if lines[id] == 0 {
			c.missing++
		}
	}
	for id, n := range lines {
		c.duplicates += n - 1
		if !a.expire[id] {
			c.wrong++
		}
	}
	return c
}

// verdict returns why the run is not a success; nothing if it is.
func (r result) verdict() []string {
	var why []string
	fail := func(bad bool, format string, args ...any) {
		if bad {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	for _, u := range r.usage {
		fail(u.diff != 0 || u.hourly != u.counters || u.daily != u.counters, "usage of %s differs by %d", u.limit, u.diff)
		fail(u.counters <= 0, "no usage of %s", u.limit)
		fail(u.unexplained != 0, "counters of %s are %d tokens away from what the clients did (%s)", u.limit, u.unexplained,
			strings.Join(u.apart, "; "))
	}
	fail(r.ends.Unavailable == 0 || r.ends.Unknown+r.ends.Lost == 0,
		"the outage and the lost answers went unnoticed")
	fail(r.ends.Granted == 0 || r.ends.Denied == 0, "want both granted and denied requests")
	fail(r.hotDenied == 0, "the hot bucket denied nothing: its limit was never reached, which proves little")
	fail(r.ends.Adjusted == 0 || r.ends.RolledBack == 0, "want both adjusted and rolled back leases")
	fail(r.worst.Excess > 0, "%s on %s admitted too much: %v", r.worst.Entity, r.worst.Resource, r.worst.Result)
	fail(r.busy.granted == 0, "the busy tenant was granted nothing")
	fail(r.worstBusy.Excess > 0, "the busy tenant was granted %s tokens too much", bucket.Tokens(r.worstBusy.Excess))
	fail(r.busy.perGrant() > mostBusy, "a grant of the busy tenant took %.2f write units, want at most %.2f",
		r.busy.perGrant(), mostBusy)
	// A machine that is too slow does not exhaust the meter.
	fail(r.hot.most < 2 && r.hotWrites > 2*hotWCU, "the hot bucket did not split under %.0f writes a second", r.hotWrites)
	fail(r.hot.end != 1 || r.stored != 1 || r.hot.merges != r.hot.splits,
		"the hot bucket of %d shards did not become whole again: %d are left", r.hot.most, r.stored)
	fail(len(r.uneven) > 0, "%s", strings.Join(r.uneven, "; "))
	a := r.archive
	fail(a.expired == 0, "no audit event expired")
	fail(r.swept < a.expired, "%d of %d audit events were swept", r.swept, a.expired)
	fail(a.missing > 0 || a.duplicates > 0, "the archive misses %d events and has %d twice", a.missing, a.duplicates)
	fail(a.wrong > 0, "%d events in the archive did not expire", a.wrong)
	fail(!r.kept, "the malformed record is not kept")
	fail(r.undelivered > 0, "%d records were given up", r.undelivered)
	for _, m := range r.missing {
		fail(true, "%s", m)
	}
	if len(r.errs) > 0 {
		fail(true, "%d unexpected errors, the first: %v", len(r.errs), r.errs[0])
	}
	return why
}

// print writes the summary: for each figure its meaning, and a machine-readable line.
func (r result) print(w io.Writer) {
	say := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	c := r.ends
	say("\nWhat the clients got. Denied: nothing taken. Unavailable: no decision, nothing written. Unknown: no answer, " +
		"perhaps taken.")
	say("demo: acquired=%d denied=%d unavailable=%d unknown=%d adjusted=%d rolled_back=%d",
		c.Granted, c.Denied, c.Unavailable, c.Unknown, c.Adjusted, c.RolledBack)
	say("%d settlements got no answer, %d could not be written.", c.Lost, c.Unsettled)
	say("The rush sent %d of its %d requests%s. The hot bucket denied %d.", r.planned-r.leftOut, r.planned,
		map[bool]string{true: "; this machine was too slow for the others"}[r.leftOut > 0], r.hotDenied)
	say("\nUsage: the aggregator's snapshots against the consumption counters in the buckets, per entity and resource,")
	say("hourly and daily; and the counters against the clients' own books, as far as lost answers leave those open.")
	for _, u := range r.usage {
		say("demo: usage %s snapshots=%d counters=%d diff=%d", u.limit, u.hourly, u.counters, u.diff)
		say("demo: usage %s daily=%d clients=%d..%d unexplained=%d", u.limit, u.daily, u.low, u.high, u.unexplained)
	}
	say("\nNever too much: admitted - capacity - refill - returned, in the worst of all windows of time.")
	say("Nearest to that was %s on %s, %s: %s. The hot bucket, with up to %d shards: %s.", r.worst.Entity,
		r.worst.Resource, r.worst.Limit, margin(float64(r.worst.Excess)/bucket.Milli), r.hot.most,
		margin(float64(r.worstHot.Excess)/bucket.Milli))
	say("demo: worst_excess_tokens=%s bound=0", bucket.Tokens(r.worst.Excess))
	say("\nA busy tenant whose %d processes take tokens ahead, and hold them for %v at most (Options.Ahead).",
		busyProcesses, busyAhead)
	say("demo: ahead granted=%d write_units=%.0f write_units_per_grant=%.3f worst_excess_tokens=%s bound=0",
		r.busy.granted, r.busy.units, r.busy.perGrant(), bucket.Tokens(r.worstBusy.Excess))
	say("\nThe aggregator's writes (%d for %d records of bucket changes).", r.writes, r.records)
	say("demo: writes_per_1000_records=%.0f", r.writesPer)
	say("\nShards. The hot bucket began with a write meter of %d per second instead of 1000, so that "+
		"a laptop can exhaust it,", hotWCU)
	say("and shards that have been cool for %v merge instead of for %d s.", mergeAfter, function.DefaultMergeAfter)
	say("lost_races: writes refused because another client had changed the bucket; decided anew from the image that " +
		"came back.")
	say("demo: shards most=%d splits=%d merges=%d end=%d lost_races=%d",
		r.hot.most, r.hot.splits, r.hot.merges, r.hot.end, r.lost)
	say("\nAudit events that expired against what is in the archive; those deleted by hand must not be there.")
	a := r.archive
	say("demo: archived=%d expired=%d duplicates=%d missing=%d", a.archived, a.expired, a.duplicates, a.missing)
	say("\nWhat went wrong on purpose, and that the malformed record is kept with its payload.")
	say("demo: trouble %s malformed_kept=%v", r.trouble, r.kept)
	for i, err := range r.errs {
		if i < 5 {
			say("demo: unexpected error: %v", err)
		}
	}
}

// last returns the last line: PASS, or FAIL with the reasons.
func last(why []string) (line string, code int) {
	if len(why) == 0 {
		return "demo: PASS", 0
	}
	slices.Sort(why)
	return "demo: FAIL " + strings.ReplaceAll(strings.Join(why, "; "), "\n", "; "), 1
}

// worst returns the worst window over all limits of an entity, or of all tenants for "".
func worst(all loadcheck.Judgement, entity string) (loadcheck.Judged, error) {
	others := func(j loadcheck.Judged) bool { return entity != "" && j.Entity != entity }
	worst, ok := slices.DeleteFunc(slices.Clone(all), others).Worst()
	if !ok {
		return worst, errors.New("no request was granted")
	}
	return worst, nil
}
