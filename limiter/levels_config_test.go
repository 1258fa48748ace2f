package limiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/inforce"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// stored is a request that uses stored limits.
func stored(costs Costs) Request { return Request{Entity: acme, Resource: gpt, Costs: costs} }

// levels are the four places where limits can be stored, most specific first.
var levels = []struct{ name, entity, resource string }{
	{"entity on resource", acme, gpt},
	{"entity", acme, layout.DefaultResource},
	{"resource", "", gpt},
	{"system", "", ""},
}

// TestConfigIsReadOnce: one BatchGetItem of at most 3 read units when cold, including the image of
// the bucket, nothing when warm; again after its time. If nothing is configured at all, its time is
// a few seconds.
func TestConfigIsReadOnce(t *testing.T) {
	for _, found := range []bool{true, false} {
		t.Run(fmt.Sprint("configured ", found), func(t *testing.T) {
			w, l := newProcess(t, Options{ConfigTTL: time.Minute})
			if found {
				w.configure(l, "", "", PerMinute("rpm", 10_000))
				must(t, w.process(Options{}), stored(Costs{"rpm": 1})) // creates the bucket
			}
			ask := func() {
				t.Helper()
				if _, err := l.Acquire(t.Context(), stored(Costs{"rpm": 1})); found != (err == nil) {
					t.Fatal(err)
				}
			}
			reads := func() int { return w.db.ResetStats().Reads }
			w.db.ResetStats()
			ask()
			if st := w.db.Stats(); st.Reads != 1 || st.ReadUnits > 3 {
				t.Fatalf("cold: %+v", st)
			}
			reads()
			warm := 59
			if !found {
				warm = 2
			}
			for range warm {
				w.advance(time.Second)
				ask()
			}
			check.MustEqual(t, reads(), 0, "warm: reads")
			w.advance(time.Second)
			ask()
			check.MustEqual(t, reads(), 1, "after its time: reads")
			l.ForgetConfig()
			ask()
			check.MustEqual(t, reads(), 1, "forgotten: reads")
		})
	}
}

// TestConfigChangeArrivesInTime: a changed, added or removed level takes effect when the cached one
// expires, and immediately after ForgetConfig.
func TestConfigChangeArrivesInTime(t *testing.T) {
	for _, how := range []string{"time", "forget"} {
		w, l := newProcess(t, Options{ConfigTTL: 10 * time.Second})
		pass := func() {
			if how == "time" {
				w.advance(10 * time.Second)
			} else {
				l.ForgetConfig()
			}
		}
		capacity := func() int64 {
			t.Helper()
			return must(t, l, stored(Costs{"rpm": 0})).Status()[0].Capacity
		}
		w.configure(l, "", "", rpm10)
		check.MustEqual(t, capacity(), 10, "not in force")
		w.configure(l, acme, gpt, PerMinute("rpm", 20)) // cached as absent
		w.advance(9 * time.Second)
		check.MustEqual(t, capacity(), 10, "%s: in force before its time", how)
		pass()
		check.MustEqual(t, capacity(), 20, "%s: added level not in force", how)
		w.db.Delete(layout.EntityConfigKey(l.namespace, acme, gpt))
		pass()
		check.MustEqual(t, capacity(), 10, "%s: removed level still in force", how)
	}
}

// TestLimitsThatComeLaterAreSeenInSeconds: a tenant whose first request came before any limits need
// not wait until the cached absence is as old as ConfigTTL, at whichever level the limits are
// stored. Other levels are not read again for that.
func TestLimitsThatComeLaterAreSeenInSeconds(t *testing.T) {
	for _, at := range []struct{ entity, resource string }{{acme, gpt}, {acme, layout.DefaultResource}, {"", gpt},
		{"", ""}} {
		w, l := newProcess(t, Options{ConfigTTL: time.Hour})
		check.MustBe(t, check.Err(l.Acquire(t.Context(), stored(Costs{"rpm": 1}))), ErrNoLimits,
			"nothing configured")
		w.configure(l, at.entity, at.resource, rpm10)
		w.advance(inforce.NoLimitsFor * time.Millisecond)
		must(t, l, stored(Costs{"rpm": 1}))
		w.db.ResetStats()
		for range 60 {
			w.advance(time.Minute - time.Second)
			must(t, l, stored(Costs{"rpm": 0}))
		}
		check.Equal(t, w.db.Stats().Reads, 0, "limits at %v: reads within the hour", at)
	}
}

