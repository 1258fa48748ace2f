package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// A call is repeated while that may help: after a throttle, a conflict, a lost answer, and when its own
// time is up. It pauses in between, longer each time, a second at most.
func TestCallsAreRepeatedWhileThatMayHelp(t *testing.T) {
	var longest time.Duration
	late := fmt.Errorf("sent: %w", context.DeadlineExceeded)
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, 1},
		{"of another kind", errors.New("odd"), 1},
		{"refused", &store.Refused{}, 1},
		{"not set up", memdynamo.Fail(store.Setup), 1},
		{"unavailable", memdynamo.Fail(store.Unavailable), 1},
		{"too late", &store.Failure{Kind: store.Unavailable, Op: "Read", Err: late}, callAttempts},
		{"throttled", memdynamo.Fail(store.Throttled), callAttempts},
		{"conflict", memdynamo.Fail(store.Conflict), callAttempts},
		{"unknown", memdynamo.Fail(store.Unknown), callAttempts},
		{"unknown again", memdynamo.Fail(store.Unknown), callAttempts},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, begin, last := 0, time.Now(), time.Now()
			most := callPause
			err := calls{timeout: ages}.again(t.Context(), func(context.Context) error {
				if now := time.Now(); n > 0 {
					if now.Sub(last) > most {
						t.Errorf("%s: paused for %s, want %s at most", c.name, now.Sub(last), most)
					}
					last, most = now, min(2*most, time.Second)
				}
				n++
				return c.err
			})
			if n != c.want || !errors.Is(err, c.err) {
				t.Errorf("%s: %d attempts, want %d: %v", c.name, n, c.want, err)
			}
			longest = max(longest, time.Since(begin))
		})
	}
	if longest < 10*callPause { // of 63 at most
		t.Errorf("paused for %s at most", longest)
	}
}

// A call that succeeds in the end has succeeded, and one whose context ends is not repeated: it tells what
// went wrong before.
func TestRepetitionEndsWithSuccessOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		err := calls{timeout: ages}.again(t.Context(), func(context.Context) error {
			if n++; n == callAttempts {
				return nil
			}
			return memdynamo.Fail(store.Throttled)
		})
		if err != nil || n != callAttempts {
			t.Errorf("%d attempts: %v", n, err)
		}
		for name, end := range map[string]error{"throttled": memdynamo.Fail(store.Throttled),
			"too late": &store.Failure{Kind: store.Unavailable, Op: "Read", Err: context.DeadlineExceeded}} {
			ctx, cancel := context.WithCancel(t.Context())
			n = 0
			err = calls{timeout: ages}.again(ctx, func(context.Context) error { n++; cancel(); return end })
			if n != 1 || !errors.Is(err, end) {
				t.Errorf("%s: %d attempts: %v", name, n, err)
			}
		}
	})
}

// Each attempt has the whole time of its own.
func TestEachAttemptHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Duration
		_ = calls{timeout: time.Minute}.again(t.Context(), func(ctx context.Context) error {
			at, _ := ctx.Deadline()
			times = append(times, time.Until(at))
			<-ctx.Done()
			return &store.Failure{Kind: store.Unavailable, Op: "Read", Err: ctx.Err()}
		})
		if len(times) != callAttempts || times[0] != time.Minute || times[callAttempts-1] != time.Minute {
			t.Errorf("attempts had %v", times)
		}
	})
}

// half answers the first read with some items and an error.
type half struct {
	store.Lister
	asked int
}

func (h *half) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	items, err := h.Lister.Read(ctx, consistent, keys...)
	if h.asked++; h.asked == 1 {
		return items[:1], memdynamo.Fail(store.Throttled)
	}
	return items, err
}

// What comes with an error does not count: the answer is that of the attempt that has succeeded.
func TestAnswersThatCameWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(Entity{ID: "a"})
		keys := []item.Key{layout.EntityKey(w.ns.id, "a"), layout.EntityKey(w.ns.id, "b")}
		h := &half{Lister: w.db}
		items, err := calls{db: h, timeout: ages}.read(t.Context(), keys...)
		if err != nil || len(items) != 2 || items[0] == nil || items[1] != nil || h.asked != 2 {
			t.Errorf("%v after %d reads, %v", items, h.asked, err)
		}
	})
}

// asIfOf gives an item the keys of the indexes that another item has.
func (w *world) asIfOf(at, of item.Key) {
	w.Helper()
	it, from := w.db.Item(at), w.db.Item(of)
	if it == nil || from == nil {
		w.Fatalf("there is no %v or no %v", at, of)
	}
	for _, attr := range []string{item.AttrGSI1PK, item.AttrGSI1SK, item.AttrGSI2PK, item.AttrGSI2SK,
		item.AttrGSI3PK, item.AttrGSI3SK, item.AttrGSI4PK, item.AttrGSI4SK} {
		if v, ok := from[attr]; ok {
			it[attr] = v
		}
	}
	w.db.Store(it)
}

