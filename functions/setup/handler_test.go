package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

const now = 1_767_225_600_000 // 2026-01-01

func rig(t *testing.T) (*handler, *memdynamo.DB) {
	db := memdynamo.New(func() int64 { return now })
	return &handler{store: db, db: twin{Lister: db}, table: "limits",
		check: func(context.Context, string) error { return nil },
		now:   func() time.Time { return time.UnixMilli(now) },
		log:   slog.New(slog.NewTextHandler(t.Output(), nil))}, db
}

// twin is a table in memory for admin.
type twin struct {
	admin.DynamoDB // nil
	store.Lister
}

func event(kind cfn.RequestType, namespaces ...any) cfn.Event {
	return cfn.Event{RequestType: kind, ResourceProperties: map[string]any{
		function.SetupNamespaces: namespaces, function.SetupAuditRetention: "90",
	}}
}

func ask(t *testing.T, h *handler, e cfn.Event) map[string]string {
	t.Helper()
	id, data, err := h.Handle(t.Context(), e)
	if err != nil || id != "limits/setup" {
		t.Fatalf("id %q, error %v", id, err)
	}
	ids := map[string]string{}
	list, _ := data[function.SetupNamespaceIDs].(string)
	for pair := range strings.SplitSeq(list, ",") {
		name, ns, _ := strings.Cut(pair, "=")
		ids[name] = ns
	}
	return ids
}

func read(t *testing.T, db *memdynamo.DB, k item.Key) item.Item {
	t.Helper()
	items, err := db.Bare().Read(t.Context(), true, k)
	check.Must(t, err)
	return items[0]
}

// complete checks everything that a table must have after a deployment.
func complete(t *testing.T, db *memdynamo.DB, ids map[string]string) {
	t.Helper()
	v, err := config.DecodeVersion(read(t, db, layout.VersionKey()))
	if err != nil || v.Schema != namespace.Schema || v.Lambda != namespace.Client {
		t.Errorf("version %+v, error %v", v, err)
	}
	for name, id := range ids {
		for _, k := range []item.Key{layout.NamespaceKey(name), layout.NamespaceIDKey(id)} {
			ns, err := config.DecodeNamespace(read(t, db, k))
			if err != nil || ns.Name != name || ns.ID != id || ns.Status != config.NamespaceActive {
				t.Errorf("%v: %+v, error %v", k, ns, err)
			}
		}
		c, err := config.DecodeConfig(read(t, db, layout.SystemConfigKey(id)))
		if err != nil || c.AuditRetentionDays != 90 {
			t.Errorf("configuration of %q: %+v, error %v", name, c, err)
		}
	}
}

func TestSetUpIsIdempotent(t *testing.T) {
	h, db := rig(t)
	first := ask(t, h, event(cfn.RequestCreate, "default", "team-a"))
	check.MustEqual(t, len(first), 2, "ids %v", first)
	complete(t, db, first)
	again := ask(t, h, event(cfn.RequestUpdate, "default", "team-a", "team-b"))
	complete(t, db, again)
	for name, id := range first {
		check.Equal(t, again[name], id, name)
	}
	ask(t, h, event(cfn.RequestDelete))
	complete(t, db, again)
}

// The retention of audit events is stored from one day on. Zero leaves it unchanged.
func TestZeroDaysLeaveTheRetention(t *testing.T) {
	for _, days := range []string{"0", "1", "90"} {
		h, db := rig(t)
		e := event(cfn.RequestCreate, "default")
		e.ResourceProperties[function.SetupAuditRetention] = days
		ask(t, h, e)
		c, err := opened(t, db).Config(t.Context(), admin.Scope{})
		if n := int(c.AuditRetention / (24 * time.Hour)); fmt.Sprint(n) != days || (err == nil) != (n > 0) {
			t.Errorf("%s days are stored as %d, %v", days, n, err)
		}
	}
}

