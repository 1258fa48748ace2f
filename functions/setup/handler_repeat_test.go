package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Failures that a retry may resolve are repeated; others are reported at once. The function waits
// for a table that refuses permissions or does not answer.
func TestSetupIsRepeatedWhileThatMayHelp(t *testing.T) {
	kind := func(k store.Kind) error { return fmt.Errorf("namespace: %w", memdynamo.Fail(k)) }
	for name, c := range map[string]struct {
		err   error
		again bool
	}{
		"nothing":                       {nil, false},
		"a bug":                         {errors.New("odd"), false},
		"a throttle":                    {kind(store.Throttled), true},
		"a lost answer":                 {kind(store.Unknown), true},
		"silence":                       {kind(store.Unavailable), true},
		"no rights":                     {kind(store.Setup), true},
		"somebody else":                 {fmt.Errorf("apply: %w", admin.ErrBusy), true},
		"a bucket that nobody can read": {fmt.Errorf("%w: %w", admin.ErrReach, limiter.ErrUnreadable), false},
		"not all is reached":            {errors.Join(admin.ErrReach, kind(store.Unavailable)), true},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls, begin := 0, time.Now()
			err := repeat(t.Context(), func() error { calls++; return c.err })
			tried := time.Since(begin)
			if (calls > 1) != c.again || (tried > patience) != c.again || tried > patience+maxPause || !errors.Is(err, c.err) {
				t.Errorf("%s: %d calls in %s: %v", name, calls, tried, err)
			}
			if calls > 30 {
				t.Errorf("%s: %d calls, and the table may be throttled", name, calls)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // a pause may be shorter than any time left
			calls = 0
			err = repeat(ctx, func() error { calls++; return kind(store.Throttled) })
			if calls != 1 || store.KindOf(err) != store.Throttled {
				t.Errorf("out of time: %d calls, %v", calls, err)
			}
		})
	}
}

// A cancelled handler ends, whatever the time left, and whatever call it makes.
func TestCancelledHandlersEnd(t *testing.T) {
	for at, more := 1, true; more; at++ {
		synctest.Test(t, func(t *testing.T) {
			h, db := rig(t)
			calls, begin := 0, time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			db.SetHook(func(op memdynamo.Op) (bool, error) {
				if op.Done == nil {
					t.Errorf("%s goes on after the end", op.Name)
				}
				if calls++; calls < at {
					return true, nil
				}
				cancel()
				return false, memdynamo.Fail(store.Throttled)
			})
			_, _, err := h.Handle(ctx, declaring(cfn.RequestCreate, someLimits))
			if more = calls >= at; more && (err == nil || time.Since(begin) > 0) {
				t.Errorf("at call %d: %d calls in %s: %v", at, calls, time.Since(begin), err)
			}
		})
	}
}

// requestID is in the context of a request, and in each of its log lines.
type requestID struct{}

type logOfARequest struct {
	slog.Handler
	strange *[]string // lines without the id
}

func (l logOfARequest) Handle(ctx context.Context, line slog.Record) error {
	if ctx.Value(requestID{}) == nil {
		*l.strange = append(*l.strange, line.Message)
	}
	return l.Handler.Handle(ctx, line)
}

// Log lines have the context of their request, and so its id.
func TestLogLinesHaveTheIDOfTheirRequest(t *testing.T) {
	h, _ := rig(t)
	var strange []string
	h.log = slog.New(logOfARequest{h.log.Handler(), &strange})
	ctx := context.WithValue(t.Context(), requestID{}, true)
	for _, text := range []string{someLimits, "no manifest"} {
		_, _, err := h.Handle(ctx, declaring(cfn.RequestCreate, text))
		if (err == nil) != (text == someLimits) || len(strange) > 0 {
			t.Errorf("%s: %v, without its id: %q", text, err, strange)
		}
	}
}

