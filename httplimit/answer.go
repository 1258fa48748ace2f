package httplimit

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// Denial is a denied request.
type Denial struct {
	*limiter.LimitError
	// Request is the denied request. Without it only the cost of the denying limit is known.
	Request limiter.Request
}

// Body is the JSON of a denial, with the fields of the Python zae-limiter. The wait is nil, and
// null in JSON, if waiting does not help: see limiter.LimitError.Never.
type Body struct {
	Error   string `json:"error"` // "rate_limit_exceeded"
	Message string `json:"message"`
	// Contended is true if no limit is exceeded, but too many others wrote to the bucket at the
	// same time.
	Contended         bool        `json:"contended"`
	RetryAfterSeconds *float64    `json:"retry_after_seconds"`
	RetryAfterMS      *int64      `json:"retry_after_ms"`
	Limits            []BodyLimit `json:"limits"`
}

// BodyLimit is one limit in force.
type BodyLimit struct {
	Entity       string  `json:"entity_id"`
	Resource     string  `json:"resource"`
	Limit        string  `json:"limit_name"`
	Kind         string  `json:"kind"` // "rate", "quota" or "in_flight"
	Capacity     int64   `json:"capacity"`
	RefillAmount int64   `json:"refill_amount"`
	RefillPeriod float64 `json:"refill_period_seconds"`
	Available    int64   `json:"available"`
	Requested    int64   `json:"requested"`
	// ResetsAtMS is when a quota is full again, in milliseconds since 1970 by DynamoDB's clock. It
	// is left out if that is not known.
	ResetsAtMS        int64    `json:"resets_at_ms,omitempty"`
	Exceeded          bool     `json:"exceeded"`
	RetryAfterSeconds *float64 `json:"retry_after_seconds"` // 0: it would cover its cost now
	Soft              bool     `json:"soft"`                // it counts, and denies nothing
}

// Body returns the body of the answer.
func (d Denial) Body() Body {
	b := Body{Error: "rate_limit_exceeded", Message: d.Error(), Limits: []BodyLimit{}}
	if !d.Never() {
		b.RetryAfterSeconds, b.RetryAfterMS = new(d.RetryAfter.Seconds()), new(d.RetryAfter.Milliseconds())
	}
	costs := d.costs()
	b.Contended = len(d.Statuses) > 0
	for _, s := range d.Statuses {
		b.Contended = b.Contended && s.RetryAfter == 0
		kind := "rate"
		if s.InFlight {
			kind = "in_flight"
		} else if s.Refill == 0 && s.Capacity > 0 {
			kind = "quota"
		}
		resetsAt := int64(0)
		if kind == "quota" && s.ResetAfter > 0 && !never(s.ResetAfter) {
			resetsAt = instant(s, s.ResetAfter).UnixMilli()
		}
		var retryAfter *float64
		if !never(s.RetryAfter) {
			retryAfter = new(s.RetryAfter.Seconds())
		}
		requested := costs[s.Limit]
		if costs == nil && s.Limit == d.Limit {
			requested = d.Wanted
		}
		b.Limits = append(b.Limits, BodyLimit{
			Entity: s.Entity, Resource: s.Resource, Limit: s.Limit, Kind: kind, Capacity: s.Capacity, RefillAmount: s.Refill,
			RefillPeriod: s.Period.Seconds(), Available: s.Remaining, Requested: requested, ResetsAtMS: resetsAt,
			Exceeded: s.RetryAfter != 0, RetryAfterSeconds: retryAfter, Soft: s.Soft,
		})
	}
	return b
}

// costs is what the part of the request that was denied asked for, nil if that is not known.
func (d Denial) costs() limiter.Costs {
	if i := slices.IndexFunc(d.Request.Also, func(p limiter.Part) bool {
		return p.Entity == d.Entity && p.Resource == d.Resource
	}); i >= 0 {
		return d.Request.Also[i].Costs
	}
	if len(d.Request.Also) > 0 && d.Entity != d.Request.Entity { // a parent, of any part
		return nil
	}
	return d.Request.Costs
}

// WriteDenied answers with 429, Retry-After and a [Body].
func WriteDenied(w http.ResponseWriter, r *http.Request, d Denial) {
	expose(w.Header(), r, func() { retryAfter(w.Header(), d.LimitError) })
	write(w, http.StatusTooManyRequests, d.Body())
}

// WriteFailed answers with the status of an [*Error]. Other errors are 503 if trying again may
// help, 403 if the resource is switched off, 413 if no bucket can hold the costs, and otherwise
// 500. The body contains only the status, to hide the cause from clients.
func WriteFailed(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	word := "internal_error"
	own, ok := errors.AsType[*Error](err)
	switch {
	case ok && own.Status >= 400 && own.Status < 600:
		status, word = own.Status, strings.ToLower(strings.ReplaceAll(http.StatusText(own.Status), " ", "_"))
	case errors.Is(err, limiter.ErrUnavailable), errors.Is(err, limiter.ErrUnknown):
		status, word = http.StatusServiceUnavailable, "rate_limiter_unavailable"
		expose(w.Header(), r, func() { w.Header().Set("Retry-After", "1") })
	case errors.Is(err, limiter.ErrDisabled):
		status, word = http.StatusForbidden, "resource_disabled"
	case errors.Is(err, limiter.ErrTooLarge):
		status, word = http.StatusRequestEntityTooLarge, "request_too_large"
	}
	write(w, status, map[string]string{"error": word})
}

func write(w http.ResponseWriter, status int, body any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	text, err := json.Marshal(body)
	if err != nil {
		panic("bug: " + err.Error())
	}
	w.WriteHeader(status)
	w.Write(append(text, '\n')) // an error means that the client has gone away
}
