package main

import (
	"bytes"
	"context"
	_ "embed" // of openapi.yaml
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/limiter"
)

//go:embed openapi.yaml
var openAPI []byte

// api is the HTTP API that openapi.yaml describes.
type api struct {
	limiter *limiter.Limiter
	peeker  *admin.Namespace
	leases  *leases
	report  func(error) // for errors that no answer contains; it must be quick
}

func (s *api) register(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/acquire", post(s, s.acquire))
	mux.HandleFunc("POST /v1/settle", post(s, s.settle))
	mux.HandleFunc("POST /v1/release", post(s, s.release))
	mux.HandleFunc("POST /v1/peek", post(s, s.peek))
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(openAPI)
	})
}

type acquireBody struct {
	Entity       string        `json:"entity"`
	Resource     string        `json:"resource"`
	Costs        limiter.Costs `json:"costs"`
	Class        string        `json:"class"`
	LeaseSeconds int           `json:"lease_seconds"`
}

// longestLease is the largest lease_seconds.
const longestLease = 86_400

func (s *api) acquire(ctx context.Context, in acquireBody) (any, error) {
	if in.LeaseSeconds < 0 || in.LeaseSeconds > longestLease {
		return nil, bad(fmt.Errorf("lease_seconds is %d, want 0 to %d", in.LeaseSeconds, longestLease))
	}
	holds := in.LeaseSeconds > 0
	if holds && !s.leases.reserve() {
		return nil, fmt.Errorf("%w: %d leases are held", limiter.ErrUnavailable, cap(s.leases.room))
	}
	r := limiter.Request{Entity: in.Entity, Resource: in.Resource, Costs: in.Costs, Class: in.Class}
	lease, err := s.limiter.Acquire(ctx, r)
	if err != nil && holds {
		s.leases.free()
	}
	if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
		return nil, httplimit.Denial{LimitError: denied, Request: r}
	}
	if err != nil {
		return nil, err
	}
	// The limits have the same form as in a denial.
	as := httplimit.Denial{LimitError: &limiter.LimitError{Statuses: lease.Status()}, Request: r}
	out := struct {
		Charged bool                  `json:"charged"`
		Lease   string                `json:"lease,omitempty"`
		Limits  []httplimit.BodyLimit `json:"limits"`
	}{Charged: lease.Charged(), Limits: as.Body().Limits}
	if holds {
		out.Lease = s.leases.hold(lease, time.Duration(in.LeaseSeconds)*time.Second)
	}
	return out, nil
}

type settleBody struct {
	Lease string        `json:"lease"`
	Costs limiter.Costs `json:"costs"`
}

func (s *api) settle(ctx context.Context, in settleBody) (any, error) {
	return struct{}{}, s.leases.end(in.Lease, func(le *limiter.Lease) error {
		if err := le.Settle(in.Costs); err != nil {
			return err
		}
		return le.Commit(context.WithoutCancel(ctx)) // even if the client no longer waits
	})
}

type releaseBody struct {
	Lease string `json:"lease"`
}

func (s *api) release(ctx context.Context, in releaseBody) (any, error) {
	return struct{}{}, s.leases.end(in.Lease, func(le *limiter.Lease) error { return le.Rollback(ctx) })
}

type peekBody struct {
	Entity   string `json:"entity"`
	Resource string `json:"resource"`
}

type peekedLimit struct {
	Entity    string   `json:"entity_id"`
	Limit     string   `json:"limit_name"`
	Capacity  int64    `json:"capacity"`
	Available int64    `json:"available"`
	Held      int64    `json:"held"`
	FullAfter *float64 `json:"full_after_seconds"` // null: waiting does not help
}

// peekWithin bounds a peek, because reads are repeated for longer than the limiter's default for
// its calls.
const peekWithin = 2 * time.Second

func (s *api) peek(ctx context.Context, in peekBody) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, peekWithin)
	defer cancel()
	buckets, err := s.peeker.Peek(ctx, in.Entity, in.Resource)
	out := []peekedLimit{}
	for _, b := range buckets {
		for _, l := range b.Levels {
			one := peekedLimit{b.Entity, l.Name, l.Capacity, l.Remaining, l.Held, nil}
			if l.FullIn >= 0 {
				one.FullAfter = new(l.FullIn.Seconds())
			}
			out = append(out, one)
		}
	}
	return map[string]any{"limits": out}, err
}

// maxAPIBody is the longest body: names have at most a few hundred bytes, and limits are few.
const maxAPIBody = 64 << 10

// post returns a handler that calls do with a JSON body.
func post[In any](s *api, do func(context.Context, In) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		err := decode(http.MaxBytesReader(w, r.Body, maxAPIBody), &in)
		var out any
		if err == nil {
			out, err = do(r.Context(), in)
		}
		if err != nil {
			s.writeError(w, r, err)
			return
		}
		writeJSON(w, http.StatusOK, out)
	}
}

func decode(body io.Reader, in any) error {
	text, err := io.ReadAll(body)
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return &httplimit.Error{Status: http.StatusRequestEntityTooLarge, Err: err}
	}
	if err != nil {
		return bad(errors.New("the body ended early"))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return bad(fmt.Errorf("the body is not as openapi.yaml has it: %w", err))
	}
	if strings.ContainsRune(fmt.Sprint(in), utf8.RuneError) { // replaces invalid UTF-8: two names could become one
		return bad(errors.New("a string has U+FFFD, or is not UTF-8"))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bad(errors.New("the body has more than one JSON value"))
	}
	return nil
}

func bad(err error) error { return &httplimit.Error{Status: http.StatusBadRequest, Err: err} }

// writeError answers as httplimit does. It also explains invalid requests, because its clients are
// our own.
func (s *api) writeError(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errNoLease) {
		err = &httplimit.Error{Status: http.StatusNotFound, Err: err}
	}
	own, _ := errors.AsType[*httplimit.Error](err)
	denied, isDenied := errors.AsType[httplimit.Denial](err)
	switch {
	case isDenied:
		if len(denied.Statuses) > 0 {
			httplimit.RateLimit(w.Header(), denied.Statuses)
		}
		httplimit.WriteDenied(w, r, denied)
	case own != nil && own.Status == http.StatusBadRequest, errors.Is(err, limiter.ErrInvalid),
		errors.Is(err, limiter.ErrNoLimits):
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "bad_request", "message": err.Error()})
	default:
		if own == nil && !errors.Is(err, limiter.ErrDisabled) && !errors.Is(err, limiter.ErrTooLarge) {
			s.report(err)
		}
		httplimit.WriteFailed(w, r, err)
	}
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic("bug: " + err.Error()) // only values that can be encoded
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}
