package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// tenASecond asks for one of five tokens ten times.
var tenASecond = loadPlan{
	Table: "zae-limiter", Namespace: "default", Resource: "load", Prefix: "load-", Entities: 1, Processes: 1,
	Limits: []limiter.Limit{limiter.PerDay("rpd", 5)}, Costs: limiter.Costs{"rpd": 1}, Rate: 10, Arrivals: constant,
	Duration: time.Second,
}

// onFleet runs f in a bubble, on a table in memory.
func onFleet(t *testing.T, p loadPlan, f func(t *testing.T, table *limitertest.Table, fleet *fleet)) {
	synctest.Test(t, func(t *testing.T) {
		table := limitertest.NewLive(t)
		table.Admin("")
		fleet, err := (&app{memory: table}).fleet(t.Context(), p)
		check.Must(t, err)
		f(t, table, fleet)
	})
}

// While requests are made it is told what has become of them so far.
func TestLoadShowsItsProgress(t *testing.T) {
	onFleet(t, tenASecond, func(t *testing.T, table *limitertest.Table, fleet *fleet) {
		told := startProgress(io.Discard, false)
		opened := limitertest.Trouble{Operations: []string{"UpdateItem"}, Times: 1}
		table.Trouble(opened, limitertest.Trouble{Operations: opened.Operations, Err: limitertest.ErrDenied, Times: 2})
		early := make(chan string, 1)
		time.AfterFunc(350*time.Millisecond, func() { early <- told.text() })
		fleet.run(t.Context(), told)
		check.Equal(t, <-early, "4 of 10 asked: 2 admitted, 0 denied, 2 failed", "after 350 ms")
		check.Equal(t, told.text(), "10 of 10 asked: 5 admitted, 3 denied, 2 failed", "at the end")
	})
}

// Who is interrupted asks no more, and what was asked is answered.
func TestLoadIsInterrupted(t *testing.T) {
	for about, c := range map[string]struct {
		after time.Duration
		asked int
	}{"at the beginning": {0, 0}, "between requests": {550 * time.Millisecond, 6}, "late": {time.Hour, 10}} {
		onFleet(t, tenASecond, func(t *testing.T, table *limitertest.Table, fleet *fleet) {
			ctx, cancel := context.WithTimeout(t.Context(), c.after)
			defer cancel()
			table.Trouble(limitertest.Trouble{Operations: []string{"UpdateItem"}, Delay: 200 * time.Millisecond})
			got := fleet.run(ctx, startProgress(io.Discard, false))
			check.Equal(t, len(got.samples), c.asked, "%s: asked", about)
			for i, s := range got.samples {
				if due := time.Duration(i) * 100 * time.Millisecond; s.start != due || s.err != nil && i < 5 {
					t.Errorf("%s: request %d at %v: %v", about, i, s.start, s.err)
				}
			}
		})
	}
}

// If the first requests are all refused for a reason that lasts, no more are made.
func TestLoadEndsIfAllIsRefused(t *testing.T) {
	p := tenASecond
	p.Limits, p.Duration = nil, time.Hour
	onFleet(t, p, func(t *testing.T, table *limitertest.Table, fleet *fleet) {
		got := fleet.run(t.Context(), startProgress(io.Discard, false))
		check.Equal(t, len(got.samples), mostRefused, "requests, no limits")
	})
	p.Entities, p.Duration = 2, 10*time.Second
	onFleet(t, p, func(t *testing.T, table *limitertest.Table, fleet *fleet) {
		check.Must(t, table.Admin("").SetLimits(t.Context(), admin.Scope{Entity: "load-2"}, limiter.PerDay("rpd", 5)))
		got := fleet.run(t.Context(), startProgress(io.Discard, false))
		check.Equal(t, len(got.samples), 100, "requests, one of two entities has limits")
	})
	p.Limits = tenASecond.Limits
	onFleet(t, p, func(t *testing.T, table *limitertest.Table, fleet *fleet) {
		table.Trouble(limitertest.Trouble{Err: limiter.ErrUnavailable})
		got := fleet.run(t.Context(), startProgress(io.Discard, false))
		check.Equal(t, len(got.samples), 100, "requests, table down")
	})
}

