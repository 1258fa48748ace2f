package docs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/httplimit"
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

func handler(l *limiter.Limiter, mux http.Handler, tenantOf func(*http.Request) (string, error)) http.Handler {
	limit := httplimit.New(l, httplimit.Options{
		Request: func(r *http.Request) (limiter.Request, error) {
			tenant, err := tenantOf(r) // checks the key
			if err != nil {
				return limiter.Request{}, &httplimit.Error{Status: http.StatusUnauthorized, Err: err}
			}
			return limiter.Request{Entity: tenant, Resource: "api", Costs: limiter.Costs{"rpm": 1}}, nil
		},
		Skip: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
		Failed: func(w http.ResponseWriter, r *http.Request, err error) {
			slog.ErrorContext(r.Context(), "not limited", "err", err) // the answer does not say why
			httplimit.WriteFailed(w, r, err)
		},
	})
	return limit(mux)
}

func TestHandler(t *testing.T) {
	table := limitertest.New(t)
	if err := table.Admin("").SetLimits(t.Context(), admin.Scope{}, limiter.PerMinute("rpm", 1)); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler(table.Limiter(nil), http.NotFoundHandler(), func(r *http.Request) (string, error) {
		if r.Header.Get("X-Api-Key") == "" {
			return "", errors.New("no key")
		}
		return "acme", nil
	}))
	defer srv.Close()
	for i, want := range []int{http.StatusNotFound, http.StatusTooManyRequests, http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want != http.StatusUnauthorized {
			r.Header.Set("X-Api-Key", "secret")
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("request %d: %s, want %d", i, answer.Status, want)
		}
	}
}

type chunks interface {
	Next(context.Context) (text string, tokens int64, err error) // io.EOF at the end
}

func stream(ctx context.Context, l *limiter.Limiter, tenant string, expected int64, model chunks, w io.Writer) error {
	return l.Do(ctx, limiter.Request{
		Entity: tenant, Resource: "gpt-4", Costs: limiter.Costs{"rpm": 1, "tpm": expected},
	}, func(ctx context.Context, lease *limiter.Lease) error {
		var used int64
		for {
			text, tokens, err := model.Next(ctx)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err // nothing used yet: all is given back; else what was used stays settled
			}
			used += tokens
			if err := lease.Settle(limiter.Costs{"tpm": used}); err != nil { // no call: Do writes it once, at the end
				return err
			}
			if _, err := io.WriteString(w, text); err != nil {
				return err // the client has gone away
			}
		}
	})
}

type script struct {
	left int
	err  error
}

func (s *script) Next(context.Context) (string, int64, error) {
	if s.left == 0 {
		return "", 0, s.err
	}
	s.left--
	return "word ", 10, nil
}

type gone struct{ after int }

func (g *gone) Write(p []byte) (int, error) {
	if g.after--; g.after < 0 {
		return 0, errors.New("broken pipe")
	}
	return len(p), nil
}

func TestStream(t *testing.T) {
	for _, tt := range []struct {
		name  string
		model script
		reads int
		left  int64
	}{
		{"to its end", script{5, io.EOF}, 9, 950},
		{"the client goes away", script{5, io.EOF}, 2, 970},
		{"the model fails at once", script{0, errors.New("overloaded")}, 9, 1000},
		{"the model fails later", script{3, errors.New("overloaded")}, 9, 970},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := limitertest.New(t)
			ns := table.Admin("")
			limits := []limiter.Limit{limiter.PerHour("rpm", 10), limiter.PerHour("tpm", 1000)}
			if err := ns.SetLimits(t.Context(), admin.Scope{}, limits...); err != nil {
				t.Fatal(err)
			}
			_ = stream(t.Context(), table.Limiter(nil), "acme", 200, &tt.model, &gone{tt.reads})
			got, err := ns.Peek(t.Context(), "acme", "gpt-4")
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range got[0].Levels {
				if l.Name == "tpm" && l.Remaining != tt.left {
					t.Errorf("%d tokens are left, want %d", l.Remaining, tt.left)
				}
			}
		})
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

func serveLambda(ctx context.Context, work handlerFunc) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	l, err := limiter.Open(ctx, dynamodb.NewFromConfig(cfg), os.Getenv("TABLE"), &limiter.Options{Timeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(lambdaHandler(l, work))
}

type request struct{ Tenant string }

type handlerFunc func(context.Context, request) error

func lambdaHandler(l *limiter.Limiter, work handlerFunc) handlerFunc {
	return func(ctx context.Context, r request) error {
		return l.Do(ctx, limiter.Request{
			Entity: r.Tenant, Resource: "jobs", Costs: limiter.Costs{"rpm": 1},
		}, func(ctx context.Context, _ *limiter.Lease) error {
			return work(ctx, r)
		})
	}
}

func worker(ctx context.Context, l *limiter.Limiter, jobs <-chan request, work handlerFunc) error {
	for job := range jobs {
		_, err := l.Wait(ctx, limiter.Request{Entity: job.Tenant, Resource: "jobs", Costs: limiter.Costs{"rpm": 1}})
		if err != nil {
			return err
		}
		if err := work(ctx, job); err != nil {
			return err
		}
	}
	return nil
}

func TestWorkerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := limitertest.NewLive(t)
		limit := limiter.PerMinute("rpm", 60).WithCapacity(1)
		if err := table.Admin("").SetLimits(t.Context(), admin.Scope{}, limit); err != nil {
			t.Fatal(err)
		}
		l := table.Limiter(nil)
		begin, done := time.Now(), 0
		work := func(context.Context, request) error { done++; return nil }
		jobs := make(chan request, 3)
		jobs <- request{"acme"}
		jobs <- request{"acme"}
		jobs <- request{"acme"}
		close(jobs)
		if err := worker(t.Context(), l, jobs, work); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); done != 3 || took < 2*time.Second {
			t.Errorf("%d jobs within %v, want 3 within two seconds and more", done, took)
		}
		if err := lambdaHandler(l, work)(t.Context(), request{"globex"}); err != nil || done != 4 {
			t.Errorf("%v, %d done", err, done)
		}
	})
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

// TestQuotaIsEnforced is the test on the page about testing.
func TestQuotaIsEnforced(t *testing.T) {
	table := limitertest.New(t)
	l := table.Limiter(nil)
	ask := limiter.Request{
		Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 1},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)},
	}
	if _, err := l.Acquire(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	_, err := l.Acquire(t.Context(), ask)
	denied, ok := errors.AsType[*limiter.LimitError](err)
	if !ok {
		t.Fatalf("the second request of one per minute: %v", err)
	}
	table.Advance(denied.RetryAfter)
	if _, err := l.Acquire(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	table.Fail(limiter.ErrUnavailable)
	ask.OnUnavailable = limiter.PolicyAllow
	table.Advance(time.Minute)
	if lease, err := l.Acquire(t.Context(), ask); err != nil || lease.Charged() {
		t.Errorf("with the table down: charged %v, %v", lease.Charged(), err)
	}
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
	_, _, _, _ = openLimiter, makeTable, callModel, serveLambda
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

// testing.md: a table in trouble.
func TestTableInTrouble(t *testing.T) {
	table := limitertest.New(t)
	l := table.Limiter(nil)
	ask := limiter.Request{
		Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 1},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)},
	}
	table.Trouble(limitertest.Trouble{Operations: []string{"UpdateItem"}, Err: limitertest.ErrDenied})
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