// Every call fails in every way: once, as long as a deployment's permissions may take to arrive,
// and forever. Failures that end are made up for. Otherwise the error says what could not be set
// up, and the next deployment does it.
func TestEveryCallFailsInEveryWay(t *testing.T) {
	for name, f := range map[string]struct {
		apply bool
		err   error
		lasts time.Duration // 0: one call
	}{
		"throttled": {false, memdynamo.Fail(store.Throttled), 0}, "in conflict": {false, memdynamo.Fail(store.Conflict), 0},
		"answer lost": {true, errors.New("lost"), 0}, "lost before": {false, memdynamo.Fail(store.Unknown), 0},
		"rights arrive late": {false, memdynamo.Fail(store.Setup), 8 * time.Second},
		"down":               {false, memdynamo.Fail(store.Unavailable), time.Hour},
	} {
		for at, more := 1, true; more; at++ {
			synctest.Test(t, func(t *testing.T) {
				h, db := rig(t)
				var log bytes.Buffer
				h.log = slog.New(slog.NewTextHandler(&log, nil))
				calls, begun := 0, time.Now()
				fails := func() bool {
					calls++
					return calls == at || calls > at && time.Since(begun) < f.lasts
				}
				h.check = func(context.Context, string) error {
					if fails() {
						return f.err
					}
					return nil
				}
				db.SetSerialHook(func(memdynamo.Op) (bool, error) {
					if fails() {
						return f.apply, f.err
					}
					return true, nil
				})
				_, _, err := h.Handle(t.Context(), declaring(cfn.RequestCreate, someLimits))
				db.SetHook(nil)
				more = calls >= at
				if lasts := more && f.lasts > patience; lasts != (err != nil) ||
					lasts != strings.Contains(log.String(), `"table not set up" err=`) || lasts &&
					(!errors.Is(err, limiter.ErrUnavailable) && store.KindOf(err) != store.Unavailable ||
						!strings.Contains(err.Error(), `set up table "limits"`)) {
					t.Errorf("%s at %d: %v, logged %s", name, at, err, log.String())
				}
				if err != nil {
					h.check = func(context.Context, string) error { return nil }
					ask(t, h, declaring(cfn.RequestUpdate, someLimits))
				}
				complete(t, db, map[string]string{"default": opened(t, db).ID()})
				if got := stored(t, db); got != afterSome {
					t.Errorf("%s at %d:\n%s\nwant\n%s", name, at, got, afterSome)
				}
			})
		}
	}
}

// An error names what could not be set up. Everything before it stays.
func TestSetupErrorsNameTheirCause(t *testing.T) {
	for want, breaks := range map[string]func(h *handler, db *memdynamo.DB){
		`DescribeTable: unavailable: access denied`: func(h *handler, _ *memdynamo.DB) {
			h.check = func(context.Context, string) error { return errors.New("access denied") }
		},
		`namespace "default": limiter: incompatible table: schema_version is "1.0.0"`: func(_ *handler, db *memdynamo.DB) {
			db.Store(config.Version{Schema: "1.0.0", ClientMin: "1.0.0"}.Item())
			fail(db, func(op memdynamo.Op) bool {
				if op.Writes != nil {
					t.Error("a table of another schema is written to")
				}
				return false
			})
		},
		`audit retention of namespace "default": `: func(_ *handler, db *memdynamo.DB) {
			fail(db, func(op memdynamo.Op) bool { return op.Name == memdynamo.UpdateItem })
		},
		`limits of namespace "default": `: func(_ *handler, db *memdynamo.DB) {
			fail(db, func(op memdynamo.Op) bool { return op.Name == memdynamo.Query })
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, db := rig(t)
			breaks(h, db)
			_, _, err := h.Handle(t.Context(), declaring(cfn.RequestUpdate, someLimits))
			if err == nil || !strings.HasPrefix(err.Error(), `set up table "limits": `+want) {
				t.Errorf("%v\nwant %s", err, want)
			}
		})
	}
}

