package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// A question that nobody answers ends with the command, and is no yes.
func TestAQuestionIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, terminal := io.Pipe()
		ctx, interrupt := context.WithCancel(t.Context())
		var errs strings.Builder
		a := &app{in: in, errs: &errs, interrupted: ctx.Done()}
		ended := make(chan error, 1)
		go func() { ended <- a.sure("Change it?") }()
		synctest.Wait()
		interrupt()
		synctest.Wait()
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "nothing was changed") || status(err) != failed ||
				errs.String() != "Change it? [y/N] \n" {
				t.Errorf("error %v after %q", err, errs.String())
			}
		default:
			t.Error("it still waits for an answer")
		}
		terminal.Close()
		synctest.Wait()
	})
}

// effect is what a command may do to what is stored.
type effect int

const (
	reads   effect = iota // leaves the table as it is
	adds                  // leaves every item and attribute there
	removes               // removes or overwrites something, so it shows that and asks
)

// played is a command with its effect. One that removes something shows leaves first.
type played struct {
	effect effect
	args   string
	leaves []string
	away   bool   // what it works on is not in the table in memory
	loses  string // an attribute that goes, of a command that undoes something
}

// effects has every command of the tool. A new one has to say what it does, and is held to it.
var effects = map[string]played{
	"apply": {effect: removes, args: "MANIFEST",
		leaves: []string{"- delete */images", "- budget: 5 per 1m0s", "- rpm: 10 per 1h0m0s"}},
	"audit":  {args: "--all"},
	"cost":   {args: "--rate 10"},
	"credit": {effect: adds, args: "acme gpt-4 rpm=1"},
	"raise": {effect: removes, args: "beta gpt-4 rpm --end",
		leaves: []string{"- rpm: 1 more until 2024-02-03T00:00:00Z"}},
	"dev":             {away: true},
	"disable":         {effect: removes, args: "-r gpt-4", leaves: []string{"- */gpt-4 enabled"}},
	"bypass":          {effect: removes, args: "-r gpt-4", leaves: []string{"- */gpt-4 enabled"}},
	"cascade":         {effect: removes, args: "off -r gpt-4", leaves: []string{"- */gpt-4 cascade: inherited"}},
	"enable":          {effect: removes, args: "-e acme", leaves: []string{"- acme/* disabled"}},
	"entity create":   {effect: adds, args: "new"},
	"entity get":      {args: "acme"},
	"entity children": {args: "org"},
	"entity move": {effect: removes, args: "acme --no-parent",
		leaves: []string{`- "acme" belongs to "org", and charges it`}},
	"limits get":     {args: "-r gpt-4"},
	"limits list":    {},
	"limits resolve": {args: "acme gpt-4"},
	"limits reach":   {effect: adds},
	"load":           {away: true},
	"namespace list": {args: "--all"},
	"namespace delete": {effect: removes, args: "prod",
		leaves: []string{`- namespace "prod", ID PROD, created 2024-02-02T00:00:00Z`}},
	"namespace purge": {effect: removes, args: "GONE",
		leaves: []string{`- namespace "gone", ID GONE, created 2024-02-02T00:00:00Z, deleted 2024-02-02T00:00:00Z, ` +
			"and everything in it"}},
	"namespace recover":  {effect: adds, args: "GONE", loses: "deleted_at"},
	"namespace register": {effect: adds, args: "new"},
	"peek":               {args: "acme gpt-4"},
	"plan":               {args: "MANIFEST"},
	"policy get":         {},
	"policy set": {effect: removes, args: "--on-unavailable block --audit-retention 7d",
		leaves: []string{"- on unavailable: allow", "- audit retention: 30 days"}},
	"replay":         {effect: removes, args: "--deliver", away: true},
	"reset":          {effect: removes, args: "acme gpt-4", leaves: []string{"- acme/gpt-4 rpm: 1 of 10 left, 9 used"}},
	"serve":          {away: true},
	"dashboard":      {away: true},
	"status":         {away: true},
	"table check":    {away: true},
	"table create":   {away: true},
	"table describe": {away: true},
	"table policy":   {away: true},
	"table repair":   {away: true},
	"table template": {away: true},
	"thresholds":     {args: "-e acme"},
	"top":            {args: "--every 1ms --rounds 1 --by namespace"},
	"usage":          {args: "-e acme"},
	"version":        {},
	"entity delete": {effect: removes, args: "acme", leaves: []string{`- "acme" belongs to "org", and charges it`,
		"- acme/* disabled", "- acme/gpt-4 rpm: 10 per 1h0m0s", "- acme/gpt-4 rpm: 1 of 10 left, 9 used"}},
	"limits delete": {effect: removes, args: "-e acme -r gpt-4", leaves: []string{"- acme/gpt-4 rpm: 10 per 1h0m0s"}},
	"limits set": {effect: removes, args: "-e acme -r gpt-4 rpm=5",
		leaves: []string{"- acme/gpt-4 rpm: 10 per 1h0m0s"}},
}

