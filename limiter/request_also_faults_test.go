package limiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// A bucket that a request names twice, as a part and as a parent, is not charged once by the local share.
func TestNoBucketTwiceWithoutTheTable(t *testing.T) {
	w, l := family(t, 100, Options{OnUnavailable: PolicyLocal, LocalShare: 100})
	req := stored(Costs{"rpm": 6})
	must(t, l, req)
	twice := req
	twice.Also = []Part{{Entity: "org", Resource: gpt, Costs: Costs{"rpm": 60}}}
	req.Costs = Costs{"rpm": 1}
	w.down()
	for range desk.BreaksAfter + 1 { // also once the breaker is open
		must(t, l, req)
		lease, err := l.Acquire(t.Context(), twice)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), `"org/gpt-4"`) {
			t.Errorf("%v, %v: want no bucket that is charged twice", lease, err)
		}
	}
}

// A request of more parts than buckets are remembered.
func TestMorePartsThanLocalBuckets(t *testing.T) {
	w, l := newProcess(t, Options{OnUnavailable: PolicyLocal, LocalShare: 50, MaxBuckets: 1})
	req := func(kind string) Request {
		r := asks(Costs{"rpm": 1}, PerMinute("rpm", 10))
		r.Entity = kind
		for i := range maxParts - 1 {
			r.Also = append(r.Also, Part{Entity: fmt.Sprint(kind, i), Resource: gpt, Costs: r.Costs, Limits: r.Limits})
		}
		return r
	}
	if lease := must(t, l, req("a")); !lease.Charged() || len(lease.Status()) != maxParts {
		t.Fatal(lease)
	}
	w.down()
	for range 5 {
		if lease := must(t, l, req("a")); lease.Charged() || len(lease.Status()) != maxParts {
			t.Fatal(lease)
		}
	}
	deniedBy(t, l, req("a"))
	for _, kind := range []string{"b", "c", "a"} { // those before are full again
		w.advance(time.Hour)
		must(t, l, req(kind))
	}
}

// A part that is disabled is known, though the configuration of another cannot be read.
func TestDisabledPartIsKnownDespiteAnUnreadableOne(t *testing.T) {
	w, l := newProcess(t, Options{OnUnavailable: PolicyAllow})
	w.configure(l, "", "", rpm10)
	w.db.Store(config.Config{Namespace: l.namespace, Entity: everybody, Resource: gpt,
		Access: config.Access{Switch: config.SwitchedOff}}.Item())
	req := Request{Entity: acme, Resource: gpt, Costs: Costs{"rpm": 1},
		Also: []Part{{Entity: everybody, Resource: gpt, Costs: Costs{"rpm": 1}}}}
	check.MustBe(t, check.Err(l.Acquire(t.Context(), req)), ErrDisabled)
	w.down()
	req.Entity = "new"
	for range 5 {
		if lease, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrDisabled) {
			t.Errorf("%v, %v: want ErrDisabled", lease, err)
		}
	}
}

// A lease goes by the parts that were asked for, also if the caller uses their memory again.
func TestPartsUsedAgain(t *testing.T) {
	w, l := newProcess(t, Options{})
	req := alsoOf(4, 5)
	lease := must(t, l, req)
	req.Also[0].Entity = "bob"
	must(t, l, req)
	check.NoError(t, errors.Join(lease.Settle(Costs{"rpm": 1}), lease.SettlePart(everybody, gpt, Costs{"rpm": 7}),
		lease.Commit(t.Context())))
	w.wantSpent(l, "settled", map[string]int64{acme: 5, everybody: 7, "bob": 5})
}

