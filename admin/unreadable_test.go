package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// odd are changes after which nobody can read a bucket.
var odd = map[string]item.Item{
	"a level of text":     {"b_rpm_tk": item.S("many")},
	"half a millitoken":   {"b_rpm_tk": &types.AttributeValueMemberN{Value: "0.5"}},
	"a calendar quota":    {"b_rpm_ra": item.N(0), "b_rpm_rsched": item.S("0 0 * * *=cp"), "vu": item.N(start)},
	"no such count":       {"shard_count": item.S("x")},
	"a meter of nothing":  {"b_wcu_cp": item.N(0)},
	"a clock of text":     {"rf": item.S("now")},
	"a counter of a flag": {"b_rpm_tc": item.Bool(true)},
}

// spoil changes attributes of a shard of a bucket as a foreign hand would.
func (w *world) spoil(entity string, shard int, attrs item.Item) {
	w.Helper()
	it := w.db.Item(layout.BucketKey(w.ns.id, entity, "gpt-4", shard))
	if it == nil {
		w.Fatalf("%s has no shard %d", entity, shard)
	}
	for attr, v := range attrs {
		it[attr] = v
	}
	w.db.Store(it)
}

// Reset mends what limiter.ErrUnreadable is about: the bucket is full again, on every
// shard, and nobody else's is touched.
func TestResetMendsWhatCannotBeRead(t *testing.T) {
	for name, attrs := range odd {
		for _, shards := range []int{1, 4} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				w.set(Scope{}, rpm10)
				w.split("other", "gpt-4", 0)
				w.split("acme", "gpt-4", shards/2) // into one, or four
				w.spoil("acme", shards-1, attrs)
				other := w.db.Item(layout.BucketKey(w.ns.id, "other", "gpt-4", 0))
				check.Is(t, check.Err(w.ns.Reset(t.Context(), "acme", "gpt-4", "rpm")), limiter.ErrUnreadable,
					"one limit of it")
				added, err := w.ns.Reset(t.Context(), "acme", "gpt-4")
				w.must(err)
				check.Equal(t, len(added), 0, "added")
				check.Deep(t, w.db.Item(layout.BucketKey(w.ns.id, "other", "gpt-4", 0)), other, "another bucket")
				check.Equal(t, w.drained(w.limiter()), 10, "granted afterwards")
				e := w.events(Scope{Entity: "acme"})
				if len(e) != 1 || e[0].Action != "bucket_reset" || e[0].Resource != "gpt-4" || e[0].Details == nil {
					t.Errorf("the audit trail has %+v, want one event of it", e)
				}
			})
		}
	}
}

// What is about many buckets names the one that cannot be read, and goes on.
func TestOneOddBucketOfMany(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "acme", Parent: "org", Cascade: true})
	for _, e := range []string{"a", "acme", "org", "z"} {
		w.split(e, "gpt-4", 0)
	}
	w.spoil("acme", 0, odd["a level of text"])
	names := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, limiter.ErrUnreadable) || !strings.Contains(err.Error(), "BUCKET#acme#gpt-4#0") ||
			!strings.Contains(err.Error(), "b_rpm_tk") {
			t.Errorf("%s: %v, want an ErrUnreadable that names the item and the attribute", what, err)
		}
	}
	above, err := w.ns.Peek(t.Context(), "acme", "gpt-4")
	names("peek", err)
	if len(above) != 1 || above[0].Entity != "org" {
		t.Errorf("peek shows %+v, want org", above)
	}
	var seen []string
	for b, err := range w.ns.Buckets(t.Context(), Scope{Resource: "gpt-4"}) {
		if seen = append(seen, b.Entity); b.Entity == "acme" && b.Resource == "gpt-4" {
			names("list", err)
			continue
		}
		w.must(err)
	}
	slices.Sort(seen)
	check.Slices(t, seen, []string{"a", "acme", "org", "z"}, "listed")
	for b, err := range w.ns.Buckets(t.Context(), Scope{Resource: "gpt-4"}) { // which can be left there
		if b.Entity == "acme" {
			names("list", err)
			break
		}
	}
	err = w.ns.SetLimits(t.Context(), Scope{}, limiter.PerMinute("rpm", 20))
	names("limits", err)
	if !errors.Is(err, ErrReach) || !strings.Contains(err.Error(), "4 looked at, 3 changed, 1 not reached") {
		t.Errorf("limits: %v, want three of four reached", err)
	}
}