// oneOfEach stores one item of each kind that an index finds, for an entity, and returns their keys.
func (w *world) oneOfEach(n *Namespace, entity, resource string) (keys []item.Key) {
	w.Helper()
	hour := time.UnixMilli(start).UTC().Format(time.RFC3339)
	_, err := n.CreateEntity(w.Context(), Entity{ID: "parent"})
	if !errors.Is(err, ErrExists) {
		w.must(err)
	}
	w.must(check.Err(n.CreateEntity(w.Context(), Entity{ID: entity, Parent: "parent"})))
	w.must(n.SetLimits(w.Context(), Scope{entity, resource}, limiter.PerMinute("rpm", 10)))
	l, err := limiter.Open(w.Context(), twin{DB: w.db}, "t", &limiter.Options{
		Namespace: n.Name(), Timeout: ages, ConfigTTL: -1, Now: func() time.Time { return time.UnixMilli(w.now.Load()) }})
	w.must(err)
	_, err = l.Acquire(w.Context(), limiter.Request{Entity: entity, Resource: resource, Costs: limiter.Costs{"rpm": 1}})
	w.must(err)
	s := ledger.Snapshot{Namespace: n.ID(), Entity: entity, Resource: resource, Window: "hourly",
		Part: hour, Start: hour, Counts: map[string]int64{"rpm": 1}}
	w.db.Store(s.Item())
	event := collect(w.T, n.Events(w.Context(), Scope{Entity: entity}, ""))[0]
	return []item.Key{layout.EntityKey(n.ID(), entity), layout.EntityConfigKey(n.ID(), entity, resource),
		layout.BucketKey(n.ID(), entity, resource, 0), s.Key(), layout.AuditKey(n.ID(), layout.EntitySubject(entity),
			event.ID)}
}

// Keys of an index are attributes, which a program that may write in one namespace can set to those of another, or
// of another entity and resource of its own. The other one neither lists the item, nor removes or changes it.
func TestKeysOfAnIndexAreNotTrusted(t *testing.T) {
	for _, within := range []bool{false, true} {
		w, ctx := newWorld(t), t.Context()
		other, err := w.table.Register(ctx, "other")
		if w.must(err); within {
			other = w.ns
		}
		mine, theirs := w.oneOfEach(w.ns, "acme", "api"), w.oneOfEach(other, "umbrella", "other")
		w.must(check.Err(w.ns.CreateEntity(ctx, Entity{ID: "stray"})))
		mine, theirs = append(mine, layout.EntityKey(w.ns.id, "stray")), append(theirs, theirs[0])
		var before []item.Item
		for i, k := range mine {
			w.asIfOf(k, theirs[i])
			before = append(before, w.db.Item(k))
		}
		for _, child := range collect(t, other.Children(ctx, "parent")) {
			if child.ID != "umbrella" && (!within || child.Parent != "parent") {
				t.Errorf("children %+v", child)
			}
		}
		got := collect(t, other.Usage(ctx, UsageQuery{Resource: "other"}))
		if len(got) != 1 || got[0].Entity != "umbrella" {
			t.Errorf("usage %+v", got)
		}
		if got := collect(t, other.entitiesWithLimits(ctx, "other")); !slices.Equal(got, []string{"umbrella"}) {
			t.Errorf("entities with limits %q", got)
		}
		for _, at := range []Scope{{}, {Entity: "umbrella"}, {Resource: "other"}} {
			for _, of := range collect(t, other.bucketsAt(ctx, at)) {
				if of.Entity != "umbrella" && (!within || at != Scope{}) {
					t.Errorf("buckets of %v: %v", at, of)
				}
			}
		}
		for e, err := range other.AllEvents(ctx, time.Time{}, time.Time{}) {
			if w.must(err); !within && e.Scope.Entity == "acme" {
				t.Errorf("event %+v", e)
			}
		}
		_, err = other.DeleteEntity(ctx, "umbrella")
		if w.must(err); !within {
			w.must(w.table.DeleteNamespace(ctx, other.ID()))
			w.must(check.Err(w.table.PurgeNamespace(ctx, other.ID())))
		}
		for i, k := range mine {
			if !item.EqualItems(w.db.Item(k), before[i]) {
				t.Errorf("%v was %v and is %v", k, before[i], w.db.Item(k))
			}
		}
	}
}
