package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/limiter"
)

var limits = []limiter.Limit{limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 20_000)}

// gateway limits each tenant and streams what the model answers, as server-sent
// events.
type gateway struct {
	limiter *limiter.Limiter
	model   model
	tenants map[string]string // by key
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tenant, ok := g.tenants[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if !ok {
		http.Error(w, "unknown key", http.StatusUnauthorized)
		return
	}
	var p prompt
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&p); err != nil || p.MaxTokens < 1 {
		http.Error(w, "want prompt and max_tokens", http.StatusBadRequest)
		return
	}
	req := limiter.Request{
		Entity: tenant, Resource: "parrot-1", Limits: limits,
		Costs: limiter.Costs{"rpm": 1, "tpm": p.tokens() + p.MaxTokens}, // the most that it can become
	}
	out := &answer{w: w}
	err := g.limiter.Do(r.Context(), req, func(ctx context.Context, lease *limiter.Lease) error {
		return g.stream(ctx, out, lease, p)
	})
	if lost, ok := errors.AsType[*limiter.SettleError](err); ok {
		log.Printf("tenant %s: %v", tenant, lost) // the estimate stays taken
	}
	if refused, ok := errors.AsType[*refusedError](err); ok { // the lease has ended, and given back what it took
		if err := g.limiter.Drain(context.WithoutCancel(r.Context()), tenant, req.Resource, refused.after); err != nil {
			log.Printf("tenant %s: %v", tenant, err) // the next request is refused by the provider, too
		}
	}
	out.end(r, req, err)
}

// stream passes on what the model says. It settles the prompt before the model is called, and each
// piece before it is sent. That is no call: Do writes the last settlement, whatever ends the stream.
// So a client that leaves, at any time, pays for what it has caused. Only a model that fails by itself
// before its first word costs nothing.
func (g *gateway) stream(ctx context.Context, out *answer, lease *limiter.Lease, p prompt) error {
	if lease.Charged() { // not where a table that is down lets everything pass
		httplimit.RateLimit(out.w.Header(), lease.Status())
		httplimit.OpenAI("rpm", "tpm")(out.w.Header(), lease.Status())
	}
	used := p.tokens()
	if err := lease.Settle(limiter.Costs{"tpm": used}); err != nil {
		return err
	}
	err := g.model(ctx, p, func(text string, tokens int64) error {
		used += tokens
		if err := lease.Settle(limiter.Costs{"tpm": used}); err != nil {
			return err
		}
		return out.send(map[string]any{"text": text})
	})
	if errors.Is(err, errModel) && used == p.tokens() && ctx.Err() == nil {
		return errors.Join(err, lease.Settle(limiter.Costs{"rpm": 0, "tpm": 0}))
	}
	return err
}

// answer is what a client gets.
type answer struct {
	w       http.ResponseWriter
	started bool
}

func (a *answer) send(event any) error {
	if !a.started {
		a.started = true
		a.w.Header().Set("Content-Type", "text/event-stream")
	}
	text, err := json.Marshal(event)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(a.w, "data: %s\n\n", text); err != nil {
		return err // the client has gone away
	}
	return http.NewResponseController(a.w).Flush()
}

// end ends the answer with what came of it.
func (a *answer) end(r *http.Request, req limiter.Request, err error) {
	denied, isDenied := errors.AsType[*limiter.LimitError](err)
	refused, isRefused := errors.AsType[*refusedError](err)
	switch {
	case r.Context().Err() != nil: // nobody is there any more
	case isDenied:
		httplimit.RateLimit(a.w.Header(), denied.Statuses)
		httplimit.WriteDenied(a.w, r, httplimit.Denial{LimitError: denied, Request: req})
	case isRefused && !a.started:
		a.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refused.after.Seconds()))))
		http.Error(a.w, "the model is busy", http.StatusServiceUnavailable)
	case errors.Is(err, errModel) && a.started:
		_ = a.send(map[string]any{"error": "the model has failed"})
	case errors.Is(err, errModel):
		http.Error(a.w, "the model has failed", http.StatusBadGateway)
	case err != nil && !a.started:
		httplimit.WriteFailed(a.w, r, err)
	default:
		_ = a.send("[DONE]")
	}
}

// refusedError is the 429 of a provider, by its Retry-After. Each tenant has an account of its own there.
type refusedError struct{ after time.Duration }

func (e *refusedError) Error() string { return "the provider asks for a pause of " + e.after.String() }

// Is reports that it is a failure of the model.
func (e *refusedError) Is(target error) bool { return target == errModel }

// errModel is what models fail with by themselves: not when their client leaves, and not when they
// reject its prompt.
var errModel = errors.New("model failed")
