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

// everybody is the entity from which all requests of these tests also take.
const everybody = "everybody"

// alsoOf returns a request of acme, and of everybody, for rpm of gpt-4.
func alsoOf(own, all int64) Request {
	return Request{Entity: acme, Resource: gpt, Costs: Costs{"rpm": own}, Limits: []Limit{PerMinute("rpm", 10)},
		Also: []Part{{Entity: everybody, Resource: gpt, Costs: Costs{"rpm": all}, Limits: []Limit{PerMinute("rpm", 20)}}}}
}

// All parts are charged, or none: the denying one is named.
func TestSeveralKeysAreTakenTogether(t *testing.T) {
	for _, warm := range []bool{true, false} {
		w, l := newProcess(t, Options{})
		first := must(t, l, alsoOf(4, 5))
		if s := first.Status(); len(s) != 2 || s[0].Remaining != 6 || s[1].Remaining != 15 {
			t.Errorf("statuses: %v", s)
		}
		if !warm {
			l = w.process(Options{})
		}
		for by, req := range map[string]Request{acme: alsoOf(7, 1), everybody: alsoOf(1, 16)} {
			_, err := l.Acquire(t.Context(), req)
			if d, ok := errors.AsType[*LimitError](err); !ok || d.Entity != by || errors.Is(err, ErrUnknown) {
				t.Errorf("warm %v: %v, want a denial by %s", warm, err, by)
			}
			w.wantSpent(l, "denied by "+by, map[string]int64{acme: 4, everybody: 5})
		}
		must(t, l, alsoOf(6, 15))
		w.wantSpent(l, "all of it", map[string]int64{acme: 10, everybody: 20})
	}
}

// A part costs the same as a level of a cascade: one write, and no read. All parts are created
// together.
func TestPartsCostOneWriteEach(t *testing.T) {
	w, l := newProcess(t, Options{})
	w.configure(l, "", "", rpm10)
	req := Request{Entity: acme, Resource: gpt, Costs: Costs{"rpm": 1}, Also: []Part{
		{Entity: acme, Resource: "search", Costs: Costs{"rpm": 2}},
		{Entity: everybody, Resource: gpt, Costs: Costs{"rpm": 0}}}}
	if got := w.calls(func() { must(t, l, req) }); got != "map[BatchGetItem:4 TransactWriteItems:1]" {
		t.Errorf("cold: %s", got) // the limits of each part, and one look for other shards of all
	}
	var lease *Lease
	check.Equal(t, w.calls(func() { lease = must(t, l, req) }), "map[UpdateItem:3]", "warm")
	if s := lease.Status(); len(s) != 3 || s[0].Resource != gpt || s[1].Resource != "search" || s[2].Resource != gpt {
		t.Errorf("statuses: %v", s)
	}
	w.wantSpent(l, "twice", map[string]int64{acme: 2, everybody: 0})
}

// Each part cascades to the parents of its entity.
func TestSeveralKeysCascade(t *testing.T) {
	w, l := family(t, 100, Options{})
	w.entity(l, "bob", "team")
	w.entity(l, "team", "")
	req := Request{Entity: acme, Resource: gpt, Costs: Costs{"rpm": 3},
		Also: []Part{{Entity: "bob", Resource: gpt, Costs: Costs{"rpm": 2}}}}
	lease := must(t, l, req)
	w.wantSpent(l, "taken", map[string]int64{acme: 3, "org": 3, "bob": 2, "team": 2})
	check.Must(t, lease.Settle(Costs{"rpm": 5}))
	check.Must(t, lease.SettlePart("bob", gpt, Costs{"rpm": 1}))
	check.Must(t, lease.Commit(t.Context()))
	w.wantSpent(l, "settled", map[string]int64{acme: 5, "org": 5, "bob": 1, "team": 1})

	w.entity(l, "bob", "org")
	other := w.process(Options{})
	_, err := other.Acquire(t.Context(), req)
	if want := `Also[0] is "bob/gpt-4", want no part that charges "org/gpt-4" once more`; !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("one parent: %v, want %s", err, want)
	}
	w.wantSpent(l, "refused", map[string]int64{acme: 5, "org": 5, "bob": 1, "team": 1})
}

// If an entity cascades by the time of a charge, it is charged with its parent, which belongs to
// its part: settlements of that part apply to both, and not to the other part.
func TestChargeOfAPartThatCascadesSince(t *testing.T) {
	w, l := family(t, 100, Options{})
	w.entity(l, acme, "")
	lease := must(t, l, alsoOf(1, 5))
	w.entity(l, acme, "org")
	l.ForgetConfig()
	check.Must(t, lease.Charge(t.Context(), Costs{"rpm": 2}))
	w.wantSpent(l, "charged", map[string]int64{acme: 3, "org": 2, everybody: 5})
	check.Must(t, lease.SettlePart(everybody, gpt, Costs{"rpm": 7}))
	check.Must(t, lease.Settle(Costs{"rpm": 4}))
	check.Must(t, lease.Commit(t.Context()))
	w.wantSpent(l, "settled", map[string]int64{acme: 4, "org": 4, everybody: 7})
}