// TestDeletedNamespacesAreNoticed: a running client stops within ConfigTTL when its namespace is
// deleted or purged, with stored or its own limits, under every policy; it continues when the
// namespace is recovered.
func TestDeletedNamespacesAreNoticed(t *testing.T) {
	for _, own := range [][]Limit{nil, {rpm10}} {
		w, l := newProcess(t, Options{ConfigTTL: 10 * time.Second, OnUnavailable: PolicyAllow})
		w.configure(l, "", "", rpm10)
		req := stored(Costs{"rpm": 1})
		req.Limits = own
		must(t, l, req)
		ns, err := config.DecodeNamespace(w.db.Item(layout.NamespaceIDKey(l.namespace)))
		check.Must(t, err)
		for _, change := range []func(){
			func() { ns.Status = config.NamespaceDeleted; w.db.Store(ns.Reverse()) },
			func() { ns.Status = config.NamespacePurging; w.db.Store(ns.Reverse()) },
			func() { w.db.Delete(layout.NamespaceIDKey(l.namespace)) },
		} {
			change()
			w.advance(10 * time.Second)
			before := w.db.Snapshot()
			check.MustBe(t, check.Err(l.Acquire(t.Context(), req)), ErrNamespace, "namespace %s", ns.Status)
			w.sameTable(before)
		}
		ns.Status = config.NamespaceActive
		w.db.Store(ns.Reverse())
		w.advance(10 * time.Second)
		must(t, l, req)
	}
}

// TestMissesAreCoalesced: a hundred callers that miss at once cost one read.
func TestMissesAreCoalesced(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, w *world, l *Limiter) {
		w.configure(l, "", "", PerMinute("rpm", 1000))
		must(t, w.process(Options{}), stored(Costs{"rpm": 1})).Rollback(t.Context())
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if op.Name == memdynamo.BatchGetItem {
				synctest.Wait() // until all callers wait for this read
			}
			return true, nil
		})
		w.db.ResetStats()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { must(t, l, stored(Costs{"rpm": 1})) })
		}
		wg.Wait()
		check.MustEqual(t, w.db.Stats().Reads, 1, "reads")
		check.MustEqual(t, w.used(l, "rpm"), 100, "used")
	})
}

// TestSlowReadsStallNoOtherBucket: no lock is held while configuration is read.
func TestSlowReadsStallNoOtherBucket(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, w *world, l *Limiter) {
		w.configure(l, "", "", rpm10)
		must(t, l, Request{Entity: "warm", Resource: gpt, Costs: Costs{"rpm": 1}})
		release := make(chan struct{})
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			for _, k := range op.Keys {
				if strings.Contains(k.PK, "slow") {
					<-release
				}
			}
			return true, nil
		})
		done := make(chan error, 1)
		go func() {
			_, err := l.Acquire(t.Context(), Request{Entity: "slow", Resource: gpt, Costs: Costs{"rpm": 1}})
			done <- err
		}()
		synctest.Wait()
		for _, entity := range []string{"warm", "cold"} {
			must(t, l, Request{Entity: entity, Resource: gpt, Costs: Costs{"rpm": 1}})
		}
		l.ForgetConfig()
		must(t, l, Request{Entity: "warm", Resource: gpt, Costs: Costs{"rpm": 1}})
		close(release)
		check.Must(t, <-done)
	})
}

// TestStaleConfigServesWhenReadingFails, whatever the failure, and is replaced as soon as reading
// works.
func TestStaleConfigServesWhenReadingFails(t *testing.T) {
	for _, kind := range []store.Kind{store.Unavailable, store.Throttled} {
		w, l := newProcess(t, Options{})
		w.configure(l, "", "", rpm10)
		must(t, l, stored(Costs{"rpm": 1}))
		w.advance(time.Hour)
		w.configure(l, "", "", PerMinute("rpm", 20))
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			return op.Name != memdynamo.BatchGetItem,
				map[bool]error{true: memdynamo.Fail(kind)}[op.Name == memdynamo.BatchGetItem]
		})
		if lease := must(t, l, stored(Costs{"rpm": 1})); lease.Status()[0].Capacity != 10 {
			t.Fatalf("%s: %v, want the limits known before", kind, lease.Status())
		}
		// A new entity has nothing to fall back on.
		_, err := l.Acquire(t.Context(), Request{Entity: "new", Resource: gpt, Costs: Costs{"rpm": 1}})
		check.MustBe(t, err, ErrUnavailable, "%s: never seen", kind)
		w.db.SetHook(nil)
		if lease := must(t, l, stored(Costs{"rpm": 1})); lease.Status()[0].Capacity != 20 {
			t.Fatalf("%s: %v, want the new limits", kind, lease.Status())
		}
	}
}