// leaf calls f for every command that does something, by its path below the root.
func leaf(f func(path string, c *cobra.Command)) {
	var walk func(c *cobra.Command, path string)
	walk = func(c *cobra.Command, path string) {
		for _, sub := range c.Commands() {
			walk(sub, strings.TrimSpace(path+" "+sub.Name()))
		}
		if len(c.Commands()) == 0 {
			f(path, c)
		}
	}
	walk(root(&app{}), "")
}

// furnished is a table in which every command finds something, what its manifest declares from now on, and
// what replaces MANIFEST and the names of namespaces in arguments by the file and by their IDs.
func furnished(t *testing.T) (s stored, manifest func(text string), real *strings.Replacer) {
	t.Helper()
	s = newStored(t)
	l, err := limiter.Open(t.Context(), s.memory, "zae-limiter",
		&limiter.Options{Register: true, Now: s.memory.Now, Timeout: time.Hour})
	check.Must(t, err)
	file, manifest := aManifest(t)
	manifest("resources: {images: {limits: {budget: {capacity: 5}}}}\n")
	for _, command := range []string{
		"entity create org", "entity create beta", "entity create acme --parent org --charge-parent",
		"namespace register prod", "namespace register gone", "limits set -y -r gpt-4 rpm=10/h",
		"limits set -y -e acme -r gpt-4 rpm=10/h", "raise beta gpt-4 rpm=1 --until 2024-02-03T00:00:00Z",
		"policy set -y --on-unavailable allow --audit-retention 30d", "apply -y " + file,
	} {
		s.says(0, command)
	}
	manifest("resources: {gpt-4: {limits: {rpm: {capacity: 7}}}}\n")
	lease, err := l.Acquire(t.Context(), limiter.Request{
		Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 9}})
	if err == nil {
		err = lease.Commit(t.Context())
	}
	check.Must(t, err)
	for _, command := range []string{"enable -y -r gpt-4", "disable -y -e acme", "namespace delete -y gone"} {
		s.says(0, command)
	}
	names := []string{"MANIFEST", file}
	table, err := admin.Open(t.Context(), s.memory, "zae-limiter", &admin.Options{Now: s.memory.Now})
	check.Must(t, err)
	for n := range table.Namespaces(t.Context()) {
		names = append(names, strings.ToUpper(n.Name), n.ID)
	}
	for n := range table.Orphans(t.Context()) {
		names = append(names, strings.ToUpper(n.Name), n.ID)
	}
	return s, manifest, strings.NewReplacer(names...)
}

// aManifest is the file of a manifest that declares nothing yet, and what has it declare something.
func aManifest(t *testing.T) (file string, declare func(text string)) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "limits.yaml")
	declare = func(text string) {
		check.Must(t, os.WriteFile(file, []byte("namespace: default\n"+text), 0o600))
	}
	declare("")
	return file, declare
}

// lost returns an item or attribute that was there before and is not any more, but one of
// the name that may go; or "".
func lost(before, after []item.Item, but string) string {
	now := map[item.Key]item.Item{}
	for _, it := range after {
		now[item.KeyOf(it)] = it
	}
	for _, it := range before {
		k := item.KeyOf(it)
		for _, attr := range slices.Sorted(maps.Keys(it)) {
			if _, ok := now[k][attr]; !ok && attr != but {
				return fmt.Sprintf("%v %s", k, attr)
			}
		}
	}
	return ""
}

