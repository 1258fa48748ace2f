package docs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// What stands on the pages is compiled here; what needs no AWS runs too.

func openLimiter(ctx context.Context) (*limiter.Limiter, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	return limiter.Open(ctx, dynamodb.NewFromConfig(cfg), "zae-limiter", &limiter.Options{Register: true})
}

func makeTable(ctx context.Context) error {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	_, err = limitertable.Create(ctx, dynamodb.NewFromConfig(cfg), "zae-limiter")
	return err
}

func storeLimits(ctx context.Context, db admin.DynamoDB) error {
	t, err := admin.Open(ctx, db, "zae-limiter", nil)
	if err != nil {
		return err
	}
	ns, err := t.Namespace(ctx, "default")
	if err != nil {
		return err
	}
	everybody := admin.Scope{Resource: "gpt-4"}
	if err := ns.SetLimits(ctx, everybody, limiter.PerMinute("rpm", 600), limiter.PerMinute("tpm", 40_000)); err != nil {
		return err
	}
	acme := admin.Scope{Entity: "acme", Resource: "gpt-4"}
	return ns.SetLimits(ctx, acme, limiter.PerMinute("rpm", 6000), limiter.PerMinute("tpm", 400_000))
}

func applyManifest(ctx context.Context, ns *admin.Namespace, text []byte) error {
	m, err := manifest.Parse(text)
	if err != nil {
		return err
	}
	plan, err := ns.Plan(ctx, m)
	if err != nil {
		return err
	}
	err = ns.Apply(ctx, plan)
	return err
}

func TestStoredLimits(t *testing.T) {
	table := limitertest.New(t)
	table.Admin("default")
	if err := storeLimits(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	text := "namespace: default\nsystem: {limits: {rpm: {capacity: 100}}}\n"
	if err := applyManifest(t.Context(), table.Admin("default"), []byte(text)); err != nil {
		t.Fatal(err)
	}
	l := table.Limiter(nil)
	request := limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 6000}}
	if _, err := l.Acquire(t.Context(), request); err != nil {
		t.Error(err)
	}
}

// metrics.md: what a log is told.

// logging tells a log of what went wrong, and of the rest where that is asked for.
func logging(log *slog.Logger) func(context.Context, limiter.Event) {
	return func(ctx context.Context, e limiter.Event) {
		level := slog.LevelDebug
		if e.Err != nil && !errors.Is(e.Err, limiter.ErrLimited) {
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "limiter", "event", e)
	}
}

func TestLogging(t *testing.T) {
	var out strings.Builder
	table := limitertest.New(t)
	l := table.Limiter(&limiter.Options{Observe: logging(slog.New(slog.NewTextHandler(&out, nil)))})
	for range 2 { // granted, denied
		_ = l.Allow(t.Context(), "acme", limiter.PerMinute("rpm", 1))
	}
	if out.Len() > 0 {
		t.Errorf("of a good day: %s", &out)
	}
	table.Fail(limiter.ErrUnavailable)
	_ = l.Allow(t.Context(), "globex", limiter.PerMinute("rpm", 1))
	if !strings.Contains(out.String(), "globex") {
		t.Errorf("of a bad one: %q", &out)
	}
}

func outcomes(ctx context.Context, l *limiter.Limiter, r limiter.Request, log *slog.Logger) (proceed bool) {
	lease, err := l.Acquire(ctx, r)
	denied, isDenied := errors.AsType[*limiter.LimitError](err)
	switch {
	case err == nil && !lease.Charged():
		log.Warn("let through without a decision", "cause", lease.Cause())
		return true
	case err == nil:
		return true
	case isDenied:
		log.Info("denied", "limit", denied.Limit, "retry_after", denied.RetryAfter)
	case errors.Is(err, limiter.ErrUnknown):
		log.Error("taken or not, nobody knows: do not ask again for the same work", "err", err)
	case errors.Is(err, limiter.ErrUnavailable):
		log.Error("no decision, nothing was taken", "err", err)
	default:
		log.Error("a mistake of ours", "err", err)
	}
	return false
}

func TestOutcomes(t *testing.T) {
	table := limitertest.New(t)
	l := table.Limiter(nil)
	log := slog.New(slog.DiscardHandler)
	ask := limiter.Request{Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 1},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)}}
	for i, want := range []bool{true, false} {
		if got := outcomes(t.Context(), l, ask, log); got != want {
			t.Errorf("request %d: %v", i, got)
		}
	}
	_, _, _ = openLimiter, makeTable, callModel
}

// callModel and first are what the README begins with.
func callModel(context.Context) (tokens int64, err error) { return 1170, nil }