// A scope that cannot be read fails what it is in force for, and nothing else.
func TestOneOddScope(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.set(Scope{Entity: "own", Resource: "gpt-4"}, rpm10)
	for _, e := range []string{"own", "other"} {
		w.split(e, "gpt-4", 0)
	}
	it := w.db.Item(layout.SystemConfigKey(w.ns.id))
	it["l_rpm_ra"] = item.N(0)
	w.db.Store(it)
	check.Equal(t, len(w.peek("own", "gpt-4")), 1, "limits of its own")
	check.Says(t, check.Err(w.ns.Peek(t.Context(), "other", "gpt-4")), "l_rpm_ra", "limits that cannot be read")
	listed := ""
	for c, err := range w.ns.Configs(t.Context(), Scope{}) {
		listed += fmt.Sprintln(c.Scope, c.Limits, errors.Is(err, ErrConfig) && err == c.Err)
	}
	check.Equal(t, listed, "*/* [] true\nown/gpt-4 [rpm: 10 per 1m0s, capacity 10] false\n", "listed")
	for range w.ns.Configs(t.Context(), Scope{}) {
		break // also at the one that cannot be read
	}
	r, err := w.ns.Reach(t.Context(), Scope{Resource: "gpt-4"})
	if !errors.Is(err, ErrReach) || r != (Reached{Buckets: 2, Failed: 1}) {
		t.Errorf("reach: %+v, %v", r, err)
	}
	it = w.db.Item(layout.EntityConfigKey(w.ns.id, "own", "gpt-4"))
	it["l_rpm_ra"] = item.N(0)
	w.db.Store(it)
	w.set(Scope{}, rpm20) // the odd scope hides them from its bucket
	check.Equal(t, w.peek("other", "gpt-4")[0].Levels[0].Capacity, 20, "capacity of the other bucket")
}

// However many shards of it there are, no transaction of the removal is too large.
func TestAnyNumberOfUnreadableShardsIsRemoved(t *testing.T) {
	for _, n := range []int{1, 97, 98, 99, 100, 101, 197, 198, 199} {
		w := newWorld(t)
		for k := range n {
			it := layout.BucketKey(w.ns.id, "acme", "gpt-4", k).Item()
			it[table.AttrGeneration] = item.S("nonsense")
			w.must(check.Err(w.db.Write(t.Context(), item.Put{Item: it})))
		}
		check.NoError(t, check.Err(w.ns.Reset(t.Context(), "acme", "gpt-4")), "%d shards", n)
		for k := range n {
			if it := w.db.Item(layout.BucketKey(w.ns.id, "acme", "gpt-4", k)); it != nil {
				t.Errorf("of %d shards, %d is left", n, k)
				break
			}
		}
	}
}

// Shards are removed from the highest down, so that those left by a failure are found again.
func TestHighShardsAreRemovedFirst(t *testing.T) {
	w := newWorld(t)
	for k := range 200 {
		it := layout.BucketKey(w.ns.id, "acme", "gpt-4", k).Item()
		it[table.AttrGeneration] = item.S("nonsense")
		w.must(check.Err(w.db.Write(t.Context(), item.Put{Item: it})))
	}
	var removed []item.Key
	w.db.SetSerialHook(func(o memdynamo.Op) (bool, error) {
		if o.Name == memdynamo.BatchWriteItem {
			removed = append(removed, o.Keys...)
		}
		return true, nil
	})
	w.must(check.Err(w.ns.Reset(t.Context(), "acme", "gpt-4")))
	for i, k := range removed {
		check.MustEqual(t, k, layout.BucketKey(w.ns.id, "acme", "gpt-4", 199-i), "removed")
	}
	check.Equal(t, len(removed), 200-98, "removed before the last transaction")
}

