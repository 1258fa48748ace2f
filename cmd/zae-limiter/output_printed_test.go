package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/limiter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write the golden files anew")

// printed are commands whose output programs and people read, in all three formats.
// Those that change something are given once, in the format of their turn.
var printed = []struct {
	command string
	formats string
}{
	{"namespace list", "table csv json"},
	{"limits list", "table csv json"},
	{"limits set -y -r gpt-4 rpm=10 tpm=1000/m:2000", "table"},
	{"limits set -y -e acme -r gpt-4 rpm=20/h tpm=unlimited", "csv"},
	{"limits set -y --everybody images=blocked", "json"},
	{"policy set -y --on-unavailable allow --audit-retention 30d", "json"},
	{"policy get", "table csv json"},
	{"limits get --everybody", "table"},
	{"limits get", "table csv json"},
	{"limits get -r none", "table json"},
	{"limits list", "table csv json"},
	{"limits list -e acme", "table csv json"},
	{"limits list -r gpt-4", "table"},
	{"limits resolve acme gpt-4", "table csv json"},
	{"entity create org --name Org", "table"},
	{`entity create acme --parent org --charge-parent --metadata {"tier":"gold"}`, "json"},
	{"entity create beta", "csv"},
	{"entity get acme", "table csv json"},
	{"entity get nobody", "table json"},
	{"entity children org", "table csv json"},
	{"entity children acme", "table csv json"},
	{"acquire", ""},
	{"limits reach", "table csv json"},
	{"peek acme gpt-4", "table csv json"},
	{"peek other gpt-4", "table json"},
	{"disable -y -r gpt-4", "table csv json"},
	{"limits get -r gpt-4", "table json"},
	{"limits resolve other gpt-4", "table csv json"},
	{"enable -y -e acme -r gpt-4", "table"},
	{"limits resolve acme gpt-4", "table"},
	{"limits list", "table"},
	{"enable -y -e acme -r gpt-4 --inherit", "csv"},
	{"enable -y -r gpt-4 --inherit", "json"},
	{"bypass -y -r gpt-4", "table json"},
	{"cascade off -y -r gpt-4", "table csv json"},
	{"limits list -r gpt-4", "table json"},
	{"cascade inherit -y -r gpt-4", "table"},
	{"enable -y -r gpt-4 --inherit", "table"},
	{"cascade maybe -r gpt-4", "table"},
	{"disable", "table"},
	{"credit acme gpt-4 rpm=2", "json"},
	{"credit acme gpt-4 rpm=1", "table"},
	{"raise acme gpt-4 rpm=3 --for 2", "json"},
	{"raise acme gpt-4 rpm=4 --until 2025-02-01T00:00:00Z", "table"},
	{"peek acme gpt-4", "table json"},
	{"limits get -e acme -r gpt-4", "table json"},
	{"limits resolve acme gpt-4", "table json"},
	{"raise -y acme gpt-4 rpm --end", "table"},
	{"reset -y acme gpt-4", "csv"},
	{"reset -y acme gpt-4", "json"},
	{"thresholds -e acme", "table csv json"},
	{"thresholds -e acme -r images", "table json"},
	{"usage -e acme", "table csv json"},
	{"usage -e acme -w hourly --sum", "table csv json"},
	{"usage -e nobody -w hourly --sum", "table csv json"},
	{"usage -e acme --plot", "table"},
	{"usage -e nobody --plot", "table"},
	{"audit", "table csv json"},
	{"audit -e acme", "table csv json"},
	{"audit -r gpt-4 --max 1", "table csv json"},
	{"audit --all --max 3", "table csv json"},
	{"audit --all --from 2000-01-01 --to 2000-01-02", "table json"},
	{"audit -e acme --to 2000-01-01", "csv"},
	{"plan testdata/limits.yaml", "table csv json"},
	{"apply -y testdata/limits.yaml", "table"},
	{"plan testdata/limits.yaml", "table csv json"},
	{"limits delete -e acme -r gpt-4 -y", "table"},
	{"limits delete -r images -y", "json"},
	{"limits delete -r none -y", "table csv json"},
	{"entity move -y acme --no-parent", "table"},
	{"entity move -y acme --parent org", "json"},
	{"entity delete beta -y", "table"},
	{"entity delete acme -y", "json"},
	{"namespace register prod", "table"},
	{"namespace register prod", "csv json"},
	{"namespace delete -y prod", "json"},
	{"namespace list --all", "table csv json"},
	{"namespace purge -y prod", "table json"},
	{"cost --rate 10 --settle 1 --processes 4 --entities 200", "table csv json"},
	{"cost --rate 1000 --processes 16 --ahead 500ms --table-only --provisioned", "table"},
	{"version", "table csv json"},
	{"table policy read --arn arn:aws:dynamodb:us-east-1:123456789012:table/zae-limiter", "table"},
}