// fail makes the selected calls fail.
func fail(db *memdynamo.DB, which func(memdynamo.Op) bool) {
	db.SetHook(func(op memdynamo.Op) (bool, error) {
		if which(op) {
			return false, memdynamo.Fail(store.Unavailable)
		}
		return true, nil
	})
}

func TestAnotherDeploymentIsFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, db := rig(t)
		done := false
		db.SetHook(func(op memdynamo.Op) (bool, error) {
			if op.Name == memdynamo.TransactWriteItems && !done {
				done = true
				theirs := config.Namespace{ID: "theirs", Name: "default", CreatedAt: layout.Timestamp(now)}
				check.NoError(t, db.Bare().Transact(t.Context(), "their-token", theirs.Register()))
			}
			return true, nil
		})
		if ids := ask(t, h, event(cfn.RequestCreate, "default")); ids["default"] != "theirs" {
			t.Errorf("ids %v, want the one that was first", ids)
		}
	})
}

// A Python aggregator's entry is removed from the version record. A record of 0.17 stays complete.
func TestPythonAggregatorsLeaveTheVersionRecord(t *testing.T) {
	for was, is := range map[string]string{"0.10.3": "", "0.17.0": "0.17.0"} {
		h, db := rig(t)
		old := config.Version{Schema: "0.10.0", Lambda: was, ClientMin: "0.0.0", UpdatedAt: layout.Timestamp(now)}
		check.Must(t, check.Err(db.Write(t.Context(), old.Create())))
		ask(t, h, event(cfn.RequestCreate, "default"))
		v, err := config.DecodeVersion(read(t, db, layout.VersionKey()))
		if err != nil || v.Lambda != is || v.Schema != "0.10.0" {
			t.Errorf("of %s: %+v, error %v, want lambda version %q and the rest as it was", was, v, err, is)
		}
	}
}

// An invalid request, or one for an invalid namespace, fails before any call of the table. A
// deletion is answered without checking its properties.
func TestInvalidRequestsFailBeforeTheTable(t *testing.T) {
	for _, c := range []struct {
		e    cfn.Event
		want string // empty: it succeeds
	}{
		{event("Rename", "default"), `RequestType="Rename": want Create, Update or Delete`},
		{event("", "default"), `RequestType="": want Create, Update or Delete`},
		{event("create", "default"), `RequestType="create"`},
		{event(cfn.RequestCreate, "a/b#c"), "Namespaces=[a/b#c]: want a list of names of letters"},
		{event(cfn.RequestUpdate, "default", "a,b=c"), "Namespaces=[default a,b=c]"},
		{event(cfn.RequestDelete, "a/b#c"), ""},
	} {
		h, db := rig(t)
		db.SetHook(func(op memdynamo.Op) (bool, error) {
			t.Errorf("%s: the table is called: %v", c.e.RequestType, op.Name)
			return true, nil
		})
		id, _, err := h.Handle(t.Context(), c.e)
		check.Equal(t, id, "limits/setup")
		check.Says(t, err, c.want)
	}
}

// TestATableOfAnotherShapeIsRefused: a table with another schema is refused before anything is
// written, with the differences.
func TestATableOfAnotherShapeIsRefused(t *testing.T) {
	wrong := &limitertable.DiffError{Table: "limits",
		Diffs: []string{"stream: is KEYS_ONLY, must be NEW_AND_OLD_IMAGES"}}
	for _, answer := range []error{wrong, limitertable.ErrNotFound} {
		h, db := rig(t)
		looks := 0
		h.check = func(context.Context, string) error { looks++; return answer }
		db.SetHook(func(op memdynamo.Op) (bool, error) {
			t.Errorf("call %v of a table that is not as it must be", op.Name)
			return true, nil
		})
		id, _, err := h.Handle(t.Context(), event(cfn.RequestUpdate, "default"))
		if !errors.Is(err, answer) || looks != 1 || id != "limits/setup" { // another id would replace the resource
			t.Errorf("%q, error %v after %d looks, want %v at once", id, err, looks, answer)
		}
	}
}

// described is a table with a fixed description.
type described struct {
	limitertable.DynamoDB // nil
	table                 types.TableDescription
}

