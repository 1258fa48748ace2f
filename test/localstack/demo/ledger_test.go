package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/play"
	"github.com/zeroae/zae-limiter-go/limiter"
)

var someone = &tenant{entity: "e", resource: "r", limits: perMinute(10, 100)}

func at(costs limiter.Costs, sent int64) call {
	return call{tenant: someone, costs: costs, sent: sent, answered: sent + 1}
}

func TestLostAnswersLeaveTheBooksOpen(t *testing.T) {
	l := newLedger()
	none := func(*counts) {}
	for _, step := range []struct {
		name string
		do   func()
		want balance
	}{
		{"granted", func() { l.granted(at(limiter.Costs{"tpm": 50}, 1)) }, balance{50, 50}},
		{"adjusted", func() { l.settled(at(limiter.Costs{"tpm": -20}, 2), none, true) }, balance{30, 30}},
		{"denied", func() { l.refused(at(limiter.Costs{"tpm": 99}, 3), none, false) }, balance{30, 30}},
		{"unknown acquire", func() { l.refused(at(limiter.Costs{"tpm": 7}, 4), none, true) }, balance{30, 37}},
		{"unknown rollback", func() { l.settled(at(limiter.Costs{"tpm": -5}, 5), none, false) }, balance{25, 37}},
		{"unknown commit of more", func() { l.settled(at(limiter.Costs{"tpm": 3}, 6), none, false) }, balance{25, 40}},
	} {
		step.do()
		if got := l.balances[account{"e", "r", "tpm"}]; got != step.want {
			t.Errorf("%s: %+v, want %+v", step.name, got, step.want)
		}
	}
	if n := len(l.events[account{"e", "r", "tpm"}]); n != 3 {
		t.Errorf("%d events for the checker, want the grant and both returns", n)
	}
}

func TestTheWorstAccountIsFound(t *testing.T) {
	l := newLedger()
	l.granted(at(limiter.Costs{"rpm": 1, "tpm": 100}, 1))
	l.granted(at(limiter.Costs{"rpm": 1, "tpm": 30}, 2))
	got, where, err := l.worst(false, everyone)
	if err != nil || where.limit != "tpm" || got.Excess <= 29_000 || got.Excess >= 30_000 {
		t.Errorf("%v at %+v, %v, want almost 30 tokens of tpm", got, where, err)
	}
}

// passing is a result with which nothing is wrong.
func passing() result {
	u := sums{hourly: 10, daily: 10, counters: 10, low: 10, high: 10}
	return result{
		counts: counts{acquired: 10, denied: 1, unavailable: 2, unknown: 1, adjusted: 5, rolledBack: 1}, rpm: u, tpm: u,
		worst: play.Result{Excess: -5}, warm: warmCost{writes: 1, calls: 1},
		hot: life{most: 4, end: 1, splits: 3, merges: 3}, hotWrites: 60, stored: 1,
		billed: paid{Asked: 11, Granted: 10, Held: 10, Refused: 23},
		swept:  3, archive: archiveCheck{archived: 3, expired: 3}, kept: true,
	}
}

func TestVerdictFindsEveryFault(t *testing.T) {
	if why := passing().verdict(); len(why) != 0 {
		t.Fatalf("nothing is wrong, but: %q", why)
	}
	slow := passing()
	if slow.hot, slow.hotWrites = (life{most: 1, end: 1}), 2*hotWCU; len(slow.verdict()) != 0 {
		t.Errorf("a machine that is too slow to split the hot bucket: %q", slow.verdict())
	}
	for _, c := range []struct {
		name, want string
		break_     func(*result)
	}{
		{"snapshots behind", "usage of rpm differs", func(r *result) { r.rpm.hourly, r.rpm.diff = 9, 1 }},
		{"differences that cancel", "usage of tpm differs by 2", func(r *result) { r.tpm.diff = 2 }},
		{"counters nobody explains", "2 tokens away", func(r *result) { r.tpm.unexplained = 2 }},
		{"over-admission", "admitted too much", func(r *result) { r.worst.Excess, r.worstKept.Excess = 1, 1 }},
		{"dear acquire", "costs 2.00 write", func(r *result) { r.warm.writes = 2 }},
		{"a read", "1.00 read", func(r *result) { r.warm.reads = 1 }},
		{"a write too many", "sent 34 writes, want at most 3 each", func(r *result) { r.billed.Held++ }},
		{"no split", "did not split", func(r *result) { r.hot = life{most: 1, end: 1} }},
		{"no merge", "of 4 shards did not become whole again: 4 are left", func(r *result) {
			r.hot, r.stored = life{most: 4, end: 4, splits: 3}, 4
		}},
		{"a shard nobody knows", "did not become whole again", func(r *result) { r.stored = 2 }},
		{"half a split", "counts [2 1]", func(r *result) { r.uneven = []string{"x has shards with the counts [2 1]"} }},
		{"lost event", "misses 1", func(r *result) { r.archive.missing = 1 }},
		{"event twice", "has 1 twice", func(r *result) { r.archive.duplicates = 1 }},
		{"deleted by hand, archived", "1 events in the archive did not expire", func(r *result) { r.archive.wrong = 1 }},
		{"nothing expired", "no audit event expired", func(r *result) { r.archive = archiveCheck{} }},
		{"malformed record gone", "not kept", func(r *result) { r.kept = false }},
		{"records given up", "given up", func(r *result) { r.undelivered = 1 }},
		{"trouble did not come", "no answer was lost", func(r *result) { r.missing = []string{"no answer was lost"} }},
		{"an error", "unexpected", func(r *result) { r.errs = []error{errors.New("a\nb")} }},
		{"outage unnoticed", "unnoticed", func(r *result) { r.counts.unavailable = 0 }},
		{"nothing denied", "denied", func(r *result) { r.counts.denied = 0 }},
	} {
		r := passing()
		c.break_(&r)
		line, code := last(r.verdict())
		if code != 1 || !strings.HasPrefix(line, "demo: FAIL ") || !strings.Contains(line, c.want) ||
			strings.Contains(line, "\n") {
			t.Errorf("%s: %q, status %d, want a reason with %q", c.name, line, code, c.want)
		}
	}
	if line, code := last(nil); line != "demo: PASS" || code != 0 {
		t.Errorf("%q, status %d", line, code)
	}
}

func TestSummaryHasTheLinesPeopleGrepFor(t *testing.T) {
	var out strings.Builder
	passing().print(&out)
	for _, want := range []string{
		"\ndemo: acquired=10 denied=1 unavailable=2 unknown=1 adjusted=5 rolled_back=1\n",
		"\ndemo: usage rpm snapshots=10 counters=10 diff=0\n",
		"\ndemo: usage tpm snapshots=10 counters=10 diff=0\n",
		"\ndemo: worst_excess_tokens=-0.005 bound=0\n",
		"\ndemo: write_units_per_warm_acquire=1.00 read_units=0.00\n",
		"\ndemo: writes_per_1000_records=0\n",
		"\ndemo: shards most=4 splits=3 merges=3 end=1 ",
		"\ndemo: archived=3 expired=3 duplicates=0 missing=0\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in:\n%s", want, out.String())
		}
	}
}