// Every command that removes or overwrites something shows what leaves, and asks: without an
// answer, or with "no", nothing is changed and the status is 1. --yes answers, and what leaves
// is shown all the same. All other commands remove nothing and ask nothing.
func TestRemovingCommandsAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a removal waits for the index
		noAWS(t)
		begin, _, real := furnished(t)
		seen := map[string]bool{}
		leaf(func(path string, c *cobra.Command) {
			p, ok := effects[path]
			if seen[path] = true; strings.HasPrefix(path, "completion ") || path == "help" {
				return
			}
			if yes := c.Flags().Lookup("yes"); !ok || (yes != nil) != (p.effect == removes) {
				t.Errorf("zae-limiter %s: known %v, effect %v, --yes %v", path, ok, p.effect, yes)
				return
			}
			if p.away {
				return
			}
			args := strings.Fields(path + " " + real.Replace(p.args))
			if p.effect == removes {
				refuses(begin, p, real, args)
				return
			}
			s := begin.copy()
			out, errs, code := s.end(args...)
			if code != 0 && path != "plan" || strings.Contains(errs, "[y/N]") {
				t.Errorf("zae-limiter %v: %d\n%s%s", args, code, out, errs)
			}
			before, after := begin.db.Items(), s.db.Items()
			if gone := lost(before, after, p.loses); gone != "" || p.effect == reads && !reflect.DeepEqual(before, after) {
				t.Errorf("zae-limiter %v changes the table: lost %q", args, gone)
			}
		})
		for path := range effects {
			if !seen[path] {
				t.Errorf("there is no command %q", path)
			}
		}
	})
}

// refuses plays a command that removes something, with each answer.
func refuses(begin stored, p played, real *strings.Replacer, args []string) {
	begin.Helper()
	before := begin.db.Items()
	for _, stdin := range []string{"", "n\n", "y\n", "--yes"} {
		s := begin.copy()
		all := args
		if stdin == "--yes" {
			all, stdin = append(slices.Clone(args), "-y"), "n\n"
		}
		s.stdin = stdin
		out, errs, code := s.end(all...)
		said := out + errs
		for _, line := range p.leaves {
			if !strings.Contains(said, real.Replace(line)) {
				s.Errorf("zae-limiter %v does not say %q:\n%s", all, real.Replace(line), said)
			}
		}
		asked := strings.Contains(errs, "[y/N]")
		if changed := !reflect.DeepEqual(before, s.db.Items()); len(all) > len(args) || stdin == "y\n" {
			if asked == (len(all) > len(args)) || code != done || !changed {
				s.Errorf("zae-limiter %v: status %d, asked %v, changed %v\n%s", all, code, asked, changed, said)
			}
		} else if code != failed || !asked || changed || !strings.Contains(errs, "nothing was changed") ||
			stdin == "" && !strings.Contains(errs, "[y/N] \nzae-limiter: no answer") {
			s.Errorf("zae-limiter %v: status %d, asked %v, changed %v\n%s", all, code, asked, changed, said)
		}
	}
}

// An unreadable bucket is shown as unreadable, and removed after a yes. There is no question while the table does not
// answer.
func TestUnreadableBucketsAreRemovedAfterAYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a removal waits for the index
		s, _, _ := furnished(t)
		for _, it := range s.db.Items() {
			if strings.Contains(item.KeyOf(it).PK, "/BUCKET#acme#gpt-4") {
				it = maps.Clone(it)
				it["b_rpm_tk"] = item.S("odd")
				s.db.Store(it)
			}
		}
		for _, command := range []string{"reset acme gpt-4", "entity delete acme"} {
			odd := s.copy()
			odd.stdin = "y\n"
			out, errs, code := odd.end(strings.Fields(command)...)
			if code != 0 || !strings.Contains(errs, "what cannot be read") || !strings.Contains(errs, "[y/N]") {
				t.Errorf("zae-limiter %s: %d\n%s%s", command, code, out, errs)
			}
			odd.db.SetSerialHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) })
			if _, errs, code = odd.end(strings.Fields(command)...); code != failed || strings.Contains(errs, "[y/N]") {
				t.Errorf("zae-limiter %s on a table that does not answer: %d\n%s", command, code, errs)
			}
		}
	})
}

