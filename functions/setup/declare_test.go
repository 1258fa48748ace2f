package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

const (
	someLimits = `
namespace: default
system: {on_unavailable: allow, limits: {rpm: {capacity: 100}}}
resources: {gpt-4: {limits: {tpm: {capacity: 40000}}}}
entities: {acme: {resources: {gpt-4: {limits: {tpm: {capacity: 90000}}}}}}
`
	otherLimits = `
namespace: default
system: {limits: {rpm: {capacity: 50}}}
resources: {gpt-4: {limits: {tpm: {capacity: 40000}}}}
`
)

func declaring(kind cfn.RequestType, manifests ...any) cfn.Event {
	e := event(kind, "default")
	e.StackID = "arn:aws:cloudformation:eu-west-1:123456789012:stack/limits/guid"
	e.ResourceProperties[function.SetupManifests] = manifests
	return e
}

// opened returns the namespace "default" for an operator.
func opened(t *testing.T, db *memdynamo.DB) *admin.Namespace {
	t.Helper()
	all, err := admin.Open(t.Context(), twin{Lister: db}, "limits", nil)
	check.Must(t, err)
	ns, err := all.Namespace(t.Context(), "default")
	check.Must(t, err)
	return ns
}

// stored returns the limits of the namespace "default", one line per scope.
func stored(t *testing.T, db *memdynamo.DB) string {
	t.Helper()
	db.SetHook(nil)
	ns := opened(t, db)
	var lines []string
	for _, at := range []admin.Scope{{}, {Resource: "gpt-4"}, {Entity: "acme", Resource: "gpt-4"}} {
		c, err := ns.Config(t.Context(), at)
		if err != nil && !errors.Is(err, admin.ErrNotFound) {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprint(at, c.Limits, c.OnUnavailable))
	}
	return strings.Join(lines, "\n")
}

const (
	afterSome = "*/* [rpm: 100 per 1m0s, capacity 100] allow\n" +
		"*/gpt-4 [tpm: 40000 per 1m0s, capacity 40000] default\n" +
		"acme/gpt-4 [tpm: 90000 per 1m0s, capacity 90000] default"
	afterOther = "*/* [rpm: 50 per 1m0s, capacity 50] default\n" +
		"*/gpt-4 [tpm: 40000 per 1m0s, capacity 40000] default\n" +
		"acme/gpt-4 [] default"
)

// Declared limits are applied. Limits that no manifest declares any more are deleted. A stack
// without manifests changes no limits. Each change is recorded under the stack's name and logged.
// Limits that were already stored are not changes.
func TestManifestsAreApplied(t *testing.T) {
	h, db := rig(t)
	var log bytes.Buffer
	h.log = slog.New(slog.NewTextHandler(&log, nil))
	for i, step := range []struct {
		e       cfn.Event
		want    string
		changes int
		steps   string
	}{
		{declaring(cfn.RequestCreate, someLimits), afterSome, 3, `"create */gpt-4: `},
		{declaring(cfn.RequestUpdate, someLimits), afterSome, 0, `""`},
		{declaring(cfn.RequestUpdate, otherLimits), afterOther, 2, `"delete acme/gpt-4: `},
		{declaring(cfn.RequestUpdate), afterOther, 0, ""},
		{declaring(cfn.RequestUpdate, strings.ReplaceAll(otherLimits, "default", "other"), someLimits), afterSome, 2, ""},
	} {
		log.Reset()
		step.e.ResourceProperties[function.SetupNamespaces] = []any{"default", "other"}
		ask(t, h, step.e)
		if got := stored(t, db); got != step.want {
			t.Errorf("step %d:\n%s\nwant\n%s", i, got, step.want)
		}
		line := fmt.Sprintf("namespace=default changes=%d steps=%s", step.changes, step.steps)
		if declares := i != 3; strings.Contains(log.String(), line) != declares {
			t.Errorf("step %d: logged\n%s\nwant %s", i, log.String(), line)
		}
	}
	n := 0
	for e, err := range opened(t, db).AllEvents(t.Context(), time.Time{}, time.Time{}) {
		if n++; err != nil || e.Principal != declaring(cfn.RequestUpdate).StackID || e.At.UnixMilli() != now {
			t.Errorf("%+v, %v", e, err)
		}
	}
	check.Equal(t, n, 7)
}

// The role of the stack allows queries of the indexes, and none of the table. Manifests need every
// index: a description that is not declared any more is deleted only if its entity has no children.
func TestManifestsQueryEveryIndexAndNothingElse(t *testing.T) {
	h, db := rig(t)
	const described = "namespace: default\nentities: {org: {name: Org}, acme: {parent: org, " +
		"resources: {gpt-4: {limits: {tpm: {capacity: 90000}}}}}}\n"
	ask(t, h, declaring(cfn.RequestCreate, someLimits))
	l, err := limiter.Open(t.Context(), twin{Lister: db}, "limits", nil)
	check.Must(t, err)
	check.Must(t, check.Err(l.Acquire(t.Context(), limiter.Request{Entity: "acme", Resource: "gpt-4",
		Costs: limiter.Costs{"tpm": 1}})))
	var queried []string
	db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
		if op.Name == memdynamo.Query {
			queried = append(queried, op.Query.Index)
		}
		return true, nil
	})
	for _, manifest := range []string{described, someLimits, otherLimits} {
		ask(t, h, declaring(cfn.RequestUpdate, manifest))
	}
	slices.Sort(queried)
	check.Equal(t, fmt.Sprint(slices.Compact(queried)), "[GSI1 GSI2 GSI3 GSI4]")
}

