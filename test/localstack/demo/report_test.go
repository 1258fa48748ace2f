package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
)

func TestTheWorstAccountIsFound(t *testing.T) {
	l := new(clients.Book)
	for limit, tokens := range map[string]int64{"rpm": 2, "tpm": 130} {
		l.Granted(loadcheck.Account{Entity: "e", Resource: "r", Limit: limit},
			loadcheck.Rule{From: 1, To: 2, Capacity: 100, Amount: 100, Period: 60_000}, tokens)
	}
	all, err := l.Judge(0, false)
	check.Must(t, err)
	for entity, found := range map[string]bool{"": true, "e": true, "nobody": false} {
		got, err := worst(all, entity)
		almost := got.Limit == "tpm" && got.Excess > 29_000 && got.Excess < 30_000
		if (err == nil) != found || found && !almost {
			t.Errorf("of %q: %+v, %v, want almost 30 tokens of tpm", entity, got, err)
		}
	}
}

// passing is a result without a fault.
func passing() result {
	used := func(limit string) sums {
		return sums{limit: limit, hourly: 10, daily: 10, counters: 10, low: 10, high: 10}
	}
	return result{
		ends:      clients.Ends{Granted: 10, Denied: 1, Unavailable: 2, Unknown: 1, Adjusted: 5, RolledBack: 1},
		hotDenied: 1,
		usage:     []sums{used("rpm"), used("tpm")},
		worst:     loadcheck.Judged{Result: loadcheck.Result{Excess: -5}},
		hot:       resharded{most: 4, end: 1, splits: 3, merges: 3}, hotWrites: 60, stored: 1,
		busy:      busy{granted: 100, units: 50},
		worstBusy: loadcheck.Judged{Result: loadcheck.Result{Excess: -1000}},
		swept:     3, archive: archiveCheck{archived: 3, expired: 3}, kept: true,
	}
}

// Sums name the counters that differ from what the clients know, apart from other limits.
func TestSumsNameWhatIsApart(t *testing.T) {
	of := func(entity string) loadcheck.Account {
		return loadcheck.Account{Entity: entity, Resource: "gpt", Limit: "rpm"}
	}
	s := stored{counters: map[loadcheck.Account]int64{of("more"): 7, of("less"): 2, of("within"): 4,
		{Entity: "more", Resource: "gpt", Limit: "tpm"}: 9}}
	clients := map[loadcheck.Account]loadcheck.Page{
		of("more"): {Low: 4, High: 5}, of("less"): {Low: 3, High: 3}, of("within"): {Low: 3, High: 4}}
	got := s.sums("rpm", clients)
	want := []string{"less on gpt: 2 counted, clients know 3 to 3", "more on gpt: 7 counted, clients know 4 to 5"}
	if got.unexplained != 3 || !slices.Equal(got.apart, want) {
		t.Errorf("%d: %q, want 3: %q", got.unexplained, got.apart, want)
	}
}

func TestVerdictFindsEveryFault(t *testing.T) {
	why := passing().verdict()
	check.MustEqual(t, len(why), 0, "nothing is wrong, but: %q", why)
	slow := passing()
	if slow.hot, slow.hotWrites = (resharded{most: 1, end: 1}), 2*hotWCU; len(slow.verdict()) != 0 {
		t.Errorf("a machine that is too slow to split the hot bucket: %q", slow.verdict())
	}
	for _, c := range []struct {
		name, want string
		break_     func(*result)
	}{
		{"snapshots behind", "usage of rpm differs", func(r *result) { r.usage[0].hourly, r.usage[0].diff = 9, 1 }},
		{"differences that cancel", "usage of tpm differs by 2", func(r *result) { r.usage[1].diff = 2 }},
		{"counters nobody explains", "2 tokens away from what the clients did (x on y)", func(r *result) {
			r.usage[1].unexplained, r.usage[1].apart = 2, []string{"x on y"}
		}},
		{"over-admission", "admitted too much", func(r *result) { r.worst.Excess = 1 }},
		{"nothing ahead", "the busy tenant was granted nothing", func(r *result) { r.busy.granted = 0 }},
		{"too much ahead", "granted 0.001 tokens too much", func(r *result) { r.worstBusy.Excess = 1 }},
		{"dear ahead", "0.51 write units, want at most 0.50", func(r *result) { r.busy.units = 51 }},
		{"no split", "did not split", func(r *result) { r.hot = resharded{most: 1, end: 1} }},
		{"no merge", "of 4 shards did not become whole again: 4 are left", func(r *result) {
			r.hot, r.stored = resharded{most: 4, end: 4, splits: 3}, 4
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
		{"outage unnoticed", "unnoticed", func(r *result) { r.ends.Unavailable = 0 }},
		{"nothing denied", "denied", func(r *result) { r.ends.Denied = 0 }},
		{"a hot bucket with room", "its limit was never reached", func(r *result) { r.hotDenied = 0 }},
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
		"\ndemo: writes_per_1000_records=0\n",
		"\ndemo: ahead granted=100 write_units=50 write_units_per_grant=0.500 worst_excess_tokens=-1 bound=0\n",
		"\ndemo: shards most=4 splits=3 merges=3 end=1 ",
		"\ndemo: archived=3 expired=3 duplicates=0 missing=0\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in:\n%s", want, out.String())
		}
	}
}