// TestBadStoredConfig: an invalid stored value is an error that names item, attribute and value;
// nothing is written. Other entities are not affected.
func TestBadStoredConfig(t *testing.T) {
	cases := []struct {
		name string
		edit func(item.Item)
		text []string
	}{
		{"fraction", func(it item.Item) { it["l_rpm_cp"] = number("1.5") }, []string{"l_rpm_cp", "1.5"}},
		{"reserved name (W35)", func(it item.Item) {
			it["l_wcu_cp"], it["l_wcu_ra"], it["l_wcu_rp"] = item.N(1), item.N(1), item.N(1)
		}, []string{`"wcu"`, "reserved"}},
		{"too much", func(it item.Item) { it["l_rpm_cp"] = item.N(MaxTokens + 1) },
			[]string{"rpm", fmt.Sprint(int64(MaxTokens + 1))}},
		{"policy", func(it item.Item) { it["on_unavailable"] = item.S("maybe") },
			[]string{"on_unavailable", `"maybe"`, "allow", "block"}},
		{"33 limits", func(it item.Item) {
			for i := range MaxLimits {
				n := fmt.Sprint("l_x", i)
				it[n+"_cp"], it[n+"_ra"], it[n+"_rp"] = item.N(1), item.N(1), item.N(1)
			}
		}, []string{"33 limits", "32"}},
	}
	for _, c := range cases {
		for _, lv := range levels {
			if c.name == "policy" && lv.name != "system" {
				continue
			}
			t.Run(c.name+"/"+lv.name, func(t *testing.T) {
				w, l := newProcess(t, Options{OnUnavailable: PolicyAllow})
				lims, _ := storedLimits("", rpm(10))
				cfg := config.Config{Namespace: l.namespace, Entity: lv.entity, Resource: lv.resource, Limits: lims}
				it := cfg.Item()
				c.edit(it)
				w.db.Store(it)
				before := w.db.Snapshot()
				lease, err := l.Acquire(t.Context(), stored(Costs{"rpm": 1}))
				if lease != nil || !errors.Is(err, ErrInvalid) {
					t.Fatalf("got %v, %v; want ErrInvalid", lease, err)
				}
				for _, s := range append(c.text, cfg.Key().PK) {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("%v\ndoes not say %s", err, s)
					}
				}
				w.sameTable(before)
				if lv.entity != "" {
					w.configure(l, "", "", rpm10)
					l.ForgetConfig()
					must(t, l, Request{Entity: "other", Resource: gpt, Costs: Costs{"rpm": 1}})
				}
				w.configure(l, lv.entity, lv.resource, rpm10) // repaired: takes effect immediately
				must(t, l, stored(Costs{"rpm": 1}))
			})
		}
	}
}

func number(s string) item.Value { return &types.AttributeValueMemberN{Value: s} }

// TestOwnLimitsSkipStoredOnes: a call with its own limits needs no stored ones, and bad ones do not
// affect it; it reads the levels for their other settings.
func TestOwnLimitsSkipStoredOnes(t *testing.T) {
	w, l := newProcess(t, Options{})
	bad := config.Config{Namespace: l.namespace, Entity: acme, Resource: gpt}.Item()
	bad["l_rpm_cp"] = item.S("bad")
	w.db.Store(bad)
	must(t, w.process(Options{}), asks(Costs{"rpm": 1}, rpm10))
	var keys []item.Key
	w.db.SetHook(func(op memdynamo.Op) (bool, error) { keys = append(keys, op.Keys...); return true, nil })
	must(t, l, asks(Costs{"rpm": 1}, rpm10))
	if len(keys) != 6 || keys[3] != layout.SystemConfigKey(l.namespace) || keys[4] != layout.EntityKey(l.namespace,
		acme) {
		t.Fatalf("read %v, want the levels, the policy, the metadata and the bucket in one call", keys)
	}
	keys = nil
	must(t, l, asks(Costs{"rpm": 1}, rpm10))
	check.MustEqual(t, len(keys), 0, "read %v, want nothing while that is known", keys)
}