// Another process applies a manifest at the same time, once. Then the deployment plans again.
func TestConflictingManifestsArePlannedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, db := rig(t)
		ask(t, h, event(cfn.RequestCreate, "default"))
		ns := opened(t, db)
		met := false
		var log bytes.Buffer
		h.log = slog.New(slog.NewTextHandler(&log, nil))
		db.SetHook(func(op memdynamo.Op) (bool, error) {
			if op.Writes != nil && !met {
				met = true
				plan, err := ns.Plan(t.Context(), admin.Manifest{Namespace: "default", Scopes: []admin.Config{{
					Limits: []limiter.Limit{limiter.PerMinute("rpm", 7)}}}})
				if err != nil {
					return false, err
				}
				if err := ns.Apply(t.Context(), plan); err != nil {
					return false, err
				}
			}
			return true, nil
		})
		e := declaring(cfn.RequestUpdate, someLimits)
		e.ResourceProperties[function.SetupAuditRetention] = "0" // so that the manifest is the first write
		ask(t, h, e)
		if got := stored(t, db); got != afterSome || !met {
			t.Errorf("met %t\n%s\nwant\n%s", met, got, afterSome)
		}
		if !strings.Contains(log.String(), "changes=3 ") {
			t.Errorf("each change counts once: %s", log.String())
		}
	})
}

func TestBadManifestsAreRefusedBeforeAnythingIsApplied(t *testing.T) {
	for text, want := range map[string]string{
		"namespace: default\nlimits: {}":          "limits",
		"namespace: other\nsystem: {limits: {}}":  `"other"`,
		"namespace: default\nsystem: {limits: 1}": "manifest",
	} {
		h, db := rig(t)
		_, _, err := h.Handle(t.Context(), declaring(cfn.RequestCreate, text))
		check.Says(t, err, want, "%q", text)
		if got := stored(t, db); strings.Contains(got, "per") {
			t.Errorf("%q: limits %s", text, got)
		}
	}
	h, db := rig(t) // after one that could be applied
	_, _, err := h.Handle(t.Context(), declaring(cfn.RequestCreate, someLimits, "namespace: default\nlimits: {}"))
	if got := stored(t, db); err == nil || strings.Contains(got, "per") {
		t.Errorf("error %v, limits %s", err, got)
	}
}

// manyLimits is a manifest of 200 changes.
func manyLimits() string {
	var text strings.Builder
	text.WriteString("namespace: default\nentities:\n")
	for i := range 200 {
		fmt.Fprintf(&text, "  t%d: {resources: {gpt-4: {limits: {rpm: {capacity: 1}}}}}\n", i)
	}
	return text.String()
}

// A manifest needs 20 ms for each change. If the time is too short, nothing changes, and the error
// says what to do. If the time is enough, or everything is stored already, it succeeds. The last
// five seconds are for the answer.
func TestManifestsNeedTimeForTheirChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, db := rig(t)
		ask(t, h, event(cfn.RequestCreate, "default"))
		handle := func(d time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			_, _, err := h.Handle(ctx, declaring(cfn.RequestUpdate, manyLimits()))
			return err
		}
		items := db.Len()
		err := handle(9*time.Second - time.Millisecond)
		check.Says(t, err, "200 to change, time for 199")
		check.Says(t, err, "zae-limiter apply")
		check.Equal(t, db.Len(), items, "it began")
		check.NoError(t, handle(9*time.Second), "200 changes in time for 200")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err = fits(ctx, 1)
		if err == nil || !strings.HasPrefix(err.Error(), "1 to change, time for 0 in the 0s that are left;") {
			t.Errorf("one change: %v", err)
		}
		over, cancel := context.WithTimeout(t.Context(), -time.Second)
		defer cancel()
		check.NoError(t, fits(over, 0), "nothing to change, after the end")
		check.NoError(t, handle(5*time.Second+time.Millisecond), "nothing to change")
	})
}

// A manifest that was begun is completed, even if the time left seems too short for the rest.
func TestBegunManifestsAreCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, db := rig(t)
		ask(t, h, event(cfn.RequestCreate, "default"))
		ctx, cancel := context.WithTimeout(t.Context(), margin+20*time.Second)
		defer cancel()
		writes := 0
		db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
			if op.Writes == nil {
				return true, nil
			}
			if writes++; writes == 4 {
				time.Sleep(17 * time.Second)
			}
			if writes >= 4 && writes < 15 {
				return false, memdynamo.Fail(store.Throttled)
			}
			return true, nil
		})
		_, _, err := h.Handle(ctx, declaring(cfn.RequestUpdate, manyLimits()))
		check.NoError(t, err)
	})
}