func (d described) DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options),
) (*dynamodb.DescribeTableOutput, error) {
	return &dynamodb.DescribeTableOutput{Table: &d.table}, nil
}

func (described) DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options),
) (*dynamodb.DescribeTimeToLiveOutput, error) {
	return &dynamodb.DescribeTimeToLiveOutput{}, nil
}

// Ids are left out if they do not fit into an answer of CloudFormation.
func TestIDsThatDoNotFitAreLeftOut(t *testing.T) {
	for last, listed := range map[int]bool{1: true, 36: true, 37: false, 43: false} { // letters of the last name
		h, _ := rig(t)
		var names []any
		for i := range 54 {
			names = append(names, fmt.Sprintf("%s-%02d", strings.Repeat("n", 40), i))
		}
		names = append(names, strings.Repeat("z", last))
		_, data, err := h.Handle(t.Context(), event(cfn.RequestCreate, names...))
		list := data[function.SetupNamespaceIDs].(string)
		if most := 3 << 10; err != nil || len(list) > most || (list != "") != listed {
			t.Errorf("last name of %d: %d bytes, %v", last, len(list), err)
		}
	}
}

const (
	old     = "arn:aws:dynamodb:eu-west-1:123456789012:table/limits/stream/2026-01-01T00:00:00.000"
	present = "arn:aws:dynamodb:eu-west-1:123456789012:table/limits/stream/2026-02-01T00:00:00.000"
)

// asDeployed is the description of a correct table, before time to live is enabled.
func asDeployed() types.TableDescription {
	must := limitertable.Deployed()
	d := types.TableDescription{
		TableName: aws.String("limits"), KeySchema: must.KeySchema, AttributeDefinitions: must.Attributes,
		LatestStreamArn: aws.String(present), StreamSpecification: &types.StreamSpecification{
			StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	}
	for _, i := range must.GlobalIndexes {
		d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, types.GlobalSecondaryIndexDescription{
			IndexName: i.IndexName, KeySchema: i.KeySchema, Projection: i.Projection})
	}
	return d
}

// TestWrongStreamsAreRefused: a stream without the needed images is refused, and so is one
// that the table no longer writes to.
func TestWrongStreamsAreRefused(t *testing.T) {
	for _, c := range []struct {
		view     types.StreamViewType
		off      bool
		read     string // the stream that the functions read
		problems string // empty: accepted
	}{
		{"NEW_AND_OLD_IMAGES", false, present, ""},
		{"NEW_AND_OLD_IMAGES", false, "", ""},
		{"KEYS_ONLY", false, present, "stream: is KEYS_ONLY, must be NEW_AND_OLD_IMAGES"},
		{"NEW_IMAGE", false, present, "stream: is NEW_IMAGE, must be NEW_AND_OLD_IMAGES"},
		{"NEW_AND_OLD_IMAGES", true, present, "stream: is off, must be NEW_AND_OLD_IMAGES"},
		{"NEW_AND_OLD_IMAGES", false, old, "stream: the functions read " + old + ", the table writes to " + present},
	} {
		d := described{table: asDeployed()}
		*d.table.StreamSpecification = types.StreamSpecification{StreamEnabled: aws.Bool(!c.off), StreamViewType: c.view}
		h, db := rig(t)
		h.check = func(ctx context.Context, stream string) error { return workable(ctx, d, "limits", stream) }
		e := event(cfn.RequestUpdate, "default")
		e.ResourceProperties[function.SetupStream] = c.read
		_, _, err := h.Handle(t.Context(), e)
		if (err == nil) != (c.problems == "") || err != nil && !strings.HasSuffix(err.Error(), `"limits" is not as it must be: `+c.problems) {
			t.Errorf("%+v: error %v", c, err)
		}
		if registered := read(t, db, layout.NamespaceKey("default")) != nil; registered != (c.problems == "") {
			t.Errorf("%+v: a namespace is registered: %v", c, registered)
		}
	}
}
