package admin

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Events are listed from the newest, over pages, and the last one seen is a cursor.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	at := Scope{"acme", "gpt-4"}
	for i := range 7 {
		w.set(at, limiter.PerMinute("rpm", int64(i+1)))
		if i%2 == 0 {
			w.advance(-time.Millisecond) // also while the clock stands back
		}
	}
	about := Scope{Entity: "acme"}
	all := w.events(about)
	var capacities []any
	var want []string
	for _, e := range all {
		capacities = append(capacities, e.Details["limits"].([]any)[0].(map[string]any)["capacity"])
		want = append(want, e.ID)
	}
	check.Equal(t, fmt.Sprint(capacities), "[7 6 5 4 3 2 1]", "order %v", capacities)
	cursor := ""
	var ids []string
	for range 10 {
		n := 0
		for e, err := range w.ns.Events(t.Context(), about, cursor) {
			w.must(err)
			ids, cursor = append(ids, e.ID), e.ID
			if n++; n == 2 {
				break
			}
		}
	}
	check.Slices(t, ids, want, "by cursor")
}

// The events about everything are listed by time, between two instants, over pages and over
// more of them than one read returns.
func TestAllEvents(t *testing.T) {
	w := newWorld(t)
	begin := time.UnixMilli(w.now.Load())
	var want []string
	note := func(s Scope) {
		w.advance(time.Minute)
		want = append([]string{s.String()}, want...)
	}
	w.create(Entity{ID: "$org"})
	note(Scope{Entity: "$org"})
	for i := range 40 {
		for _, at := range []Scope{{}, {Resource: "$SYSTEM"}, {Entity: "acme", Resource: "gpt-4"}} {
			w.set(at, limiter.PerMinute("rpm", int64(i+1)))
			note(at)
		}
	}
	list := func(from, to time.Time) (got []string) {
		t.Helper()
		for e, err := range w.ns.AllEvents(t.Context(), from, to) {
			w.must(err)
			got = append(got, e.Scope.String())
		}
		return got
	}
	check.Slices(t, list(time.Time{}, time.Time{}), want)
	last := len(want) - 1
	check.Slices(t, list(begin, begin.Add(time.Minute)), want[last:], "in the first minute")
	check.Slices(t, list(begin.Add(time.Minute), begin.Add(3*time.Minute)), want[last-2:last],
		"in the two minutes after it")
	check.Slices(t, list(begin.Add(200*time.Minute), time.Time{}), nil, "later")
}

// An event that expires while events are listed is left out, and the others follow.
func TestEventsThatExpireMeanwhile(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.set(Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", int64(i+1)))
	}
	all := w.events(Scope{Resource: "gpt-4"})
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if op.Name == memdynamo.BatchGetItem {
			w.db.Delete(op.Keys[1])
		}
		return true, nil
	})
	got := collect(t, w.ns.AllEvents(t.Context(), time.Time{}, time.Time{}))
	w.db.SetHook(nil)
	check.Deep(t, got, slices.Concat(all[:1], all[2:]))
}

// An event names what it is about, by where it stands, also where another client says no more.
func TestEventsThatNameNoResource(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct {
		subject, resource string
		about, want       Scope
	}{
		{layout.AuditResourcePrefix + "gpt-4", "", Scope{Resource: "gpt-4"}, Scope{Resource: "gpt-4"}},
		{layout.AuditSystem, "", Scope{}, Scope{}},
		{layout.EntitySubject("acme"), "", Scope{Entity: "acme"}, Scope{Entity: "acme"}},
		{layout.EntitySubject("$RESOURCE:x"), "o3", Scope{Entity: "$RESOURCE:x"}, Scope{"$RESOURCE:x", "o3"}},
	} {
		w.db.Store(ledger.Audit{Namespace: w.ns.ID(), Subject: c.subject, ID: idAt(time.UnixMilli(start + int64(i))),
			At: "2023-11-14T22:13:20Z", Action: "limits_set", Principal: "bob", Resource: c.resource}.Item())
		want := Event{ID: idAt(time.UnixMilli(start + int64(i))), At: time.UnixMilli(start).UTC(), Action: "limits_set",
			Principal: "bob", Scope: c.want}
		check.Deep(t, w.events(c.about), []Event{want}, "about %s", c.about)
		all := collect(t, w.ns.AllEvents(t.Context(), time.Time{}, time.Time{}))
		if len(all) != i+1 || !reflect.DeepEqual(all[0], want) {
			t.Errorf("about everything: %+v, want %+v", all, want)
		}
	}
}
