package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write the golden files anew")

// What programs parse and people read is what it was, to the letter. Each script in testdata/printed plays on a
// table of its own: a comment says why, a command follows that may read lines after "<", and then what it prints,
// what it says after "--", and its status. ID(NAME) is the id of a namespace. "$ acquire" and the like store what the
// aggregator or a client would, "$ aws" changes the state of AWS, and "$ fails" has calls fail. The clock goes on by
// a second with each command. -update writes what is printed into the scripts.
func TestOutputMatchesTheScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/printed/*.txt")
	check.Must(t, err)
	check.MustEqual(t, len(scripts) > 0, true, "there are scripts")
	for _, file := range scripts {
		play := func(s *shell) {
			text, err := os.ReadFile(file)
			check.Must(t, err)
			got := s.play(strings.Split(strings.TrimSpace(string(text)), "\n"))
			check.Golden(t, file, withoutChance(got), *update)
		}
		switch filepath.Base(file) {
		case "aws.txt": // which time does not wait for
			play(onAWS(t, &anAWS{}))
			continue
		case "wrong.txt": // before anything is asked of AWS
			noAWS(t)
			play(&shell{T: t, table: limitertest.New(t)})
			continue
		}
		synctest.Test(t, func(t *testing.T) { play(newShell(t)) }) // a removal waits for the index
	}
}

// leaks are names of packages, types and constants, and "1" with a plural, which nobody is told.
var leaks = regexp.MustCompile(
	`admin: |limiter: [a-z]+: |limiter\.|manifest\.[a-z]|manifest: |line \d+: line|[^=\w]1 [a-z]+s\b|m0h0`)

// play returns a script with what its commands print now.
func (s *shell) play(lines []string) string {
	s.Helper()
	var got strings.Builder
	for len(lines) > 0 {
		line := lines[0]
		lines = lines[1:]
		fmt.Fprintln(&got, line)
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		s.table.Advance(time.Second)
		args, ok := strings.CutPrefix(command, "zae-limiter ")
		if !ok {
			s.has(command)
			continue
		}
		for s.stdin = ""; len(lines) > 0 && strings.HasPrefix(lines[0], "<"); lines = lines[1:] {
			fmt.Fprintln(&got, lines[0])
			s.stdin += strings.TrimPrefix(lines[0][1:], " ") + "\n"
		}
		out, errs, code := s.end(words(s.withIDs(args))...)
		if leak := leaks.FindString(strings.ReplaceAll(errs, "zae-limiter: ", "")); leak != "" {
			s.Errorf("%s tells %q:\n%s", command, leak, errs)
		}
		if errs != "" {
			out += "--\n" + errs
		}
		if out != "" && !strings.HasSuffix(out, "\n") { // a question that was answered
			out += "\n"
		}
		fmt.Fprintf(&got, "%s== %d\n", out, code)
		next := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "$ ") })
		end := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "== ") })
		if end >= 0 && (next < 0 || end < next) { // what was printed before
			lines = lines[end+1:]
		}
	}
	return got.String()
}

// withIDs replaces ID(NAME) by the id of a namespace of that name, also of one that is deleted.
func (s *shell) withIDs(args string) string {
	s.Helper()
	if !strings.Contains(args, "ID(") {
		return args
	}
	var ids []string
	for _, n := range prints[[]struct{ ID, Name string }](s, "namespace list --all") {
		ids = append(ids, "ID("+n.Name+")", n.ID)
	}
	return strings.NewReplacer(ids...).Replace(args)
}

// words are the arguments of a command; one in quotes may have blanks.
func words(command string) (out []string) {
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

// has stores what a command does not.
func (s *shell) has(what string) {
	s.Helper()
	month := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	switch what, of, _ := strings.Cut(what, " "); what {
	case "env": // NAME=VALUE
		name, value, _ := strings.Cut(of, "=")
		s.Setenv(name, value)
	case "aws": // the state of AWS, as JSON
		check.Must(s, json.Unmarshal([]byte(of), s.aws))
	case "fails": // an operation on the table, of which so many calls may be answered before; nothing: none
		operation, before, _ := strings.Cut(of, " after ")
		all := []limitertest.Trouble{{Operations: []string{operation}, Err: limiter.ErrUnavailable}}
		if times, err := strconv.Atoi(before); err == nil {
			all = append([]limitertest.Trouble{{Operations: []string{operation}, Times: times}}, all...)
		}
		s.table.Trouble(all[:len(all)*min(1, len(of))]...)
	case "fresh": // an empty table, not opened yet
		s.table = limitertest.New(s)
		s.memory = s.table
	case "refuse": // limits of acme that are not served
		it := config.Config{Namespace: s.table.Admin("").ID(), Entity: "acme", Resource: "gpt-4"}.Item()
		it["l_rpm_cp"], it["l_rpm_ra"], it["l_rpm_rp"] = item.N(10), item.N(10), item.N(3600)
		it["l_rpm_sched"] = item.S("3s500")
		s.stores(it)
	case "acquire": // what acme takes, usage of two hours and a day, and a threshold
		ask := limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 9}}
		s.takes(ask)
		if _, err := s.table.Limiter(nil).Acquire(s.Context(), ask); !errors.Is(err, limiter.ErrLimited) {
			s.Fatalf("9 and 9 of 10: %v", err)
		}
		s.usage("hourly", time.Date(2024, 2, 1, 22, 0, 0, 0, time.UTC), 11)
		s.usage("hourly", time.Date(2024, 2, 1, 23, 0, 0, 0, time.UTC), 22)
		s.usage("daily", time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC), 33)
		s.threshold(412, 500, month)
	case "spend": // 60 dollars of a budget, of which 80 percent were spent once, and usage of two hours
		costs := limiter.Costs{"rpm": 1, "budget": limiter.USD(60)}
		s.takes(limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: costs})
		s.threshold(limiter.USD(400), limiter.USD(500), month)
		for hour := range 2 {
			at := fmt.Sprintf("2024-02-01T%02d:00:00Z", hour)
			s.stores(ledger.Snapshot{Namespace: s.table.Admin("").ID(), Entity: "acme", Resource: "gpt-4", Window: "hourly",
				Start: at, Part: at, Counts: map[string]int64{"budget": 12_500_000}, Events: 1}.Item())
		}
	case "bring": // a client takes one of a limit of its own
		s.takes(limiter.Request{Entity: "beta", Resource: "images", Costs: limiter.Costs{"mine": 1},
			Limits: []limiter.Limit{limiter.PerHour("mine", 5)}})
	default:
		s.Fatalf("not understood: %s", what)
	}
}

// threshold stores that 80 percent of a budget were spent.
func (s *shell) threshold(spent, quota int64, end time.Time) {
	s.Helper()
	s.stores(ledger.Threshold{Namespace: s.table.Admin("").ID(), Entity: "acme", Resource: "gpt-4", Limit: "budget",
		End: end.UnixMilli(), Percent: 80, Spent: spent, Quota: quota, At: "2024-02-01T22:10:00Z"}.Item())
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
	check.Golden(t, "testdata/help.txt", strings.ReplaceAll(got.String(), cache, "CACHE"), *update)
}