// How a lease of several parts ends: each part pays its own.
func TestLeasesOfSeveralKeysEnd(t *testing.T) {
	for _, c := range []struct {
		name     string
		end      func(*Lease) error
		own, all int64
	}{
		{"nothing said", func(le *Lease) error { return le.Commit(t.Context()) }, 4, 5},
		{"the first", func(le *Lease) error {
			return errors.Join(le.Settle(Costs{"rpm": 1}), le.Commit(t.Context()))
		}, 1, 5},
		{"the other", func(le *Lease) error {
			return errors.Join(le.SettlePart(everybody, gpt, Costs{"rpm": 7}), le.Commit(t.Context()))
		}, 4, 7},
		{"the other, failed", func(le *Lease) error {
			return errors.Join(le.SettlePart(everybody, gpt, Costs{"rpm": 7}), le.Rollback(t.Context()))
		}, 4, 7},
		{"failed", func(le *Lease) error { return le.Rollback(t.Context()) }, 0, 0},
		{"more", func(le *Lease) error {
			return errors.Join(le.Charge(t.Context(), Costs{"rpm": 2}), le.Commit(t.Context()))
		}, 6, 5},
		{"more, and failed", func(le *Lease) error {
			return errors.Join(le.Charge(t.Context(), Costs{"rpm": 2}), le.Rollback(t.Context()))
		}, 0, 0},
	} {
		w, l := newProcess(t, Options{})
		lease := must(t, l, alsoOf(4, 5))
		check.NoError(t, c.end(lease), c.name)
		w.wantSpent(l, c.name, map[string]int64{acme: c.own, everybody: c.all})
	}
}

// Invalid input names the field, and makes no call.
func TestBadSeveralKeys(t *testing.T) {
	w, l := newProcess(t, Options{})
	with := func(parts ...Part) Request {
		req := alsoOf(1, 1)
		req.Also = append(req.Also, parts...)
		return req
	}
	for want, req := range map[string]Request{
		`Also[1]: limiter: invalid: Entity is ""`:                 with(Part{Resource: gpt, Costs: Costs{"rpm": 1}}),
		`Also[1]: limiter: invalid: Resource is ""`:               with(Part{Entity: "x", Costs: Costs{"rpm": 1}}),
		`Also[1]: limiter: invalid: Costs is empty`:               with(Part{Entity: "x", Resource: gpt}),
		`Also[1]: limiter: invalid: Costs["rpm"] is -1`:           with(Part{Entity: "x", Resource: gpt, Costs: Costs{"rpm": -1}}),
		`Also[1] is "acme/gpt-4", want every entity`:              with(Part{Entity: acme, Resource: gpt, Costs: Costs{"rpm": 1}}),
		`Also[1] is "everybody/gpt-4", want every entity`:         with(alsoOf(1, 1).Also...),
		`Also is 16 parts, want at most 15`:                       with(make([]Part, 15)...),
		`Also[1]: limiter: invalid: Limits is empty`:              with(Part{Entity: "x", Resource: gpt, Costs: Costs{"rpm": 1}, Limits: []Limit{}}),
		`"x/gpt-4": Costs["tpm"] is 1, want only limits in force`: with(Part{Entity: "x", Resource: gpt, Costs: Costs{"tpm": 1}, Limits: []Limit{rpm10}}),
	} {
		got := ""
		calls := w.calls(func() {
			if _, err := l.Acquire(t.Context(), req); errors.Is(err, ErrInvalid) {
				got = err.Error()
			}
		})
		if !strings.Contains(got, want) || strings.Contains(calls, "Update") || strings.Contains(calls, "Put") {
			t.Errorf("%q, calls %s; want %q", got, calls, want)
		}
	}
	lease := must(t, l, alsoOf(1, 1))
	if err := lease.SettlePart("org", gpt, nil); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), `"org/gpt-4"`) {
		t.Errorf("a part that was not asked for: %v", err)
	}
	check.MustBe(t, lease.SettlePart(everybody, gpt, Costs{"tpm": 1}), ErrInvalid)
}