// If configuration was never read and cannot be, the policy stored for the namespace decides, if it
// is cached. A call whose time is over reads nothing, and its error says what it had no time for.
func TestWithoutConfigurationTheStoredPolicyDecides(t *testing.T) {
	w, l := newProcess(t, Options{})
	w.configurePolicy(l, "allow", rpm10)
	must(t, l, stored(Costs{"rpm": 1}))
	reads := 0
	w.db.SetHook(func(memdynamo.Op) (bool, error) { reads++; return false, memdynamo.Fail(store.Unavailable) })
	other := Request{Entity: "other", Resource: gpt, Costs: Costs{"rpm": 1}}
	for range desk.BreaksAfter + 1 { // with calls, and when no more are sent
		if lease, err := l.Acquire(t.Context(), other); err != nil || lease.Charged() ||
			!errors.Is(lease.Cause(), ErrUnavailable) {
			t.Errorf("%v, want a lease of the policy", err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	reads = 0
	n := decide.Name{Entity: "another", Resource: gpt}
	_, err := l.configs.Resolve(ended, n, nil, l.now(), true)
	if f, ok := errors.AsType[*store.Failure](err); !ok || f.Kind != store.Unavailable || f.Op != "BatchGetItem" ||
		!errors.Is(err, context.Canceled) || reads > 0 {
		t.Errorf("ended: %v after %d reads", err, reads)
	}
}

// Callers share a read of configuration. If one's context ends, or has little time, the read
// continues for the others.
func TestAGoneCallerDoesNotSpoilTheSharedRead(t *testing.T) {
	for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
		inBubble(t, Options{}, func(t *testing.T, w *world, l *Limiter) {
			w.configure(l, "", "", rpm10)
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if op.Name != memdynamo.BatchGetItem {
					return true, nil
				}
				select { // an answer takes 100 ms
				case <-op.Done:
					return false, nil
				case <-time.After(100 * time.Millisecond):
					return true, nil
				}
			})
			ctx, leave := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer leave()
			first, second := make(chan error, 1), make(chan error, 1)
			for ctx, got := range map[context.Context]chan error{ctx: first, t.Context(): second} {
				go func() {
					_, err := l.Acquire(ctx, stored(Costs{"rpm": 1}))
					got <- err
				}()
				synctest.Wait()
			}
			if want == context.Canceled {
				leave()
			}
			if err := <-first; !errors.Is(err, ErrUnavailable) || !errors.Is(err, want) {
				t.Errorf("the caller that gave up: %v, want %v", err, want)
			}
			check.Must(t, <-second)
			w.wantHeld(l, rpm10, 9)
		})
	}
}

// Expired configuration is read again by the next call, however slow the table is: a call waits as
// long as calls take, not for a constant time.
func TestOldConfigurationIsReadBehindASlowTable(t *testing.T) {
	for _, trip := range []time.Duration{4 * time.Millisecond, 150 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			w, l, _ := far(t, trip, Options{ConfigTTL: time.Minute}, nil)
			store := func(capacity int64) {
				w.db.Store(config.Config{Namespace: l.NamespaceID(), Resource: gpt,
					Limits: []bucket.Limit{PerHour("rph", capacity).stored()}}.Item())
			}
			req := Request{Entity: "other", Resource: gpt, Costs: Costs{"rph": 1}}
			for capacity := int64(100); capacity <= 400; capacity += 100 {
				store(capacity)
				time.Sleep(time.Minute)
				check.Equal(t, must(t, l, req).Status()[0].Capacity, capacity,
					"behind %s: goes by a capacity of", trip)
			}
		})
	}
}