func first(ctx context.Context, db limiter.DynamoDB) error {
	l, err := limiter.Open(ctx, db, "zae-limiter", &limiter.Options{Register: true})
	if err != nil {
		return err
	}
	r := limiter.Request{Entity: "tenant-7", Resource: "search", Costs: limiter.Costs{"rps": 1}}
	r.Limits = []limiter.Limit{limiter.PerSecond("rps", 20).WithCapacity(60)}
	lease, err := l.Acquire(ctx, r)
	if err != nil {
		return err
	}
	for _, s := range lease.Status() {
		fmt.Println(s.Limit, s.Remaining, "of", s.Capacity) // rps 59 of 60
	}
	return nil
}

func TestFirst(t *testing.T) {
	if err := first(t.Context(), limitertest.New(t)); err != nil {
		t.Error(err)
	}
}

// choosing-limits.md: limits by the clock.
func TestLimitsByTheClock(t *testing.T) {
	rpm := limiter.PerMinute("rpm", 60).During("* 9-16 * * 1-5", "Europe/Berlin", limiter.PerMinute("", 600))
	table := limitertest.New(t)
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	day := time.Date(2040, 3, 23, 0, 0, 0, 0, zone) // a Friday; on Sunday clocks are set forward
	for _, c := range []struct {
		at   time.Time
		want int64
	}{
		{day.Add(8*time.Hour + 59*time.Minute), 60}, {day.Add(9 * time.Hour), 600}, {day.Add(16 * time.Hour), 600},
		{day.Add(17 * time.Hour), 60}, {day.AddDate(0, 0, 1).Add(9 * time.Hour), 60},
		{time.Date(2040, 3, 26, 9, 0, 0, 0, zone), 600}, {time.Date(2040, 3, 26, 17, 0, 0, 0, zone), 60},
	} {
		table.Advance(c.at.Sub(table.Now()) + time.Second) // all clocks are past it by then
		lease, err := table.Limiter(nil).Acquire(t.Context(), limiter.Request{
			Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 1}, Limits: []limiter.Limit{rpm}})
		if err != nil {
			t.Fatal(err)
		}
		if s := lease.Status()[0]; s.Capacity != c.want || s.Refill != c.want || s.ChangesAfter <= 0 {
			t.Errorf("at %s: %+v, want %d", c.at, s, c.want)
		}
	}
}

// choosing-limits.md: limits over two resources.

func models(model string, micros int64) limiter.Request {
	return limiter.Request{
		Entity: "acme", Resource: "models", Costs: limiter.Costs{model: 1, "budget": micros},
		Limits: []limiter.Limit{limiter.PerMinute("large", 60), limiter.PerMinute("small", 600),
			limiter.Quota("budget", limiter.USD(500), limiter.Monthly(1, "UTC"))},
	}
}

// Two models share a budget, and each has requests of its own.
func TestLimitsOverTwoResources(t *testing.T) {
	l := limitertest.New(t).Limiter(nil)
	if _, err := l.Acquire(t.Context(), models("large", limiter.USD(300))); err != nil {
		t.Fatal(err)
	}
	lease, err := l.Acquire(t.Context(), models("small", limiter.USD(100)))
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]int64{}
	for _, s := range lease.Status() {
		left[s.Limit] = s.Remaining
	}
	if left["large"] != 59 || left["small"] != 599 || left["budget"] != limiter.USD(100) {
		t.Errorf("left are %v", left)
	}
	_, err = l.Acquire(t.Context(), models("large", limiter.USD(101)))
	if denied, ok := errors.AsType[*limiter.LimitError](err); !ok || denied.Limit != "budget" {
		t.Errorf("above the shared budget: %v", err)
	}
	if err := lease.Settle(limiter.Costs{"small": 700}); err != nil {
		t.Fatal(err)
	}
	if err := lease.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = l.Acquire(t.Context(), models("large", 0))
	if denied, ok := errors.AsType[*limiter.LimitError](err); !ok || denied.Limit != "small" {
		t.Errorf("while a limit is in debt that it does not name: %v", err)
	}
}

// testing.md: a table in trouble.
func TestTableInTrouble(t *testing.T) {
	table := limitertest.New(t)
	l := table.Limiter(nil)
	ask := limiter.Request{
		Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 1},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)},
	}
	table.Trouble(limitertest.Trouble{Operations: []string{"PutItem", "UpdateItem"}, Err: limitertest.ErrDenied})
	if _, err := l.Acquire(t.Context(), ask); !errors.Is(err, limiter.ErrSetup) {
		t.Errorf("without the right to write: %v", err)
	}
	table.Trouble(
		limitertest.Trouble{Operations: []string{"BatchGetItem"}, Delay: time.Millisecond},
		limitertest.Trouble{Err: limitertest.ErrThrottled, Times: 1},
	)
	if _, err := l.Acquire(t.Context(), ask); err != nil {
		t.Errorf("throttled once: %v", err)
	}
	table.Trouble() // no more
}