// Limits that replace others with a schedule take it off every shard of every bucket, whatever their kind. The level
// stays.
func TestReachTakesSchedulesOff(t *testing.T) {
	rate := limiter.Limit{Name: "rpm", Capacity: 5, Refill: 1, Period: 24 * time.Hour}
	for _, was := range []limiter.Limit{rate.During("* * * * *", "", limiter.Limit{Capacity: 3}), rate} {
		for _, is := range []limiter.Limit{rate, limiter.Quota("rpm", 5, limiter.Monthly(1, "UTC")),
			limiter.Quota("rpm", 5, limiter.FromFirstUse(time.Hour)), rate.AsSoft()} {
			for _, level := range []int64{1, 3} {
				for attr, shards := range map[string]int{"sched": 1, "b_rpm_sched": 2} {
					w := newWorld(t)
					w.set(Scope{}, was)
					w.split("acme", "gpt-4", shards/2)
					for k := range shards {
						w.spoil("acme", k, item.Item{attr: item.S("1c3"), "b_rpm_tk": item.N(level * 1000 / int64(shards))})
					}
					is.Capacity = 3
					w.must(w.ns.SetLimits(t.Context(), Scope{}, is))
					left := int64(0)
					for k := range shards {
						it := w.db.Item(layout.BucketKey(w.ns.id, "acme", "gpt-4", k))
						b, err := table.DecodeShard(it)
						if err != nil || b.State.Slots[b.State.Index("rpm")].Schedule() != "" {
							t.Fatalf("%s to %v: %v, %v", was, is, it, err)
						}
						left += b.State.Slots[b.State.Index("rpm")].Tokens
					}
					check.Equal(t, left, level*1000, "%s to %v by %s: of 3000 left", was, is, attr)
				}
			}
		}
	}
}

// What is about a scope whose limits cannot be read changes what it says and nothing else: settings leave the
// limits, limits replace all of them, a comparison is told, and an entity that is deleted leaves the counts.
func TestSettingsSurviveOddLimits(t *testing.T) {
	w := newWorld(t)
	ctx, own := t.Context(), Scope{"acme", "gpt-4"}
	schedule := func(at Scope) item.Key {
		w.set(at, rpm10)
		k := w.ns.config(at).Key()
		it := w.db.Item(k)
		it["l_rpm_sched"] = item.S("3s500")
		w.db.Store(it)
		return k
	}
	system, mine := schedule(Scope{}), schedule(own)
	w.must(w.ns.Configure(ctx, Settings{OnUnavailable: new(limiter.PolicyAllow), AuditRetention: new(7 * day)}))
	if it := w.db.Item(system); it["l_rpm_sched"] == nil || it["l_rpm_cp"] == nil {
		t.Errorf("settings have taken limits away: %v", it)
	}
	c, err := w.ns.Config(ctx, Scope{})
	if !errors.Is(err, ErrConfig) || c.Err != err ||
		c.OnUnavailable != limiter.PolicyAllow || c.AuditRetention != 7*day || !strings.Contains(err.Error(), `*/*`) || !strings.Contains(err.Error(), `"l_rpm_sched": calendar "3s500"`) {
		t.Errorf("%+v, %v", c, err)
	}
	w.wants(w.ns.ChangeLimits(ctx, Config{Scope: own}, rpm20), ErrBusy)
	plan, err := w.ns.Plan(ctx, Manifest{Namespace: "prod", Scopes: []Config{scope("", "", rpm10)}})
	if err != nil || len(plan.Steps) != 1 || plan.Steps[0].Action != ActionUpdate ||
		!strings.Contains(fmt.Sprint(plan.Steps[0].Before()), `what is not served (`) {
		t.Errorf("planned %v, %v", plan, err)
	}
	w.must(w.ns.SetLimits(ctx, Scope{}, rpm10)) // the same as before, but for the schedule
	it := w.db.Item(system)
	if it["l_rpm_sched"] != nil || it["on_unavailable"] == nil || it["audit_retention_days"] == nil {
		t.Errorf("replaced: %v", it)
	}
	if _, err := w.ns.DeleteEntity(ctx, "acme"); err != nil || w.db.Item(mine) != nil {
		t.Errorf("deleted: %v", err)
	}
	w.registered(own, false)
	schedule(own)
	w.must(w.ns.DeleteLimits(ctx, own))
	check.Equal(t, len(w.db.Item(mine)), 0, "attributes left of limits that cannot be read")
	w.registered(own, false)
}

