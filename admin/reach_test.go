package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// holds checks that every shard of a bucket has exactly these limits, in all their
// attributes.
func (w *world) holds(entity, resource string, shards int, limits ...limiter.Limit) {
	w.Helper()
	want, err := storedLimits(limits)
	w.must(err)
	for k := range shards {
		b := w.bucket(entity, resource, k)
		if len(b.State.Slots) != len(want)+1 || !b.State.Matches(want) || len(b.Partial) != 0 || b.State.Shards != shards {
			w.Errorf("shard %d is %s, want %v", k, b.State, limits)
		}
		for attr := range w.db.Item(b.Key()) {
			name, _, _ := strings.Cut(strings.TrimPrefix(attr, "b_"), "_")
			known := name == "wcu"
			for _, l := range limits {
				known = known || l.Name == name
			}
			if strings.HasPrefix(attr, "b_") && !known {
				w.Errorf("shard %d still has %s", k, attr)
			}
		}
	}
}

// Changed limits, at whatever scope, reach the buckets they are in force for on
// every shard, and no others; limits that are gone leave with all their attributes.
func TestChangesReachEveryShard(t *testing.T) {
	for i, at := range scopes {
		t.Run(at.String(), func(t *testing.T) {
			w := newWorld(t)
			for _, s := range scopes[i:] { // those that at shadows
				w.set(s, rpm10, tpm500)
			}
			w.split("acme", "gpt-4", 3)
			w.set(at, rpm20)
			w.holds("acme", "gpt-4", 8, rpm20)
			w.set(at, rpm20, limiter.PerHour("new", 1000))
			w.holds("acme", "gpt-4", 8, rpm20, limiter.PerHour("new", 1000))
			n := w.bucket("acme", "gpt-4", 7).State
			check.Equal(t, n.Slots[n.Index("new")].Tokens, 125_000, "a new limit does not start full: %s", n)
			w.must(w.ns.DeleteLimits(t.Context(), at))
			if at == (Scope{}) { // nothing is in force any more
				w.holds("acme", "gpt-4", 8, rpm20, limiter.PerHour("new", 1000))
				return
			}
			w.holds("acme", "gpt-4", 8, rpm10, tpm500)
		})
	}
}

// Only buckets for which the changed scope decides are touched.
func TestChangesStayWhereTheyBelong(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.set(Scope{Entity: "own"}, tpm500)
	for _, e := range []string{"a", "b", "c", "own"} {
		for _, r := range []string{"gpt-4", "other"} {
			limit := "rpm"
			if e == "own" {
				limit = "tpm"
			}
			w.take(e, r, limiter.Costs{limit: 1})
		}
	}
	w.set(Scope{Resource: "gpt-4"}, rpm20)
	for _, e := range []string{"a", "b", "c"} {
		w.holds(e, "gpt-4", 1, rpm20)
		w.holds(e, "other", 1, rpm10)
	}
	w.holds("own", "gpt-4", 1, tpm500)
	got, err := w.ns.Reach(t.Context(), Scope{})
	w.must(err)
	check.Equal(t, got, Reached{Buckets: 8}, "reached")
}

// Levels are credited under the old rules up to the change; a lower capacity cuts
// them, a higher one adds nothing, and a bucket of an entity's own limits does not
// expire.
func TestChangedLimitsKeepCreditedLevels(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{Resource: "gpt-4"}, rpm10)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 10})
	check.MustEqual(t, w.bucket("acme", "gpt-4", 0).TTL != 0, true, "it expires")
	w.advance(30 * time.Second)
	w.set(Scope{"acme", "gpt-4"}, limiter.PerMinute("rpm", 100))
	b := w.bucket("acme", "gpt-4", 0)
	if b.State.Slots[0].Tokens != 5000 || b.TTL != 0 {
		t.Errorf("after a raise %s, ttl %d", b.State, b.TTL)
	}
	w.set(Scope{"acme", "gpt-4"}, limiter.PerMinute("rpm", 2))
	check.Equal(t, w.bucket("acme", "gpt-4", 0).State.Slots[0].Tokens, 2000, "after a cut")
	w.must(w.ns.DeleteLimits(t.Context(), Scope{"acme", "gpt-4"}))
	if b := w.bucket("acme", "gpt-4", 0); b.State.Slots[0].Tokens != 2000 || b.TTL == 0 {
		t.Errorf("back to the default %s, ttl %d", b.State, b.TTL)
	}
}

// Limits that callers brought along leave only when they are full: they would come
// back full.
func TestLimitsOfCallersAreNotMinted(t *testing.T) {
	w := newWorld(t)
	w.take("acme", "gpt-4", limiter.Costs{"own": 5, "full": 0}, limiter.PerMinute("own", 10),
		limiter.PerMinute("full", 10))
	w.set(Scope{}, rpm10)
	w.holds("acme", "gpt-4", 1, rpm10, limiter.PerMinute("own", 10))
	w.advance(time.Minute)
	w.must(check.Err(w.ns.Reach(t.Context(), Scope{})))
	w.holds("acme", "gpt-4", 1, rpm10)
}