// A load test that is interrupted before it has asked anything has no result.
func TestLoadIsInterruptedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := limitertest.NewLive(t)
		table.Admin("")
		a := &app{memory: table, errs: io.Discard, progress: startProgress(io.Discard, false)}
		p := tenASecond
		p.Arrivals = poisson
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		if said, err := a.load(ctx, p, ""); err == nil || said.value != nil {
			t.Errorf("%v, %v", said, err)
		}
	})
}

// A clock that is set back meanwhile makes no request end before it began.
func TestLoadWhenTheClockIsSet(t *testing.T) {
	onFleet(t, tenASecond, func(t *testing.T, _ *limitertest.Table, fleet *fleet) {
		for _, c := range [][2]int64{{4000, 5000}, {5000, 4000}} {
			reads := 0
			fleet.now = func() time.Time { reads++; return time.UnixMilli(c[reads-1]) }
			var s sample
			fleet.ask(t.Context(), fleet.limiters[0], &s, time.Now())
			if s.sent != 4000 || s.answered != 5000 || s.err != nil {
				t.Errorf("from %d to %d: sent at %d, answered at %d, %v", c[0], c[1], s.sent, s.answered, s.err)
			}
		}
	})
}

// Only a request that was sent counts as such: what is denied from memory was not.
func TestDenialsFromMemoryAreNotSent(t *testing.T) {
	onFleet(t, tenASecond, func(t *testing.T, _ *limitertest.Table, fleet *fleet) {
		got := fleet.run(t.Context(), startProgress(io.Discard, false))
		if got.writes != 5 { // one of each grant; that the bucket is not there yet is read
			t.Errorf("%d writes, want 5", got.writes)
		}
		for i, s := range got.samples {
			if granted := i < 5; s.calls != granted || errors.Is(s.err, limiter.ErrLimited) == granted {
				t.Errorf("request %d: sent %v, %v", i, s.calls, s.err)
			}
		}
	})
}

// The clients of a load test hear what time it is, and know who is on this machine.
func TestLoadersHearTheTime(t *testing.T) {
	anyCredentials(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amzn-Requestid", "1")
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	for _, c := range []struct {
		endpoint string
		here     bool
	}{{server.URL, true}, {"http://192.0.2.1", false}} {
		clocks := newClocks(1)
		db, err := (&app{endpoint: c.endpoint}).loader(t.Context(), clocks)
		if err != nil || clocks.here != c.here {
			t.Fatalf("%s: on this machine %v, %v", c.endpoint, clocks.here, err)
		}
		if !c.here {
			continue
		}
		keys := types.KeysAndAttributes{Keys: []map[string]types.AttributeValue{{}}}
		in := &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"quotas": keys}}
		if _, err := db.BatchGetItem(t.Context(), in); err != nil || !clocks.heard {
			t.Errorf("heard %v, %v", clocks.heard, err)
		}
	}
}

// A clock that is given is not corrected: on a machine that is minutes ahead, a load would credit that time to
// every bucket.
func TestLoadCorrectsTheClock(t *testing.T) {
	for memory, given := range map[memory]bool{nil: false, limitertest.New(t): true} {
		o := (&app{memory: memory}).loadOptions(&fleet{now: time.Now}, 0)
		check.Equal(t, o.Now != nil, given, "%T: a clock is given", memory)
	}
}

// Only some errors are expected to pass.
func TestWhichRefusalsLast(t *testing.T) {
	for err, want := range map[error]bool{nil: false, limiter.ErrLimited: false, limiter.ErrUnavailable: false,
		limiter.ErrUnknown: false, limiter.ErrNoLimits: true, limiter.ErrSetup: true} {
		check.Equal(t, lasts(err), want, "%v lasts", err)
	}
}