// What somebody else has mended meanwhile is reset like any bucket, and what it has counted stays.
func TestResetOfAMendedBucketIsOrdinary(t *testing.T) {
	key := func(w *world) item.Key { return layout.BucketKey(w.ns.ID(), "acme", "gpt-4", 0) }
	for _, begins := range []memdynamo.OpName{memdynamo.BatchGetItem, memdynamo.TransactWriteItems} {
		w := newWorld(t)
		w.set(Scope{}, rpm10)
		w.split("acme", "gpt-4", 0)
		w.spoil("acme", 0, odd["a clock of text"])
		rival, reads := w.rival(), 0
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if op.Name == memdynamo.BatchGetItem && op.Keys[0] == key(w) {
				reads++
			}
			if reads == 2 && op.Name == begins {
				w.db.SetHook(nil)
				w.must(check.Err(rival.Reset(t.Context(), "acme", "gpt-4")))
				w.advance(1)
				w.take("acme", "gpt-4", limiter.Costs{"rpm": 7})
			}
			return true, nil
		})
		w.must(check.Err(w.ns.Reset(t.Context(), "acme", "gpt-4")))
		w.db.SetHook(nil)
		if w.db.Item(key(w)) == nil {
			t.Errorf("before %v: the bucket that was made anew is gone, and its usage with it", begins)
			continue
		}
		b := w.bucket("acme", "gpt-4", 0)
		sl := b.State.Slots[b.State.Index("rpm")]
		if sl.Tokens != 10_000 || sl.Spent() != 7_000 {
			t.Errorf("before %v: level %d, spent %d", begins, sl.Tokens, sl.Spent())
		}
		check.Equal(t, len(w.events(Scope{Entity: "acme"})), 2, "before %v: events", begins)
	}
}

// A shard that is split while its bucket is removed leaves nothing behind.
func TestResetDuringASplitLeavesNothing(t *testing.T) {
	for _, fault := range []store.Kind{0, store.Throttled, store.Unknown} {
		w := newWorld(t)
		w.set(Scope{}, rpm10)
		w.split("acme", "gpt-4", 1)
		w.spoil("acme", 1, odd["a clock of text"])
		last := layout.BucketKey(w.ns.ID(), "acme", "gpt-4", 0)
		w.meanwhile(last, func() {
			w.must(w.db.Transact(t.Context(), "split", table.Split(w.bucket("acme", "gpt-4", 0), w.now.Load())))
			if fault != 0 {
				w.failTransactions(fault, fault == store.Unknown, false)
			}
		})
		w.must(check.Err(w.ns.Reset(t.Context(), "acme", "gpt-4")))
		w.db.SetHook(nil)
		for k := range 4 {
			if w.db.Item(layout.BucketKey(w.ns.ID(), "acme", "gpt-4", k)) != nil {
				t.Errorf("fault %v: shard %d is left", fault, k)
			}
		}
		check.Equal(t, w.drained(w.limiter()), 10, "fault %v: granted afterwards", fault)
		check.Equal(t, len(w.events(Scope{Entity: "acme"})), 1, "fault %v: events", fault)
	}
}
