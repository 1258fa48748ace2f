package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func TestManifests(t *testing.T) {
	s := newShell(t)
	file, write := aManifest(t)
	write("system: {on_unavailable: allow, limits: {rpm: {capacity: 100}}}\n" +
		"resources: {gpt-4: {limits: {tpm: {capacity: 500}}}}\n")
	s.says(3, "plan "+file, "+ create */gpt-4", "+ tpm: 500 per 1m0s", "on unavailable: allow", "2 changes")
	s.says(1, "apply "+file, "nothing was changed", "--yes")
	s.stdin = "n\n"
	s.says(1, "apply "+file, "not confirmed")
	s.stdin = "Yes" // and no more
	s.says(0, "apply "+file, "2 changes applied")
	s.says(0, "plan "+file, "nothing to change")
	s.says(0, "policy get", "allow")

	write("system: {limits: {rpm: {capacity: 200}}}\n")
	s.says(3, "plan "+file, "~ update */*", "- rpm: 100 per 1m0s", "+ rpm: 200 per 1m0s", "- delete */gpt-4")
	s.says(0, "apply --yes "+file, "2 changes applied")
	s.says(1, "plan no-such-file", "open no-such-file: no such file")
	s.says(1, "plan "+filepath.Dir(file), "is a directory")
	write("novelty: 1\n")
	s.says(2, "plan "+file, "novelty")
	s.stdin = "namespace: default\nsystem: {limits: {rpm: {capacity: 300}}}\n"
	s.says(2, "apply -", "--yes is needed")
	s.says(0, "apply - -y", "1 change applied")

	write("system: {limits: {rpm: {capacity: 300}}}\n")
	s.stdin = ""
	s.says(0, "apply "+file, "0 changes applied")
	write("system: {limits: {rpm: {capacity: 300}}}\n" +
		"resources: {gpt-4: {limits: {tpm: {capacity: 500}}}}\n")
	s.says(3, "plan "+file, "+ create */gpt-4", "1 change to apply: 1 to create; 1 unchanged")
	s.says(1, "apply "+file, "1 change to apply: 1 to create; 1 unchanged Apply 1 change?", "nothing was changed")
}

// An application that is cut short says how far it came, and the same command goes on.
func TestAnApplicationThatIsCutShort(t *testing.T) {
	s := newStored(t)
	s.says(0, "namespace register default")
	const many = 100
	text := "resources:\n"
	for i := range many {
		text += fmt.Sprintf("  r%d: {limits: {rpm: {capacity: 5}}}\n", i)
	}
	file, write := aManifest(t)
	write(text)
	s.db.SetSerialHook(func(o memdynamo.Op) (bool, error) {
		if len(o.Writes) > 0 {
			return false, memdynamo.Fail(store.Unavailable)
		}
		return true, nil
	})
	if out, errs, code := s.end("apply", "-y", file); code != failed || strings.Contains(errs, "applied") {
		t.Errorf("nothing could be stored: %d\n%s%s", code, out, errs)
	}
	s.db.SetSerialHook(func(o memdynamo.Op) (bool, error) {
		for _, w := range o.Writes {
			if strings.HasSuffix(w.Target().PK, "/RESOURCE#r7") {
				return false, memdynamo.Fail(store.Unavailable)
			}
		}
		return true, nil
	})
	out, errs, code := s.end("apply", "-y", file)
	told := regexp.MustCompile(`(\d+) of 100 changes applied; the same command goes on with the rest`)
	said := told.FindStringSubmatch(errs)
	if code != failed || said == nil || said[1] == "0" {
		t.Fatalf("%d\n%s%s", code, out, errs)
	}
	done, _ := strconv.Atoi(said[1])
	s.db.SetHook(nil)
	s.says(0, "apply -y "+file, fmt.Sprintf("%d changes applied", many-done))
}

// A change that was stored and whose answer was lost has not reached the buckets: the same command finds
// nothing to change, says that it goes on, and does.
func TestAnApplicationWhoseAnswersAreLost(t *testing.T) {
	s := newStored(t)
	s.says(0, "namespace register default")
	s.says(0, "limits set -y -r gpt-4 rpm=5")
	l, err := limiter.Open(t.Context(), s.memory, "zae-limiter",
		&limiter.Options{Now: s.memory.Now, Timeout: time.Hour})
	if err == nil {
		_, err = l.Acquire(t.Context(), limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 1}})
	}
	check.Must(t, err)
	file, write := aManifest(t)
	write("resources: {gpt-4: {limits: {rpm: {capacity: 7}}}}\n")
	s.db.SetSerialHook(func(o memdynamo.Op) (bool, error) {
		for _, w := range o.Writes {
			if strings.HasSuffix(w.Target().PK, "/RESOURCE#gpt-4") {
				return true, memdynamo.Fail(store.Unknown)
			}
		}
		return true, nil
	})
	s.says(failed, "apply -y "+file)
	s.db.SetHook(nil)
	const goesOn = "0 changes to apply; 1 unchanged; an application before is unfinished: all buckets are looked at"
	s.says(no, "plan "+file, goesOn)
	s.says(0, "apply -y "+file, goesOn)
	s.says(0, "peek acme gpt-4 -o csv", "acme,gpt-4,rpm,4,0,7,")
	s.says(0, "plan "+file)
}

// What others have stored does not steer the terminal of who looks at a plan.
func TestPlansAreHarmless(t *testing.T) {
	from := admin.Config{Limits: []limiter.Limit{limiter.PerMinute("r\x1b[2Kpm", 5)}}
	to := admin.Config{Limits: []limiter.Limit{limiter.PerMinute("t\x1b[2Kpm", 5)}}
	plan := &admin.Plan{Steps: []admin.Step{{Action: admin.ActionUpdate, From: from, To: to}}}
	got := diff(plan)
	if strings.Contains(got, "\x1b") || !strings.Contains(got, "- r?[2Kpm: 5") || !strings.Contains(got, "+ t?[2Kpm: 5") {
		t.Errorf("%q", got)
	}
}