// A throttled part keeps no other bucket from being asked.
func TestThrottledPartIsNobodyElsesTrouble(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, w *world, l *Limiter) {
		must(t, l, alsoOf(1, 1))
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if isWrite(op) && strings.Contains(op.Writes[0].Target().PK, "#"+everybody+"#") {
				return false, memdynamo.Fail(store.Throttled)
			}
			return true, nil
		})
		for range desk.BreaksAfter + 1 {
			check.MustBe(t, check.Err(l.Acquire(t.Context(), alsoOf(1, 1))), ErrUnavailable)
		}
		alone := alsoOf(1, 1)
		alone.Also = nil
		check.NoError(t, check.Err(l.Acquire(t.Context(), alone)), "acme alone")
		begin := time.Now()
		for _, of := range []string{acme, "bob"} {
			req := alsoOf(1, 1)
			req.Entity = of
			if _, err := l.Acquire(t.Context(), req); !errors.Is(err, ErrUnavailable) || time.Since(begin) > 0 {
				t.Errorf("%s with everybody: %v after %s", of, err, time.Since(begin))
			}
		}
		w.db.SetHook(nil)
		time.Sleep(desk.ProbesEvery)
		must(t, l, alsoOf(1, 1))
		must(t, l, alsoOf(1, 1))
	})
}

// The most that a request has is created in one transaction, and charged at once.
func TestMostPartsAndLevels(t *testing.T) {
	w, l := newProcess(t, Options{MaxBuckets: 3})
	w.configure(l, "", "", PerMinute("rpm", 100))
	var req Request
	for p := range maxParts {
		id := func(level int) string { return fmt.Sprintf("e%d-%d", p, level) }
		for level := range maxLevels {
			parent := ""
			if level < maxLevels-1 {
				parent = id(level + 1)
			}
			w.entity(l, id(level), parent)
		}
		if p == 0 {
			req = Request{Entity: id(0), Resource: gpt, Costs: Costs{"rpm": 1}}
			continue
		}
		req.Also = append(req.Also, Part{Entity: id(0), Resource: gpt, Costs: Costs{"rpm": int64(p + 1)}})
	}
	lease := must(t, l, req)
	must(t, l, req)
	for p := range req.Also {
		check.Must(t, lease.SettlePart(req.Also[p].Entity, gpt, Costs{"rpm": 0}))
	}
	check.Must(t, lease.Commit(t.Context()))
	want := map[string]int64{}
	for p := range maxParts {
		for level := range maxLevels {
			want[fmt.Sprintf("e%d-%d", p, level)] = map[bool]int64{true: 2, false: int64(p + 1)}[p == 0]
		}
	}
	w.wantSpent(l, "in all", want)
}

// A client that panics while it writes one part costs that request alone, and what the others took is given back.
func TestPartsAndPanics(t *testing.T) {
	w, l := newProcess(t, Options{})
	must(t, l, alsoOf(1, 1))
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if isWrite(op) && strings.Contains(op.Writes[0].Target().PK, "#"+everybody+"#") {
			panic("client")
		}
		return true, nil
	})
	check.Is(t, check.Err(l.Acquire(t.Context(), alsoOf(1, 1))), ErrUnknown)
	w.db.SetHook(nil)
	l.desks.Wait()
	w.wantSpent(l, "given back", map[string]int64{acme: 1, everybody: 1})
	must(t, l, alsoOf(1, 1))
}

// An event names the policy of a request of which the first part is bypassed.
func TestPolicyOfABypassedFirstPart(t *testing.T) {
	w := newWorld(t)
	var last Event
	l := w.process(Options{OnUnavailable: PolicyLocal, Observe: func(_ context.Context, e Event) {
		if e.Kind == EventAcquire {
			last = e
		}
	}})
	w.configure(l, "", "", rpm10)
	w.db.Store(config.Config{Namespace: l.namespace, Entity: acme, Resource: gpt,
		Access: config.Access{Switch: config.Bypassed}}.Item())
	req := stored(Costs{"rpm": 1})
	req.Also = []Part{{Entity: everybody, Resource: gpt, Costs: Costs{"rpm": 1}}}
	must(t, l, req)
	w.down()
	must(t, l, req)
	check.Equal(t, last.Policy, PolicyLocal, "granted by policy")
}