// Buckets that were not reached at first are reached before the deployment succeeds, or it fails.
// That includes buckets that cannot be listed, and buckets of a change that is stored without an
// answer.
func TestUnreachedBucketsAreReachedLater(t *testing.T) {
	const (
		systemLimits = `
namespace: default
system: {on_unavailable: allow, limits: {rpm: {capacity: 100}}}
`
		fewerLimits = systemLimits + "resources: {gpt-4: {limits: {tpm: {capacity: 40000}}}}"
	)
	query := func(op memdynamo.Op, _ string) bool { return op.Name == memdynamo.Query }
	change := func(op memdynamo.Op, id string) bool {
		at := layout.EntityConfigKey(id, "acme", "gpt-4")
		return slices.ContainsFunc(op.Writes, func(w item.Write) bool { return w.Target() == at })
	}
	failed := map[bool]bool{} // by whether the call is a query
	once := func(op memdynamo.Op, id string) bool {
		first := (query(op, id) || change(op, id)) && !failed[query(op, id)]
		failed[query(op, id)] = failed[query(op, id)] || first
		return first
	}
	for name, c := range map[string]struct {
		first, then string // manifests
		entity      string // of the bucket
		fails       func(op memdynamo.Op, id string) bool
		times       int
		stored      bool // the call takes effect, but its answer is lost
		changes     int  // logged; 0: the deployment fails
		want        int64
	}{
		"listed late":            {"", someLimits, "other", query, 4, false, 3, 40_000},
		"never listed":           {"", someLimits, "other", query, math.MaxInt, false, 0, 7},
		"stored and listed late": {"", someLimits, "other", once, 2, false, 3, 40_000},
		"deleted, answers lost":  {someLimits, fewerLimits, "acme", change, 7, true, 1, 40_000},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, db := rig(t)
			var log bytes.Buffer
			h.log = slog.New(slog.NewTextHandler(&log, nil))
			first := declaring(cfn.RequestCreate)
			if c.first != "" {
				first = declaring(cfn.RequestCreate, c.first)
			}
			id := ask(t, h, first)["default"]
			old := bucket.Limit{Name: "tpm", Capacity: 7_000, Amount: 7_000, Period: 60_000}
			put, b := table.Create(table.NewBucket{Namespace: id, Entity: c.entity, Resource: "gpt-4",
				Costs: table.Costs([]bucket.Limit{old}), Now: now, Draw: 1})
			db.Store(put.Item)
			calls := 0
			db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
				if c.fails(op, id) {
					if calls++; calls <= c.times {
						return c.stored, errors.New("no answer")
					}
				}
				return true, nil
			})
			log.Reset()
			_, _, err := h.Handle(t.Context(), declaring(cfn.RequestUpdate, c.then))
			if lasting := c.changes == 0; errors.Is(err, admin.ErrReach) != lasting || !lasting && err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if line := fmt.Sprintf("changes=%d ", c.changes); c.changes > 0 && !strings.Contains(log.String(), line) {
				t.Errorf("%s: logged %s, want %s", name, log.String(), line)
			}
			db.SetHook(nil)
			if b, err = table.DecodeShard(read(t, db, b.Key())); err != nil {
				t.Fatal(err)
			}
			if tpm := b.State.Slots[b.State.Index("tpm")]; tpm.Capacity != 1000*c.want || calls == 0 {
				t.Errorf("%s: after %d failures the bucket has %+v", name, calls, tpm)
			}
		})
	}
}

// The environment names the table. Nothing else is needed, and nothing is called.
func TestTheEnvironmentNamesTheTable(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	log := slog.New(slog.DiscardHandler)
	h, err := newHandler(func(k string) string { return map[string]string{"TABLE_NAME": "limits"}[k] }, log)
	if err != nil || h.table != "limits" || h.store == nil || h.db == nil || h.check == nil || h.log != log ||
		time.Since(h.now()) > time.Hour {
		t.Errorf("%+v, %v", h, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.check(over, ""); !errors.Is(err, context.Canceled) { // the check ends with the request
		t.Errorf("a look after the end: %v", err)
	}
	db := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), `"limits"`) {
			t.Errorf("%s, %v", body, err)
		}
		answer, err := json.Marshal(map[string]any{"Table": asDeployed()})
		check.NoError(t, err)
		w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(answer)), 10))
		_, _ = w.Write(answer)
	}))
	defer db.Close()
	t.Setenv("AWS_ENDPOINT_URL", db.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	h, err = newHandler(func(k string) string { return map[string]string{"TABLE_NAME": "limits"}[k] }, log)
	check.Must(t, err)
	check.NoError(t, h.check(t.Context(), present))
	check.Says(t, h.check(t.Context(), "another"), "the functions read another")
	if _, err := h.store.Read(t.Context(), true, layout.VersionKey()); err != nil {
		t.Error(err)
	}
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	_, err = newHandler(func(k string) string { return map[string]string{"TABLE_NAME": "limits"}[k] }, log)
	if err == nil || !strings.HasSuffix(err.Error(), "want the region of the table") {
		t.Errorf("without a region: %v", err)
	}
	h, err = newHandler(func(string) string { return "" }, log)
	if err == nil || h != nil || !strings.Contains(err.Error(), "TABLE_NAME") {
		t.Errorf("without a table: %v", err)
	}
}
