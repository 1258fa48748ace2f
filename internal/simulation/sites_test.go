package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// sites are all places that call the table.
func sites() []site {
	return append(append(append(acquires(), leases()...), administration()...), aggregation()...)
}

func acquires() []site {
	two := map[string]int64{"key": 2}
	all := map[string]int64{"child": 2, "team": 2, "org": 2}
	return []site{
		{name: "acquire, warm", lease: true, takes: two, call: acquire("key", 2),
			prepare: func(r *rig) { r.take(r.l, "key", 1) }},
		{name: "acquire, cold", lease: true, takes: two, call: acquire("key", 2),
			prepare: func(r *rig) { r.take(r.open(), "key", 6) }},
		{name: "acquire, create", lease: true, takes: two, call: acquire("key", 2), prepare: func(*rig) {}},
		{name: "acquire, refill", lease: true, takes: two, call: acquire("key", 2),
			prepare: func(r *rig) { r.take(r.l, "key", 10); time.Sleep(30 * time.Second) }},
		{name: "acquire, changed limits", lease: true, takes: two, call: acquire("key", 2), prepare: func(r *rig) {
			(&world{db: r.db}).store("", resource, []limiter.Limit{limiter.PerMinute("rpm", 6)})
			r.take(r.l, "key", 1)
			(&world{db: r.db}).store("", resource, ten)
			r.l.ForgetConfig()
		}},
		{name: "acquire, mend", lease: true, takes: two, call: acquire("key", 2), prepare: func(r *rig) {
			r.take(r.l, "key", 1)
			it := r.db.Item(layout.BucketKey(namespaceID, "key", resource, 0))
			delete(it, "rf")
			r.db.Store(it)
			r.l = r.open()
		}},
		{name: "acquire, a shard", lease: true, takes: two, call: acquire("key", 2),
			prepare: func(r *rig) { r.take(r.l, "key", 1); r.split("key", 1); r.take(r.l, "key", 1) }},
		{name: "acquire, shard 0 deleted", lease: true, takes: two, call: acquire("key", 2), prepare: func(r *rig) {
			r.take(r.l, "key", 1)
			r.split("key", 1)
			r.db.Delete(layout.BucketKey(namespaceID, "key", resource, 0))
			r.l = r.open()
		}},
		{name: "acquire, several shards", lease: true, takes: map[string]int64{"key": 6}, call: acquire("key", 6),
			prepare: func(r *rig) { r.take(r.l, "key", 1); r.split("key", 2); r.take(r.l, "key", 1) }},
		{name: "acquire, cascade", lease: true, takes: all, call: acquire("child", 2),
			prepare: func(r *rig) { r.take(r.l, "child", 1) }},
		{name: "acquire, cascade, create", lease: true, takes: all, call: acquire("child", 2), prepare: func(*rig) {}},
		{name: "acquire, cascade, shard 0 deleted", lease: true, call: acquire("team", 2),
			takes: map[string]int64{"team": 2, "org": 2}, prepare: func(r *rig) {
				r.take(r.l, "org", 1)
				r.split("org", 1)
				r.db.Delete(layout.BucketKey(namespaceID, "org", resource, 0))
				r.l = r.open()
			}},
		{name: "acquire, cascade, denied", lease: true, takes: map[string]int64{"child": 2, "team": 2, "org": 2},
			call: acquire("child", 2), prepare: func(r *rig) { r.take(r.l, "child", 1); r.take(r.open(), "org", 9) }},
		{name: "wait", lease: true, takes: map[string]int64{"key": 1},
			prepare: func(r *rig) { r.take(r.l, "key", 10) },
			call:    func(r *rig, ctx context.Context) error { _, err := r.l.Wait(ctx, asks("key", 1)); return err }},
		{name: "reserve", takes: map[string]int64{"key": 1},
			prepare: func(r *rig) { r.take(r.l, "key", 10) },
			call:    func(r *rig, ctx context.Context) error { _, _, err := r.l.Reserve(ctx, asks("key", 1)); return err }},
	}
}

