package httplimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// tower is limiters one within the other, each with a limit of its own.
type tower struct {
	*limitertest.Table
	t       *testing.T
	limiter *limiter.Limiter
	settled []error
}

func newTower(t *testing.T) *tower {
	table := limitertest.New(t)
	return &tower{Table: table, t: t, limiter: table.Limiter(nil)}
}

// limit is a middleware with a limit of n an hour, of the entity and the name.
func (w *tower) limit(name string, n int64, fields ...httplimit.Fields) func(http.Handler) http.Handler {
	return httplimit.New(w.limiter, httplimit.Options{
		Request: func(r *http.Request) (limiter.Request, error) {
			if r.Header.Get("Fails-At") == name {
				return limiter.Request{}, &httplimit.Error{Status: http.StatusUnauthorized, Err: errors.New("no key")}
			}
			return limiter.Request{Entity: name, Resource: "r", Costs: limiter.Costs{name: 1},
				Limits: []limiter.Limit{limiter.PerHour(name, n)}}, nil
		},
		Fields:  fields,
		Settled: func(_ *http.Request, err error) { w.settled = append(w.settled, err) },
	})
}

// left returns what a limit has left of n, which is all of it if nobody has asked.
func (w *tower) left(name string, n int64) int64 {
	w.t.Helper()
	b, err := w.Admin("").Peek(w.t.Context(), name, "r")
	if errors.Is(err, limiter.ErrNoLimits) {
		return n
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return b[0].Levels[0].Remaining
}

// What happens between an outer limiter and an inner one that denies.
func TestTokensThatOuterLimitersKeep(t *testing.T) {
	inner := func(w *tower, n int64) http.Handler { return w.limit("key", n)(fine) }
	for _, c := range []struct {
		name string
		// handler stands between a limiter of 9 and an inner one that denies after its first request.
		handler func(w *tower, inner http.Handler) http.HandlerFunc
		spent   int64 // of the outer limiter, by a second request
	}{
		{"passes on", func(_ *tower, inner http.Handler) http.HandlerFunc { return inner.ServeHTTP }, 0},
		{"settles first", func(_ *tower, inner http.Handler) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if err := httplimit.Lease(r).Settle(nil); err != nil {
					panic(err)
				}
				inner.ServeHTTP(w, r)
			}
		}, 1},
		{"is served by another within", func(w *tower, inner http.Handler) http.HandlerFunc {
			other := w.limit("other", 9)(fine)
			return func(w http.ResponseWriter, r *http.Request) {
				other.ServeHTTP(w, r)
				inner.ServeHTTP(httptest.NewRecorder(), r)
			}
		}, 1},
		{"panics after a denial", func(w *tower, inner http.Handler) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				inner.ServeHTTP(w, r)
				if w.Header().Get("Retry-After") != "" {
					panic(http.ErrAbortHandler)
				}
			}
		}, 0},
		{"has a bad key", func(w *tower, inner http.Handler) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				r.Header.Set("Fails-At", "key")
				inner.ServeHTTP(w, r)
			}
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newTower(t)
			in := inner(w, 1)
			get(in, "") // it has none left
			before := w.left("ip", 9)
			func() {
				defer func() { _ = recover() }()
				get(w.limit("ip", 9)(c.handler(w, in)), "")
			}()
			if spent := before - w.left("ip", 9); spent != c.spent || len(w.settled) > 0 {
				t.Errorf("%d spent, want %d; %v", spent, c.spent, w.settled)
			}
		})
	}
}

// The fields cover all limiters that a request has passed: lists are joined, and fields of one limit
// are for the tightest, wherever it stands and whichever middleware asks for these fields.
func TestFieldsOfSeveralLimiters(t *testing.T) {
	const lists = `"ip";r=%d;t=%d, "key";r=%d;t=%d`
	both := []httplimit.Fields{httplimit.RateLimit, httplimit.XRateLimit}
	hidden := []httplimit.Fields{}
	for _, c := range []struct {
		name         string
		ip, key      int64
		outer, inner []httplimit.Fields
		list, limit  string // of the first answer
	}{
		{"the inner is tighter", 30, 3, both, both, fmt.Sprintf(lists, 29, 120, 2, 1200), "3"},
		{"the outer is tighter", 3, 30, both, both, fmt.Sprintf(lists, 2, 1200, 29, 120), "3"},
		{"only the outer asks for one", 30, 3, both, both[:1], fmt.Sprintf(lists, 29, 120, 2, 1200), "3"},
		{"only the inner asks for one", 3, 30, both[:1], both, fmt.Sprintf(lists, 2, 1200, 29, 120), "3"},
		{"each asks for another", 3, 30, both[:1], both[1:], fmt.Sprintf(lists, 2, 1200, 29, 120), "3"},
		{"the outer is hidden", 3, 30, hidden, both, `"key";r=29;t=120`, "30"},
		{"the inner is hidden", 30, 3, both, hidden, `"ip";r=29;t=120`, "30"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newTower(t)
			h := w.limit("ip", c.ip, c.outer...)(w.limit("key", c.key, c.inner...)(fine))
			wants(t, get(h, ""), 200, map[string]string{"RateLimit": c.list, "X-RateLimit-Limit": c.limit,
				"X-RateLimit-Remaining": map[string]string{"3": "2", "30": "29"}[c.limit]})
		})
	}
	w := newTower(t)
	h := w.limit("ip", 30, both...)(w.limit("key", 1, both...)(fine))
	get(h, "")
	wants(t, get(h, ""), 429, map[string]string{"RateLimit": fmt.Sprintf(lists, 28, 120, 0, 3600), "Retry-After": "3600",
		"RateLimit-Policy": `"ip";q=30;w=3600, "key";q=1;w=3600`, "X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0"})
}

// Of two limits with one name the fields have the tighter one. Fields are not lost behind a limiter that
// is not charged, or behind a handler that has a header of its own.
func TestFieldsOfSeveralLimitersOfOneName(t *testing.T) {
	table := limitertest.New(t)
	of := func(l *limiter.Limiter, entity string, n int64) func(http.Handler) http.Handler {
		return httplimit.New(l, httplimit.Options{Request: func(*http.Request) (limiter.Request, error) {
			return limiter.Request{Entity: entity, Resource: "r", Costs: limiter.Costs{"rpm": 1},
				Limits: []limiter.Limit{limiter.PerMinute("rpm", n)}}, nil
		}})
	}
	l := table.Limiter(nil)
	for _, c := range [][2]int64{{2, 10}, {10, 2}} {
		h := of(l, fmt.Sprint("ip", c), c[0])(of(l, fmt.Sprint("key", c), c[1])(fine))
		wants(t, get(h, ""), 200, map[string]string{"RateLimit": `"rpm";r=1;t=30`, "RateLimit-Policy": `"rpm";q=2;w=60`})
	}
	open := of(l, "ip", 2)(of(down(t, limiter.PolicyAllow), "key", 10)(fine))
	wants(t, get(open, ""), 200, map[string]string{"RateLimit": `"rpm";r=1;t=30`})
	late := of(l, "late", 2)(http.TimeoutHandler(of(l, "later", 10)(fine), time.Minute, ""))
	wants(t, get(late, ""), 200, map[string]string{"RateLimit": `"rpm";r=1;t=30`})
	if strings.Contains(get(late, "").Header().Get("RateLimit"), "10") {
		t.Error("the looser limit is in the fields")
	}
}