// While reads hang, a call with old configuration waits no longer for a read than for a probe, or
// half of its time if that is less, or if every call reads. For a second after that, no call reads,
// and late results are used then. A call without any configuration waits for all of its time, and
// its error says for what.
func TestHowLongACallWaitsForConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		ttl, timeout, left time.Duration // left 0: its caller has no deadline
		waits              time.Duration
	}{
		"no longer than for a probe":       {time.Second, 2 * time.Second, 0, desk.ProbeWait},
		"half of the time of a call":       {time.Second, 100 * ms, 0, 50 * ms},
		"half of the time of its caller":   {time.Second, 2 * time.Second, 60 * ms, 30 * ms},
		"every call reads":                 {-1, 2 * time.Second, 0, time.Second},
		"every call reads, in little time": {-1, 2 * time.Second, 500 * ms, 250 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{Timeout: c.timeout, ConfigTTL: c.ttl}, func(t *testing.T, w *world, l *Limiter) {
				w.configure(l, "", "", rpm10)
				must(t, l, stored(Costs{"rpm": 1}))
				answer, reads := make(chan struct{}), atomic.Int64{}
				w.db.SetHook(func(op memdynamo.Op) (bool, error) {
					if isWrite(op) {
						return true, nil
					}
					reads.Add(1)
					select {
					case <-answer:
						return true, nil
					case <-op.Done:
						return false, context.DeadlineExceeded
					}
				})
				ask := func(entity string) (took time.Duration, err error) {
					ctx, begin := t.Context(), time.Now()
					if c.left > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, c.left)
						defer cancel()
					}
					_, err = l.Acquire(ctx, Request{Entity: entity, Resource: gpt, Costs: Costs{"rpm": 1}})
					return time.Since(begin), err
				}
				w.advance(2 * time.Second)
				for _, waits := range []time.Duration{c.waits, 0} {
					if took, err := ask(acme); err != nil || took != waits || reads.Load() != 1 {
						t.Errorf("took %s with %d reads, %v; want %s and one", took, reads.Load(), err, waits)
					}
				}
				w.configure(l, "", "", PerMinute("rpm", 20))
				close(answer)
				synctest.Wait()
				lease := must(t, l, stored(Costs{"rpm": 0}))
				if got := lease.Status()[0].Capacity; got != 20 && c.ttl > 0 {
					t.Errorf("uses a capacity of %d, and 20 was read", got)
				}
				answer = make(chan struct{})
				most := c.timeout
				if c.left > 0 {
					most = c.left
				}
				took, err := ask("new")
				if took != most || !errors.Is(err, ErrUnavailable) ||
					c.left == 0 && !strings.Contains(err.Error(), "BatchGetItem: unavailable: context deadline exceeded") {
					t.Errorf("without any it took %s: %v, want unavailable after %s", took, err, most)
				}
				time.Sleep(c.timeout)
			})
		})
	}
}

// A client that panics in a read of configuration fails that request, not the process. Old
// configuration serves.
func TestConfigurationReadPanics(t *testing.T) {
	w, l := newProcess(t, Options{ConfigTTL: time.Second})
	w.configure(l, "", "", rpm10)
	req := Request{Entity: acme, Resource: gpt, Costs: Costs{"rpm": 1}}
	panics := func() {
		w.db.SetHook(onCall(func(op memdynamo.Op) bool { return op.Name == memdynamo.BatchGetItem }, 0,
			func(memdynamo.Op) (bool, error) { panic("client") }))
	}
	panics()
	_, err := l.Acquire(t.Context(), req)
	if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "panic: client") {
		t.Errorf("%v, want ErrUnknown", err)
	}
	must(t, l, req)
	w.advance(time.Minute)
	panics()
	must(t, l, req)
}

// A caller may reuse its slice of limits with other contents.
func TestCallersMayChangeTheLimitsTheyPassed(t *testing.T) {
	_, l := newProcess(t, Options{})
	own := make([]Limit, 1)
	for _, n := range []int64{10, 10, 20} { // the second call finds the configuration in the cache, and stores it
		own[0] = PerMinute("rpm", n)
		lease, err := l.Acquire(t.Context(), Request{Entity: acme, Resource: gpt, Costs: Costs{"rpm": 1}, Limits: own})
		check.Must(t, err)
		check.Equal(t, lease.Status()[0].Capacity, n, "a capacity of is in force")
	}
}