// A client that takes tokens all the while, and a shard that splits in between, do
// not keep a change from arriving, nor lose a token.
func TestChangesArriveUnderTraffic(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerHour("rpm", 100_000))
	w.split("acme", "gpt-4", 1)
	l, writes := w.limiter(), 0
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if op.Name == memdynamo.UpdateItem && writes < 30 {
			writes++
			w.now.Add(1)
			bare := w.db.Hook
			w.db.SetHook(nil)
			check.NoError(t, check.Err(acquire(l, limiter.Costs{"rpm": 1})))
			if writes == 1 {
				w.split("acme", "gpt-4", 1)
			}
			w.db.SetHook(bare)
		}
		return true, nil
	})
	w.must(w.ns.SetLimits(t.Context(), Scope{}, limiter.PerHour("rpm", 200_000)))
	w.db.SetHook(nil)
	w.holds("acme", "gpt-4", 4, limiter.PerHour("rpm", 200_000))
}

// What cannot be reached is told, with the limits stored and the last reason for that: somebody was always
// faster, or the table did not let it. Reach goes on.
func TestReachReportsFailures(t *testing.T) {
	for name, c := range map[string]struct {
		err, want error
		applied   bool
		tries     int
	}{
		"refused":     {err: &store.Refused{}, want: ErrBusy, tries: reachAttempts},
		"unavailable": {err: memdynamo.Fail(store.Unavailable), want: limiter.ErrUnavailable, tries: 1},
		"throttled":   {err: memdynamo.Fail(store.Throttled), want: limiter.ErrUnavailable, tries: reachAttempts},
		"lost":        {err: memdynamo.Fail(store.Unknown), want: limiter.ErrUnknown, tries: reachAttempts},
		// The next look finds that it was applied.
		"applied, and lost": {err: memdynamo.Fail(store.Unknown), applied: true, tries: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.set(Scope{}, rpm10)
			for i := range 5 {
				w.take(fmt.Sprint("e", i), "gpt-4", limiter.Costs{"rpm": 1})
			}
			tries := 0
			w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
				if op.Name != memdynamo.UpdateItem || !strings.Contains(op.Writes[0].Target().PK, "#e3#") {
					return true, nil
				}
				tries++
				return c.applied, c.err
			})
			err := w.ns.SetLimits(t.Context(), Scope{}, rpm20)
			w.db.SetHook(nil)
			if check.Equal(t, tries, c.tries, "%s: attempts", name); c.applied {
				w.must(err)
				return
			}
			const said = "5 looked at, 4 changed, 1 not reached: "
			if !errors.Is(err, ErrReach) || !errors.Is(err, c.want) || errors.Is(err, ErrBusy) != (c.want == ErrBusy) ||
				!strings.Contains(err.Error(), said) || !strings.Contains(err.Error(), "e3") {
				t.Fatalf("%s: %+v", name, err)
			}
			got, err := w.ns.Reach(t.Context(), Scope{})
			w.must(err)
			check.MustEqual(t, got, Reached{Buckets: 5, Changed: 1}, "reached")
			w.holds("e3", "gpt-4", 1, rpm20)
		})
	}
}

// A listing that ends too early is named before buckets that failed, because their number is unknown then.
func TestReachNamesAFailedListing(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	for i := range 3 { // more than a page
		w.take(fmt.Sprint("e", i), "gpt-4", limiter.Costs{"rpm": 1})
	}
	pages := 0
	w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
		if op.Name != memdynamo.Query {
			return true, nil
		}
		if pages++; pages == 2 {
			return false, memdynamo.Fail(store.Setup)
		}
		return true, nil
	})
	n, err := w.ns.eachBucket(t.Context(), Scope{}, "mark", func(context.Context, Scope) (bool, error) {
		return false, ErrBusy
	})
	if n.Failed != n.Buckets || n.Buckets == 0 || !errors.Is(err, ErrReach) || !errors.Is(err, limiter.ErrSetup) ||
		errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "an unknown number not reached: ") {
		t.Errorf("%+v, %v", n, err)
	}
}

// A limit of a caller that was full a moment ago, and is taken from meanwhile,
// stays: it would come back full.
func TestLimitsInUseAreNotMinted(t *testing.T) {
	w := newWorld(t)
	own := limiter.PerMinute("own", 10)
	w.take("acme", "gpt-4", limiter.Costs{"own": 0}, own)
	w.before(memdynamo.UpdateItem, 1, func() { w.take("acme", "gpt-4", limiter.Costs{"own": 7}, own) })
	w.set(Scope{}, rpm10)
	w.db.SetHook(nil)
	s := w.bucket("acme", "gpt-4", 0).State
	if i := s.Index("own"); i < 0 || s.Slots[i].Tokens != 3000 {
		t.Errorf("bucket %s", s)
	}
}