// What programs parse and people read is what it was: the output of every command, to
// the letter.
func TestWhatIsPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a removal waits for the index
		s := newShell(t)
		var got strings.Builder
		for _, p := range printed {
			if p.command == "acquire" {
				s.acquire()
				continue
			}
			for _, format := range strings.Fields(p.formats) {
				out, errs, code := s.end(append(strings.Fields(p.command), "-o", format)...)
				fmt.Fprintf(&got, "$ zae-limiter %s -o %s\n%s", p.command, format, out)
				if errs != "" {
					fmt.Fprintf(&got, "--\n%s", errs)
				}
				fmt.Fprintf(&got, "== %d\n\n", code)
			}
			s.table.Advance(time.Second)
		}
		golden(t, "testdata/printed.txt", withoutChance(got.String()))
	})
}

// acquire has what acme takes in the books, usage of two hours and a day, and a threshold.
func (s *shell) acquire() {
	s.Helper()
	ask := limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 9}}
	s.takes(ask)
	if _, err := s.table.Limiter(nil).Acquire(s.Context(), ask); !errors.Is(err, limiter.ErrLimited) {
		s.Fatalf("9 and 9 of 10: %v", err)
	}
	s.usage("hourly", time.Date(2024, 2, 1, 22, 0, 0, 0, time.UTC), 11)
	s.usage("hourly", time.Date(2024, 2, 1, 23, 0, 0, 0, time.UTC), 22)
	s.usage("daily", time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC), 33)
	s.stores(ledger.Threshold{
		Namespace: s.table.Admin("").ID(), Entity: "acme", Resource: "gpt-4", Limit: "budget",
		End: time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), Percent: 80, Spent: 412, Quota: 500,
		At: "2024-02-01T22:10:00Z",
	}.Item())
}

// stores stores an item as the aggregator does.
func (s *shell) stores(it item.Item) {
	s.Helper()
	in := &dynamodb.PutItemInput{TableName: aws.String("zae-limiter"), Item: it}
	check.Must(s, check.Err(s.table.PutItem(s.Context(), in)))
}

// usage stores what acme has used in one window, as the aggregator does.
func (s *shell) usage(window string, start time.Time, tokens int64) {
	s.Helper()
	at := start.Format(time.RFC3339)
	part := at
	if window == "daily" {
		part = start.Format(time.DateOnly)
	}
	snapshot := ledger.Snapshot{
		Namespace: s.table.Admin("").ID(), Entity: "acme", Resource: "gpt-4", Window: window, Start: at, Part: part,
		Counts: map[string]int64{"rpm": 1, "tpm": tokens}, Events: 2,
	}
	s.stores(snapshot.Item())
}

// withoutChance replaces the ids, which differ from run to run: of audit events and of
// namespaces.
func withoutChance(text string) string {
	text = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`).ReplaceAllString(text, "ID-OF-EVENT")
	for i, id := range regexp.MustCompile(`"id": "([0-9A-Za-z_-]{11})"`).FindAllStringSubmatch(text, -1) {
		if id[1] != "ID-OF-EVENT" {
			text = strings.ReplaceAll(text, id[1], fmt.Sprintf("id-of-ns-%02d", i))
		}
	}
	return strings.ReplaceAll(text, runtime.Version(), "GO")
}

// The help of every command is what it was.
func TestHelp(t *testing.T) {
	var got strings.Builder
	var walk func(c *cobra.Command, path []string)
	walk = func(c *cobra.Command, path []string) {
		s := shell{T: t}
		command := append(slices.Clone(path), "--help")
		out, _ := s.run(0, command...)
		own, _, _ := strings.Cut(out, "\nGlobal Flags:")
		fmt.Fprintf(&got, "$ zae-limiter %s\n%s\n\n", strings.Join(command, " "), strings.TrimSpace(own))
		for _, sub := range c.Commands() {
			if sub.Name() != "completion" && sub.Name() != "help" {
				walk(sub, append(slices.Clone(path), sub.Name()))
			}
		}
	}
	walk(root(&app{}), nil)
	cache, err := os.UserCacheDir()
	check.Must(t, err)
	golden(t, "testdata/help.txt", strings.ReplaceAll(got.String(), cache, "CACHE"))
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		check.Must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	check.Must(t, err)
	a, b := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			t.Fatalf("%s differs from line %d on:\n%s\nwant\n%s", file, i+1, strings.Join(a[i:min(i+8, len(a))], "\n"),
				strings.Join(b[min(i, len(b)):min(i+8, len(b))], "\n"))
		}
	}
	check.MustEqual(t, len(a), len(b), "%s has lines", file)
}
