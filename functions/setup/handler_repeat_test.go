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

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// What trying again may change is repeated; what it does not change is told at once. A table that refuses
// rights, or does not answer, is waited for.
func TestWhatIsRepeated(t *testing.T) {
	kind := func(k store.Kind) error { return fmt.Errorf("namespace: %w", memdb.Fail(k)) }
	for name, c := range map[string]struct {
		err   error
		calls int
	}{
		"nothing":                       {nil, 1},
		"a bug":                         {errors.New("odd"), 1},
		"a throttle":                    {kind(store.Throttled), rounds},
		"a lost answer":                 {kind(store.Unknown), rounds},
		"silence":                       {kind(store.Unavailable), rounds},
		"no rights":                     {kind(store.Setup), rounds},
		"somebody else":                 {fmt.Errorf("apply: %w", admin.ErrBusy), rounds},
		"a bucket that nobody can read": {fmt.Errorf("%w: %w", admin.ErrReach, limiter.ErrUnreadable), 1},
		"not all is told":               {errors.Join(admin.ErrReach, kind(store.Unavailable)), rounds},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			err := repeat(t.Context(), func() error { calls++; return c.err })
			if calls != c.calls || !errors.Is(err, c.err) {
				t.Errorf("%s: %d calls, want %d: %v", name, calls, c.calls, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // a pause may be shorter than any time that is left
			calls = 0
			err = repeat(ctx, func() error { calls++; return kind(store.Throttled) })
			if calls != 1 || store.KindOf(err) != store.Throttled {
				t.Errorf("out of time: %d calls, %v", calls, err)
			}
		})
	}
}

// Whichever call fails for good, it is told what could not be set up, and the next deployment makes up for
// it.
func TestEveryCallFailsForGood(t *testing.T) {
	for at, more := 1, true; more; at++ {
		synctest.Test(t, func(t *testing.T) {
			h, db := rig(t)
			ask(t, h, event(cfn.RequestCreate, "default"))
			var log bytes.Buffer
			h.log = slog.New(slog.NewTextHandler(&log, nil))
			calls := 0
			db.SetHook(func(memdb.Op) (bool, error) {
				if calls++; calls >= at {
					return false, memdb.Fail(store.Unavailable)
				}
				return true, nil
			})
			_, _, err := h.Handle(t.Context(), declaring(cfn.RequestUpdate, someLimits))
			db.SetHook(nil)
			if err == nil && calls >= at {
				t.Errorf("call %d fails, and nobody is told", at)
			}
			if told := strings.Contains(log.String(), "table not set up"); told != (err != nil) {
				t.Errorf("call %d: the log tells %v of %v", at, told, err)
			}
			if more = err != nil; more && (!errors.Is(err, limiter.ErrUnavailable) && store.KindOf(err) != store.Unavailable ||
				!strings.Contains(err.Error(), `set up table "limits"`)) {
				t.Errorf("call %d: %v", at, err)
			}
			ask(t, h, declaring(cfn.RequestUpdate, someLimits))
			if got := stored(t, db); got != afterSome {
				t.Errorf("call %d:\n%s", at, got)
			}
		})
	}
}

// Buckets that were not reached at first are reached before the deployment is done, or it fails.
func TestBucketsThatWereNotReached(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h, db := rig(t)
			var log bytes.Buffer
			h.log = slog.New(slog.NewTextHandler(&log, nil))
			id := ask(t, h, event(cfn.RequestCreate, "default"))["default"]
			old := bucket.Limit{Name: "tpm", Capacity: 7_000, Amount: 7_000, Period: 60_000}
			put, b := table.Create(table.NewBucket{Namespace: id, Entity: "other", Resource: "gpt-4",
				Costs: table.Costs([]bucket.Limit{old}), Now: now, Draw: 1})
			db.Store(put.Item)
			queries := 0
			db.SetHook(func(op memdb.Op) (bool, error) {
				if op.Name == memdb.Query {
					if queries++; queries <= 4 || lasting {
						return false, memdb.Fail(store.Unavailable)
					}
				}
				return true, nil
			})
			_, _, err := h.Handle(t.Context(), declaring(cfn.RequestUpdate, someLimits))
			if errors.Is(err, admin.ErrReach) != lasting || !lasting && err != nil {
				t.Errorf("lasting %v: %v", lasting, err)
			}
			if !lasting && !strings.Contains(log.String(), "changes=3 ") { // all are stored, one at the second attempt
				t.Errorf("told %s", log.String())
			}
			db.SetHook(nil)
			if b, err = table.DecodeShard(read(t, db, b.Key())); err != nil {
				t.Fatal(err)
			}
			if tpm := b.State.Slots[b.State.Index("tpm")]; (tpm.Capacity == 40_000_000) == lasting {
				t.Errorf("lasting %v: the bucket has %+v", lasting, tpm)
			}
		})
	}
}

// A table of another schema is left alone, and a namespace that cannot be registered is named.
func TestWhatCannotBeSetUpIsNamed(t *testing.T) {
	h, db := rig(t)
	db.Store(config.Version{Schema: "1.0.0", ClientMin: "0.0.0"}.Item())
	_, _, err := h.Handle(t.Context(), declaring(cfn.RequestUpdate, someLimits))
	if err == nil || !strings.Contains(err.Error(), `namespace "default"`) {
		t.Errorf("%v", err)
	}
}

// The environment names the table; nothing else is needed, and nobody is asked.
func TestTheHandlerOfAnEnvironment(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	log := slog.New(slog.DiscardHandler)
	h, err := newHandler(t.Context(), func(k string) string { return map[string]string{"TABLE_NAME": "limits"}[k] }, log)
	if err != nil || h.table != "limits" || h.store == nil || h.db == nil || h.check == nil || h.log != log ||
		time.Since(h.now()) > time.Hour {
		t.Errorf("%+v, %v", h, err)
	}
	h, err = newHandler(t.Context(), func(string) string { return "" }, log)
	if err == nil || h != nil || !strings.Contains(err.Error(), "TABLE_NAME") {
		t.Errorf("without a table: %v", err)
	}
}