// onTable calls f for each command that plays on a table, with arguments for which it has something to do on
// the one that is given, and with a yes.
func onTable(t *testing.T, f func(begin stored, args []string)) {
	t.Helper()
	begin, _, real := furnished(t)
	leaf(func(path string, _ *cobra.Command) {
		p, ok := effects[path]
		if !ok || p.away {
			return
		}
		args := strings.Fields(path + " " + real.Replace(p.args))
		if p.effect == removes {
			args = append(args, "--yes")
		}
		f(begin, args)
	})
}

// Of each command, every call in turn has no answer. The command fails then, says what that
// was, and never claims that something was done. Only the list of the
// resources of which entities have limits decides nothing, and is put right by a later command.
func TestFailedCallIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a removal waits for the index
		onTable(t, func(begin stored, args []string) {
			for failing := int64(1); ; failing++ {
				s, spared := begin.copy(), false
				var calls atomic.Int64
				s.db.SetSerialHook(func(o memdynamo.Op) (bool, error) {
					if calls.Add(1) != failing {
						return true, nil
					}
					spared = o.Name == memdynamo.UpdateItem && o.Writes[0].Target().SK == "#ENTITY_CONFIG_RESOURCES"
					return false, memdynamo.Fail(store.Unavailable)
				})
				out, errs, code := s.end(args...)
				if calls.Load() < failing {
					break
				}
				if code != failed && !spared || !spared && !strings.Contains(errs, "zae-limiter: ") {
					t.Errorf("zae-limiter %v, call %d of %d without an answer: %d\n%s%s", args, failing,
						calls.Load(), code, out, errs)
				}
			}
		})
	})
}

// Limits that cannot be read can be replaced and removed, once somebody has said yes to that.
func TestUnreadableLimitsAreReplacedAfterAYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a removal waits for the index
		begin, _, _ := furnished(t)
		for _, it := range begin.db.Items() {
			if k := item.KeyOf(it); strings.HasSuffix(k.PK, "/RESOURCE#gpt-4") {
				it = maps.Clone(it)
				it["l_rpm_cp"] = item.S("odd")
				begin.db.Store(it)
			}
		}
		before := begin.db.Items()
		for _, c := range []struct{ command, says, after string }{
			{"limits set -r gpt-4 --replace rpm=7", "Replace the limits of */gpt-4, which cannot be read", "rpm 7"},
			{"limits delete -r gpt-4", "- */gpt-4 what cannot be read: ", "* gpt-4 enabled"},
		} {
			for _, answer := range []string{"n\n", "y\n"} {
				s := begin.copy()
				s.stdin = answer
				out, errs, code := s.end(strings.Fields(c.command)...)
				changed := !reflect.DeepEqual(before, s.db.Items())
				if yes := answer == "y\n"; !strings.Contains(errs, c.says) || changed != yes || (code == done) != yes {
					t.Errorf("zae-limiter %s, %q: %d, changed %v\n%s%s", c.command, answer, code, changed, out, errs)
				}
				if answer == "y\n" {
					s.says(0, "limits get -r gpt-4", c.after)
				}
			}
		}
		begin.stdin = "y\n"
		begin.says(failed, "limits set -r gpt-4 rpm=7", "--replace stores others in their place")
		begin.db.SetSerialHook(func(o memdynamo.Op) (bool, error) { // without an answer nobody sees what would leave
			if slices.ContainsFunc(o.Keys, func(k item.Key) bool { return strings.HasSuffix(k.PK, "/RESOURCE#gpt-4") }) {
				return false, memdynamo.Fail(store.Unavailable)
			}
			return true, nil
		})
		for _, command := range []string{"limits set -r gpt-4 --replace rpm=7", "limits delete -r gpt-4"} {
			if _, errs, code := begin.end(strings.Fields(command)...); code != failed || strings.Contains(errs, "[y/N]") {
				t.Errorf("zae-limiter %s on a table that does not answer: %d\n%s", command, code, errs)
			}
		}
	})
}

// A limit without numbers has a word in place of them.
func TestLinesOfLimitsWithoutNumbers(t *testing.T) {
	b := admin.Bucket{Entity: "a", Resource: "r", Levels: []admin.Level{{Limit: limiter.Unlimited("all"), Used: 7},
		{Limit: limiter.Blocked("none")}}}
	check.Slices(t, bucketLines(b), []string{"a/r all: unlimited, 7 used", "a/r none: blocked, 0 used"}, "lines")
}
