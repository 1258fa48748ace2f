package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/replay"
)

func TestStoredTextDoesNotSteerTheTerminal(t *testing.T) {
	check.Equal(t, harmless("a\x1b[2J\tb\u009b1m\n"), "a?[2J\tb?1m?")
	for _, c := range "\u202a\u202e\u2066\u2069\u200e\u061c\u2028\u2029\u200b\ufeff\u00ad\U000e0041\x7f\r" {
		check.Equal(t, harmless("a"+string(c)+"b"), "a?b", "%U", c)
	}
	const names = "Bücher 日本語 🙂 x\u0301"
	check.Equal(t, harmless(names), names)
}

// Names that others have chosen reach no terminal as they are, in no format and in no message.
func TestNamesOfOthersDoNotSteerTheTerminal(t *testing.T) {
	s := newShell(t)
	ns := s.table.Admin("")
	const name = "a\u202eb\u2028c\u009bd"
	e := admin.Entity{ID: "acme", Metadata: map[string]any{"note": name}}
	check.Must(t, check.Err(ns.CreateEntity(t.Context(), e)))
	s.stores(config.Entity{Namespace: ns.ID(), ID: "python", Name: name}.Item()) // which takes any name
	for _, args := range [][]string{
		{"entity", "get", "python"}, {"entity", "get", "python", "-o", "json"}, {"entity", "get", "acme", "-o", "json"},
		{"audit", "-e", "acme"},
		{"audit", "-e", "acme", "-o", "json"}, {"entity", "delete", "acme", "-y"}, {"limits", "get", "-e", name},
		{"limits", "get", "-e", name, "-o", "json"}, {"peek", name, "api"}, {"limits", "set", name},
		{"limits", "delete", "-e", name},
	} {
		out, errs, _ := s.end(args...)
		if out+errs == "" || strings.ContainsAny(out+errs, "\u202e\u2028\u009b") {
			t.Errorf("zae-limiter %q: %q %q", args, out, errs)
		}
	}
}

// A spreadsheet takes no name of a customer for a formula, and numbers stay numbers.
func TestExportsHoldNoFormulas(t *testing.T) {
	check.Equal(t, exported("\tx")+exported("\rx"), "'\tx'\rx")
	var r rows
	r.add(-5, int64(-6), -7.5, amount{-1_500_000, true}, "-8", cut("-9"), time.Duration(-1))
	got := strings.Join(each(r.body[0], exported), " ")
	check.Equal(t, got, "-5 -6 -7.5 -$1.50 '-8 '-9 -1ns")
}

// What may be cut in a table is not cut in an export.
func TestLongDetailsAreCut(t *testing.T) {
	long := cut(strings.Repeat("é", 300))
	if got := []rune(shown(long)); len(got) != 72 || got[71] != '…' {
		t.Errorf("%q", string(got))
	}
	if exported(long) != string(long) || shown(string(long)) != string(long) {
		t.Error("cut elsewhere")
	}
}

// fullDisk has no room for anything.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// tells runs a command whose output has no room. It must end in status 1 and say why.
func tells(t *testing.T, memory memory, args ...string) {
	t.Helper()
	var errs strings.Builder
	a := &app{in: strings.NewReader(""), out: fullDisk{}, errs: &errs, memory: memory}
	code := a.run(t.Context(), args)
	if code != failed || !strings.Contains(errs.String(), syscall.ENOSPC.Error()) {
		t.Errorf("zae-limiter %v on a full disk: %d\n%s", args, code, errs.String())
	}
}

// No command loses its output in silence.
func TestLostOutputIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a removal waits for the index
		noAWS(t)
		onTable(t, func(begin stored, args []string) {
			for _, format := range formats {
				args := slices.Concat(args, []string{"-o", format})
				if out, _, _ := begin.copy().end(args...); out != "" {
					tells(t, begin.copy().memory, args...)
				}
			}
		})
		for _, command := range []string{
			"", "--help", "help limits", "limits", "limits set --help", "completion bash", "completion zsh",
			"completion fish", "completion powershell", "__complete limits re", "table template terraform",
			"table policy read --arn " + tableARN,
		} {
			tells(t, nil, strings.Fields(command)...)
		}
	})
}

// What is asked of AWS is not lost either.
func TestOutputFromAWSIsNotLost(t *testing.T) {
	onAWS(t, &anAWS{There: true})
	for _, command := range []string{"table describe", "table create", "table policy read"} {
		for _, format := range formats {
			tells(t, nil, append(strings.Fields(command), "-o", format)...)
		}
	}
	onStack(t, &aStack{env: theEnv, objects: map[string]string{"failed/" + replay.BatchPrefix + "a": ""}})
	for _, format := range formats {
		tells(t, nil, "replay", "-o", format)
	}
	folder := withEmulator(t)
	for _, format := range formats {
		tells(t, nil, dev(folder, "--no-functions", "-o", format)...)
	}
}
