package main

import (
	"fmt"
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