// One of two writes fails, in every way: the other's tokens are given back, and the error reports
// unknown outcomes. A write that was applied and whose answer was lost keeps its tokens.
func TestSeveralKeysUnderFaults(t *testing.T) {
	for _, entity := range []string{acme, everybody} {
		for _, c := range []struct {
			name    string
			applied bool
			err     error
			want    error
			kept    int64
		}{
			{"throttled", false, memdynamo.Fail(store.Throttled), ErrUnavailable, 0},
			{"not sent", false, memdynamo.Fail(store.Unavailable), ErrUnavailable, 0},
			{"lost", false, memdynamo.Fail(store.Unknown), ErrUnknown, 0},
			{"answer lost", true, memdynamo.Fail(store.Unknown), ErrUnknown, 2},
		} {
			w, l := newProcess(t, Options{})
			must(t, l, alsoOf(1, 1))
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if isWrite(op) && strings.Contains(op.Writes[0].Target().PK, "#"+entity+"#") {
					return c.applied, c.err
				}
				return true, nil
			})
			_, err := l.Acquire(t.Context(), alsoOf(2, 2))
			w.db.SetHook(nil)
			l.desks.Wait()
			check.Is(t, err, c.want, "%s, %s", entity, c.name)
			want := map[string]int64{acme: 1, everybody: 1}
			want[entity] += c.kept
			w.wantSpent(l, entity+", "+c.name, want)
		}
	}
}

// Parts are disabled or bypassed separately: a disabled one stops all, a bypassed one leaves the
// others charged.
func TestSeveralKeysAndAccess(t *testing.T) {
	for _, of := range []string{acme, everybody} {
		for how, want := range map[config.Switch]error{config.SwitchedOff: ErrDisabled, config.Bypassed: nil} {
			w, l := newProcess(t, Options{})
			w.configure(l, "", "", rpm10)
			w.db.Store(config.Config{Namespace: l.namespace, Entity: of, Resource: gpt,
				Access: config.Access{Switch: how}}.Item())
			lease, err := l.Acquire(t.Context(), Request{Entity: acme, Resource: gpt, Costs: Costs{"rpm": 1},
				Also: []Part{{Entity: everybody, Resource: gpt, Costs: Costs{"rpm": 1}}}})
			if !errors.Is(err, want) || want == nil && lease.Charged() == (of == acme) {
				t.Errorf("%s: %v, %v", of, lease, err)
			}
			for _, e := range []string{acme, everybody} {
				check.Equal(t, len(w.shards(l, e, gpt)) > 0, want == nil && e != of,
					"%s switched to %v: %s was charged", of, how, e)
			}
		}
	}
}

// Without the table, local shares of this process decide about all parts.
func TestSeveralKeysWithoutTheTable(t *testing.T) {
	w, l := newProcess(t, Options{OnUnavailable: PolicyLocal, LocalShare: 50})
	must(t, l, alsoOf(1, 1))
	open := w.process(Options{OnUnavailable: PolicyAllow})
	w.down()
	lease, err := l.Acquire(t.Context(), alsoOf(3, 10))
	if err != nil || lease.Charged() || len(lease.Status()) != 2 {
		t.Fatal(lease, err)
	}
	d := deniedBy(t, l, alsoOf(1, 1))
	check.Equal(t, d.Entity, everybody, "%v, want a denial by everybody's share of 10", d)
	check.NoError(t, errors.Join(lease.SettlePart(everybody, gpt, Costs{"rpm": 0}), lease.Commit(t.Context())))
	check.NoError(t, check.Err(l.Acquire(t.Context(), alsoOf(2, 9))), "after it was given back")
	if lease, err = open.Acquire(t.Context(), alsoOf(1, 1)); err != nil || lease.Charged() {
		t.Fatal(lease, err)
	}
	err = errors.Join(lease.SettlePart(everybody, gpt, nil), lease.Settle(nil), lease.Rollback(t.Context()))
	check.NoError(t, err)
}

// A waiting request has debts in all parts, and continues when the last one is paid back. If it
// leaves, all are given back.
func TestSeveralKeysWait(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, process func() *Limiter) {
		l := process()
		must(t, l, alsoOf(10, 20))
		begin := time.Now()
		lease, err := l.Wait(t.Context(), alsoOf(1, 4)) // 6 s for acme, 12 s for everybody
		if slept := time.Since(begin).Round(time.Second); err != nil || slept != 12*time.Second {
			t.Fatalf("%v after %s, want 12s", err, slept)
		}
		check.Must(t, lease.Rollback(t.Context()))
		w.wantSpent(l, "given back", map[string]int64{acme: 10, everybody: 20})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		check.Is(t, check.Err(l.Wait(ctx, alsoOf(8, 12))), ErrCanceled, "a caller that leaves")
		w.wantSpent(l, "left", map[string]int64{acme: 10, everybody: 20})
		for _, want := range []error{nil, nil, ErrQueueFull} {
			before := w.spent(l, everybody)
			_, _, err = l.Reserve(t.Context(), alsoOf(1, 20))
			check.Is(t, err, want, "everybody has spent %d", before)
		}
		if d, ok := errors.AsType[*LimitError](err); !ok || d.Entity != everybody {
			t.Errorf("%v, want everybody's queue", err)
		}
		w.wantSpent(l, "a full queue", map[string]int64{acme: 12, everybody: 60})
	})
}