// A client that has not read a change yet goes by what it finds in the bucket: it
// neither brings the old limits back nor takes from one that has been removed.
func TestClientsThatAreBehindBringNothingBack(t *testing.T) {
	for _, shards := range []int{0, 2} {
		w := newWorld(t)
		w.set(Scope{}, rpm10, tpm500)
		behind, err := limiter.Open(t.Context(), twin{DB: w.db}, "t", &limiter.Options{
			Namespace: w.ns.Name(), Timeout: ages, ConfigTTL: time.Hour,
			Now: func() time.Time { return time.UnixMilli(w.now.Load()) },
		})
		w.must(err)
		take := func() { w.must(check.Err(acquire(behind, limiter.Costs{"rpm": 1, "tpm": 1}))) }
		take()
		w.split("acme", "gpt-4", shards)
		take()
		w.set(Scope{}, rpm20)
		for range 4 {
			take()
			w.advance(time.Second)
		}
		w.holds("acme", "gpt-4", 1<<shards, rpm20)
	}
}

// While a bucket splits, its shards do not agree on how many there are: the most counts.
func TestShardsOfABucketThatSplits(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.split("acme", "gpt-4", 1)
	w.must(w.db.Transact(t.Context(), rand.Text(), table.Split(w.bucket("acme", "gpt-4", 0), w.now.Load())))
	shards, err := w.ns.shards(t.Context(), "acme", "gpt-4")
	w.must(err)
	check.Equal(t, len(shards), 3, "shards")
	// One in the middle knows of eight, and the others of fewer.
	w = newWorld(t)
	w.set(Scope{}, limiter.PerMinute("rpm", 80))
	w.split("acme", "gpt-4", 3)
	for k, count := range []int64{2, 4, 8, 4, 4, 8, 8, 4} {
		w.spoil("acme", k, item.Item{"shard_count": item.N(count)})
	}
	shards, err = w.ns.shards(t.Context(), "acme", "gpt-4")
	w.must(err)
	check.Equal(t, len(shards), 8, "shards")
}

// No more than eight buckets are changed at once, and all are.
func TestHowManyBucketsAreChangedAtOnce(t *testing.T) {
	for name, change := range map[string]func(w *world) error{
		"set": func(w *world) error { return w.ns.SetLimits(w.Context(), Scope{}, rpm20) },
		"access": func(w *world) error {
			return check.Err(w.ns.SetAccess(w.Context(), Scope{Resource: "gpt-4"}, AccessDisabled))
		},
		"apply": func(w *world) error {
			m := Manifest{Namespace: "prod"}
			for i := range 20 {
				m.Scopes = append(m.Scopes, scope(fmt.Sprint("e", i), "gpt-4", rpm20))
			}
			return w.ns.Apply(w.Context(), w.plan(m))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.set(Scope{}, rpm10)
			for i := range 20 {
				w.take(fmt.Sprint("e", i), "gpt-4", limiter.Costs{"rpm": 1})
			}
			var now, most, all atomic.Int64
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if op.Name == memdynamo.UpdateItem && strings.Contains(op.Writes[0].Target().PK, "/BUCKET#") {
					all.Add(1)
					if n := now.Add(1); n > most.Load() {
						most.Store(n)
					}
					time.Sleep(time.Millisecond) // how long the table takes
					now.Add(-1)
				}
				return true, nil
			})
			w.must(change(w))
			w.db.SetHook(nil)
			if most.Load() != reachAtOnce || all.Load() != 20 {
				t.Errorf("%s: %d buckets, %d at once, want 20 and %d", name, all.Load(), most.Load(), reachAtOnce)
			}
		})
	}
}

// A pause between reads of a bucket is a few milliseconds at first and grows, to 25 at most. Whoever is
// called off waits no longer.
func TestPauseBetweenReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for try, want := range map[int]time.Duration{0: callPause / 5, 1: 2 * callPause / 5, 9: callPause, 39: callPause} {
			var most time.Duration
			for range 200 { // none of which comes near it, by chance, once in 10^60
				begin := time.Now()
				pause(t.Context(), try)
				most = max(most, time.Since(begin))
			}
			if most > want || most < want/2 {
				t.Errorf("try %d: paused for %s at most, want %s", try, most, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		if pause(ctx, 39); !time.Now().Equal(begin) {
			t.Errorf("called off, and paused for %s", time.Since(begin))
		}
	})
}

// A scope that says no more than whether requests are served leaves the limits to the next one.
func TestSwitchLeavesLimitsToTheNextScope(t *testing.T) {
	for _, at := range []Scope{{"acme", "gpt-4"}, {Entity: "acme"}, {Resource: "gpt-4"}} {
		w := newWorld(t)
		w.set(Scope{}, rpm10)
		w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
		w.must(check.Err(w.ns.SetAccess(t.Context(), at, AccessDisabled)))
		w.set(Scope{}, rpm20)
		w.holds("acme", "gpt-4", 1, rpm20)
		got := w.peek("acme", "gpt-4")
		if !got[0].Stored || got[0].From != (Scope{}) || got[0].Levels[0].Limit != rpm20 {
			t.Errorf("%s is disabled: %+v", at, got)
		}
	}
}