// leases are the ways to settle a lease on 4 tokens.
func leases() []site {
	four := func(entity string) func(*rig) {
		return func(r *rig) { r.lease = r.take(r.l, entity, 4) }
	}
	settle := func(actual int64) func(*rig, context.Context) error {
		return func(r *rig, ctx context.Context) error {
			r.must(r.lease.Settle(limiter.Costs{"rpm": actual}))
			return r.lease.Commit(ctx)
		}
	}
	rollback := func(r *rig, ctx context.Context) error { return r.lease.Rollback(ctx) }
	return []site{
		{name: "settle more", again: true, takes: map[string]int64{"key": 3}, prepare: four("key"), call: settle(7)},
		{name: "settle less", again: true, takes: map[string]int64{"key": -1}, prepare: four("key"), call: settle(3)},
		{name: "settled, rollback", again: true, takes: map[string]int64{"key": 2}, prepare: func(r *rig) {
			four("key")(r)
			r.must(r.lease.Settle(limiter.Costs{"rpm": 6}))
		}, call: rollback},
		{name: "charge", lease: true, takes: map[string]int64{"key": 2}, prepare: four("key"),
			call: func(r *rig, ctx context.Context) error { return r.lease.Charge(ctx, limiter.Costs{"rpm": 2}) }},
		{name: "rollback", again: true, takes: map[string]int64{"key": -4}, prepare: four("key"), call: rollback},
		{name: "rollback, several shards", again: true, half: true, takes: map[string]int64{"key": -6}, call: rollback,
			prepare: func(r *rig) {
				r.take(r.l, "key", 1)
				r.split("key", 2)
				r.take(r.l, "key", 1)
				r.lease = r.take(r.l, "key", 6)
			}},
		{name: "rollback, merged", again: true, takes: map[string]int64{"key": -4}, call: rollback,
			prepare: func(r *rig) {
				r.take(r.l, "key", 1)
				r.split("key", 1)
				for r.lease == nil || r.lease.Rollback(r.t.Context()) == nil {
					used := r.shards("key")[1].State.Slots[0].Used
					if r.lease = r.take(r.l, "key", 4); r.shards("key")[1].State.Slots[0].Used > used {
						break
					}
				}
				all := r.shards("key")
				r.must(r.db.Transact(r.t.Context(), "merged-and-so-on", table.Merge(all[0], all[1], 1, time.Now().UnixMilli())))
			}},
		{name: "rollback, cascade", again: true, half: true, call: rollback, prepare: four("child"),
			takes: map[string]int64{"child": -4, "team": -4, "org": -4}},
		{name: "settle more, cascade", again: true, half: true, call: settle(6), prepare: four("child"),
			takes: map[string]int64{"child": 2, "team": 2, "org": 2}},
	}
}