// Slots are taken and given back by part.
func TestSeveralKeysWithSlots(t *testing.T) {
	w, l := newProcess(t, Options{})
	jobs := InFlight("jobs", 2, time.Minute)
	req := alsoOf(1, 1)
	req.Also[0].Limits, req.Also[0].Costs = append(req.Also[0].Limits, jobs), Costs{"rpm": 1, "jobs": 1}
	one, two := must(t, l, req), must(t, l, req)
	if d := deniedBy(t, l, req); d.Limit != "jobs" || d.Entity != everybody {
		t.Fatalf("%v, want a denial by everybody's slots", d)
	}
	w.wantSpent(l, "denied", map[string]int64{acme: 2, everybody: 2})
	check.Must(t, errors.Join(one.Commit(t.Context()), two.Rollback(t.Context())))
	must(t, l, req)
	req.Limits, req.Costs = append(req.Limits, PerMinute("jobs", 10)), Costs{"jobs": 1}
	check.NoError(t, must(t, l, req).Charge(t.Context(), Costs{"jobs": 1}),
		"tokens of the first part, named as slots of the other")
	w.wantSpent(l, "again", map[string]int64{acme: 2, everybody: 3})
}

// Events have the costs of all parts, so the sum over all events without an error is what was
// taken.
func TestEventsOfSeveralKeys(t *testing.T) {
	w := newWorld(t)
	sum := Costs{}
	l := w.process(Options{Observe: func(_ context.Context, e Event) {
		if e.Err != nil {
			return
		}
		for _, p := range append(e.Also, Part{Entity: e.Entity, Costs: e.Costs}) {
			for _, n := range p.Costs {
				sum[p.Entity] += n
			}
		}
	}})
	lease := must(t, l, alsoOf(4, 5))
	_, _ = l.Acquire(t.Context(), alsoOf(1, 16))
	must(t, l, alsoOf(2, 3))
	check.Must(t, errors.Join(lease.SettlePart(everybody, gpt, Costs{"rpm": 1}), lease.Commit(t.Context())))
	if want := fmt.Sprint(Costs{acme: 6, everybody: 4}); fmt.Sprint(sum) != want {
		t.Errorf("events add up to %v, want %s", sum, want)
	}
	w.wantSpent(l, "in all", map[string]int64{acme: 6, everybody: 4})
}

// Prefetched tokens cover a part without a write.
func TestSeveralKeysAhead(t *testing.T) {
	w, l := newProcess(t, Options{Ahead: time.Second})
	req := alsoOf(1, 1)
	req.Limits, req.Also[0].Limits = []Limit{PerSecond("rpm", 1000)}, []Limit{PerSecond("rpm", 1000)}
	for range 200 {
		must(t, l, req)
		w.advance(5 * time.Millisecond)
	}
	check.Equal(t, w.calls(func() { must(t, l, req) }), "map[]", "calls, want none")
	if used := w.spent(l, everybody); used < 201 || used > 2000 {
		t.Errorf("%d taken for 201", used)
	}
}

// If a request names a bucket twice, as a part and as a parent, the local share grants nothing.
func TestNoBucketTwiceWithoutTheTable(t *testing.T) {
	w, l := family(t, 100, Options{OnUnavailable: PolicyLocal, LocalShare: 100})
	req := stored(Costs{"rpm": 6})
	must(t, l, req)
	twice := req
	twice.Also = []Part{{Entity: "org", Resource: gpt, Costs: Costs{"rpm": 60}}}
	req.Costs = Costs{"rpm": 1}
	w.down()
	for range desk.BreaksAfter + 1 { // also when the breaker is open
		must(t, l, req)
		lease, err := l.Acquire(t.Context(), twice)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), `"org/gpt-4"`) {
			t.Errorf("%v, %v: want no bucket that is charged twice", lease, err)
		}
	}
}

// A request with more parts than remembered buckets.
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
	for _, kind := range []string{"b", "c", "a"} { // the earlier ones are full again
		w.advance(time.Hour)
		must(t, l, req(kind))
	}
}

// A disabled part is respected, although the configuration of another cannot be read.
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

// A lease uses the requested parts, even if the caller reuses their memory.
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

// A throttled part does not stop calls for other buckets.
func TestThrottledPartsStopNoOtherBucket(t *testing.T) {
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

// The largest request is created in one transaction, and charged in parallel.
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

// A client that panics while it writes one part fails only that request, and the other parts'
// tokens are given back.
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

// An event names the policy of a request whose first part is bypassed.
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