func administration() []site {
	at := admin.Scope{Entity: "key", Resource: resource}
	six := limiter.PerMinute("rpm", 6)
	stored := func(k item.Key) func(*rig) bool { return func(r *rig) bool { return r.db.Item(k) != nil } }
	gone := func(k item.Key) func(*rig) bool { return func(r *rig) bool { return r.db.Item(k) == nil } }
	config, entity := layout.EntityConfigKey(namespaceID, "key", resource), layout.EntityKey(namespaceID, "new")
	level := func(r *rig) int64 { return r.shards("key")[0].State.At(time.Now().UnixMilli()).Slots[0].Tokens }
	return []site{
		{name: "set limits", half: true, again: true, done: stored(config),
			prepare: func(r *rig) { r.take(r.l, "key", 1) },
			call:    func(r *rig, ctx context.Context) error { return r.ns.SetLimits(ctx, at, six) }},
		{name: "delete limits", half: true, done: gone(config), prepare: func(r *rig) {
			r.must(r.ns.SetLimits(r.t.Context(), at, six))
			r.take(r.l, "key", 1)
		}, call: func(r *rig, ctx context.Context) error { return r.ns.DeleteLimits(ctx, at) }},
		{name: "create entity", again: true, done: stored(entity), prepare: func(*rig) {},
			call: func(r *rig, ctx context.Context) error {
				return check.Err(r.ns.CreateEntity(ctx, admin.Entity{ID: "new", Parent: "org", Cascade: true}))
			}},
		{name: "delete entity", done: gone(layout.EntityKey(namespaceID, "key")),
			prepare: func(r *rig) { r.take(r.l, "key", 1) },
			call:    func(r *rig, ctx context.Context) error { _, err := r.ns.DeleteEntity(ctx, "key"); return err }},
		{name: "register namespace", again: true, done: stored(layout.NamespaceKey("new")), prepare: func(*rig) {},
			call: func(r *rig, ctx context.Context) error { _, err := r.tab.Register(ctx, "new"); return err }},
		{name: "delete namespace", done: gone(layout.NamespaceKey("default")), prepare: func(*rig) {},
			call: func(r *rig, ctx context.Context) error { return r.tab.DeleteNamespace(ctx, namespaceID) }},
		{name: "reset", prepare: func(r *rig) { r.take(r.l, "key", 8) },
			done: func(r *rig) bool { return level(r) == 10*bucket.Milli },
			call: func(r *rig, ctx context.Context) error { _, err := r.ns.Reset(ctx, "key", resource); return err }},
		{name: "credit", prepare: func(r *rig) { r.take(r.l, "key", 8) },
			done: func(r *rig) bool { return level(r) >= 5*bucket.Milli },
			call: func(r *rig, ctx context.Context) error {
				return check.Err(r.ns.Credit(ctx, "key", resource, limiter.Costs{"rpm": 3}))
			}},
	}
}

// aggregation is what the aggregator writes.
func aggregation() []site {
	counted := func(r *rig) bool {
		n := int64(0)
		for _, it := range r.db.Items() {
			if k := item.KeyOf(it); strings.HasPrefix(k.SK, "#USAGE#") {
				s, err := ledger.DecodeSnapshot(it)
				r.must(err)
				n += s.Counts["rpm"]
			}
		}
		return n == 2*r.used("key") // of the hour and the day
	}
	meter := func(r *rig, by int64) {
		it := r.db.Item(layout.BucketKey(namespaceID, "key", resource, 0))
		it["b_wcu_tk"] = item.N(-by)
		r.db.Store(it)
	}
	return []site{
		{name: "usage", again: true, prepare: func(r *rig) { r.take(r.l, "key", 4) }, done: counted,
			call: (*rig).aggregate},
		{name: "usage, gone on", again: true, done: counted, call: (*rig).aggregate, prepare: func(r *rig) {
			r.take(r.l, "key", 4)
			r.must(r.aggregate(r.t.Context()))
			r.take(r.l, "key", 3)
		}},
		{name: "aggregator's refill", quiet: true, call: (*rig).aggregate,
			prepare: func(r *rig) {
				r.take(r.l, "key", 9)
				time.Sleep(30 * time.Second)
			},
			done: func(r *rig) bool { return r.shards("key")[0].State.Slots[0].Tokens >= 5*bucket.Milli }},
		{name: "aggregator's split", quiet: true, call: (*rig).aggregate,
			prepare: func(r *rig) {
				r.take(r.l, "key", 1)
				r.must(r.aggregate(r.t.Context()))
				meter(r, 1_000_000)
			},
			done: func(r *rig) bool { return len(r.shards("key")) == 2 }},
	}
}

// aggregate lets the aggregator handle what has changed since it last had done all.
func (r *rig) aggregate(ctx context.Context) error {
	var records []streamtest.Record
	last := r.seq
	for _, c := range r.db.Changes(r.seq) {
		if last = c.Seq; c.Key.SK == layout.SKBucketState {
			records = append(records, streamtest.Record{
				Sequence: c.SequenceNumber(), Created: c.CreatedAt, Old: c.Old, New: c.New,
			})
		}
	}
	out, err := r.agg.Invoke(ctx, streamtest.Payload(records...))
	if err != nil {
		return err
	}
	var answer struct{ BatchItemFailures []json.RawMessage }
	if r.must(json.Unmarshal(bytes.TrimSpace(out), &answer)); len(answer.BatchItemFailures) > 0 {
		return errResumed
	}
	r.seq = last
	return nil
}
