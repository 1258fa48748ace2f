package limiter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// shapes are values that an attribute may have after another writer has damaged it.
var shapes = map[string]item.Value{
	"absent":     nil,
	"null":       item.Null(),
	"a string":   item.S("many"),
	"a flag":     item.Bool(true),
	"a map":      item.Map(item.Item{"rf": item.S("x"), "r": item.N(7)}),
	"a list":     &types.AttributeValueMemberL{Value: []item.Value{item.N(7)}},
	"a set":      &types.AttributeValueMemberNS{Value: []string{"7", "8"}},
	"fractional": &types.AttributeValueMemberN{Value: "0.5"},
	"huge":       &types.AttributeValueMemberN{Value: "123456789012345678901234567890"},
	"most":       item.N(1<<63 - 1),
	"negative":   item.N(-7),
	"least":      item.N(-1 << 63),
	"zero":       item.N(0),
}

// damaged runs play for every attribute of acme's bucket and every shape of it. The bucket has two
// limits, a remainder, and a lease on it.
func damaged(t *testing.T, prepare func(w *world, l *Limiter), play func(t *testing.T, d damage)) {
	begin := func(t *testing.T) damage {
		w := newWorld(t)
		d := damage{w: w, l: w.process(Options{Timeout: 2 * time.Second})}
		w.configure(d.l, "", "", PerMinute("rpm", 10), PerMinute("tpm", 100))
		prepare(w, d.l)
		must(t, d.l, both("beside"))
		must(t, d.l, both(acme))
		w.advance(1001 * time.Millisecond)
		d.lease = must(t, d.l, both(acme))
		return d
	}
	var attrs []string
	synctest.Test(t, func(t *testing.T) {
		d := begin(t)
		attrs = slices.Sorted(maps.Keys(d.w.db.Item(layout.BucketKey(d.l.namespace, acme, gpt, 0))))
	})
	if len(attrs) < 25 || !slices.Contains(attrs, "rr") {
		t.Fatalf("attributes %q", attrs)
	}
	for _, attr := range attrs {
		if attr == item.AttrPK || attr == item.AttrSK {
			continue
		}
		for shape, v := range shapes {
			if strings.HasPrefix(attr, "GSI") && shape != "absent" && shape != "a string" {
				continue // DynamoDB accepts no other type as the key of an index
			}
			t.Run(attr+" "+shape, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := begin(t)
					d.attr = attr
					d.w.edit(d.l, 0, item.Item{attr: v})
					d.w.advance(700 * time.Millisecond)
					play(t, d)
				})
			})
		}
	}
}

func both(entity string) Request {
	return Request{Entity: entity, Resource: gpt, Costs: Costs{"rpm": 1, "tpm": 3}}
}

// damage is a world with one bucket that has one damaged attribute.
type damage struct {
	w     *world
	l     *Limiter // has seen the bucket before
	lease *Lease   // on it
	attr  string
}

// told checks the result of a call on the bucket: it is granted and charged, denied, or the error
// names the unreadable item and the reason.
func (d damage) told(t *testing.T, what string, lease *Lease, err error) {
	t.Helper()
	switch {
	case err == nil:
		if lease != nil && !lease.Charged() {
			t.Errorf("%s: let through, because %v", what, lease.Cause())
		}
	case errors.Is(err, ErrLimited):
	case errors.Is(err, ErrCanceled) && strings.HasSuffix(what, "Wait"): // it has waited for its turn
	case !errors.Is(err, ErrUnreadable), store.KindOf(err) != 0, errors.Is(err, ErrUnavailable), errors.Is(err, ErrSetup):
		t.Errorf("%s: %v, want ErrUnreadable and nothing else", what, err)
	default:
		for _, want := range []string{ErrUnreadable.Error() + ": ", acme + "/" + gpt, "/BUCKET#acme#gpt-4#0", "`zae-limiter reset`"} {
			check.Equal(t, strings.Count(err.Error(), want), 1,
				"%s: %v does not say %s, or not once", what, err, want)
		}
		level := strings.TrimSuffix(d.attr, "_tc") + "_tk" // a charge computes the level from the counter
		if !strings.Contains(err.Error(), d.attr) && !strings.Contains(err.Error(), level) && d.attr != "rr" {
			t.Errorf("%s: %v\ndoes not name %s", what, err, d.attr)
		}
	}
}

// unharmed checks that no other bucket is affected.
func (d damage) unharmed(t *testing.T) {
	t.Helper()
	check.Equal(t, d.l.desks.Breaker.Silent, 0, "the breaker has heard silences")
	d.l.desks.Wait()
	d.w.db.ResetStats()
	must(t, d.l, both("beside"))
	check.Equal(t, d.w.db.Stats().Calls(), 1, "calls for another bucket")
	wantGranted(t, d.w.process(Options{}), both("new"), 10)
}

// A damaged bucket affects only its own callers, whose error names the problem under every policy.
func TestADamagedBucketIsItsOwnTrouble(t *testing.T) {
	t.Parallel()
	damaged(t, func(*world, *Limiter) {}, func(t *testing.T, d damage) {
		for who, l := range map[string]*Limiter{"who has seen it": d.l, "who has not": d.w.process(Options{})} {
			for _, policy := range []Policy{PolicyBlock, PolicyAllow, PolicyLocal} {
				req := both(acme)
				req.OnUnavailable = policy
				lease, err := l.Acquire(t.Context(), req)
				d.told(t, fmt.Sprintf("%s, %s", who, policy), lease, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			lease, err := l.Wait(ctx, both(acme))
			cancel()
			d.told(t, who+", Wait", lease, err)
			lease, _, err = l.Reserve(t.Context(), both(acme))
			d.told(t, who+", Reserve", lease, err)
			l.desks.Wait()
		}
		d.unharmed(t)
	})
}

// A lease on a bucket that is damaged later is settled if possible; otherwise the error names the
// reason.
func TestALeaseOnADamagedBucket(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, d damage) error{
		"more": func(t *testing.T, d damage) error { more(d.lease, Costs{"tpm": 5}); return d.lease.Commit(t.Context()) },
		"less": func(t *testing.T, d damage) error {
			more(d.lease, Costs{"tpm": -2})
			return d.lease.Commit(t.Context())
		},
		"rollback": func(t *testing.T, d damage) error { return d.lease.Rollback(t.Context()) },
		"charge":   func(t *testing.T, d damage) error { return d.lease.Charge(t.Context(), Costs{"rpm": 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			damaged(t, func(*world, *Limiter) {}, func(t *testing.T, d damage) {
				d.told(t, name, nil, end(t, d))
				d.unharmed(t)
			})
		})
	}
}

// In a cascade, a damaged bucket of any level leaves the others unchanged.
func TestADamagedBucketOfACascade(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ child, parent string }{{acme, "above"}, {"below", acme}} {
		damaged(t, func(w *world, l *Limiter) {
			w.db.Store(config.Entity{Namespace: l.namespace, ID: c.child, Parent: c.parent, Cascade: true}.Item())
			w.db.Store(config.Entity{Namespace: l.namespace, ID: c.parent}.Item())
			l.ForgetConfig()
		}, func(t *testing.T, d damage) {
			other := c.child
			if other == acme {
				other = c.parent
			}
			for who, l := range map[string]*Limiter{"who has seen it": d.l, "who has not": d.w.process(Options{})} {
				for _, policy := range []Policy{PolicyBlock, PolicyAllow} {
					before := d.w.rpmOf(d.l, other)
					req := both(c.child)
					req.OnUnavailable = policy
					lease, err := l.Acquire(t.Context(), req)
					d.told(t, fmt.Sprintf("%s, %s", who, policy), lease, err)
					if took := d.w.rpmOf(d.l, other) - before; took != 0 && err != nil || took != 1 && err == nil {
						t.Errorf("%s: %v, and %s was charged %d", who, err, other, took)
					}
				}
				l.desks.Wait()
			}
			d.unharmed(t)
		})
	}
}

// rpmOf returns how much of an entity's rpm is taken, in tokens.
func (w *world) rpmOf(l *Limiter, entity string) int64 {
	it := w.db.Item(layout.BucketKey(l.namespace, entity, gpt, 0))
	if it == nil {
		return 0
	}
	b, err := table.DecodeShard(it)
	check.Must(w.t, err)
	return b.State.Slots[b.State.Index("rpm")].Used / bucket.Milli
}

// A calendar quota of Python clients is refused by name, in a bucket and in stored limits, also by
// processes that cached the limit before.
func TestAQuotaByCalendarIsRefusedByName(t *testing.T) {
	quota := func(it item.Item, prefix string) {
		it[prefix+"rpd_ra"], it[prefix+"rpd_rsched"] = item.N(0), item.S("0 0 * * *=cp")
	}
	synctest.Test(t, func(t *testing.T) {
		for _, stored := range []bool{true, false} {
			w, l := newProcess(t, Options{OnUnavailable: PolicyAllow, ConfigTTL: time.Second})
			w.configure(l, "", gpt, PerDay("rpd", 100))
			req := Request{Entity: acme, Resource: gpt, Costs: Costs{"rpd": 1}}
			must(t, l, req)
			key, prefix, kind := layout.BucketKey(l.namespace, acme, gpt, 0), "b_", ErrUnreadable
			if stored {
				key, prefix, kind = layout.ResourceConfigKey(l.namespace, gpt), "l_", ErrInvalid
			}
			it := w.db.Item(key)
			quota(it, prefix)
			w.db.Store(it)
			w.advance(2 * time.Second)
			for _, who := range []*Limiter{l, w.process(Options{OnUnavailable: PolicyAllow})} {
				lease, err := who.Acquire(t.Context(), req)
				if lease != nil || !errors.Is(err, kind) {
					t.Fatalf("%v, %v; want %v", lease, err, kind)
				}
				for _, want := range []string{prefix + "rpd_rsched", "calendar", key.PK} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%v\ndoes not say %s", err, want)
					}
				}
			}
		}
	})
}

// Unreadable stored configuration fails the requests that need it, by name, until it is repaired.
// It affects neither other requests nor the breaker.
func TestDamagedConfiguration(t *testing.T) {
	odd := item.S("many")
	for _, c := range []struct {
		name   string
		damage func(w *world, l *Limiter) item.Key
		hurt   []string // entities
	}{
		{"limits of an entity and resource", func(w *world, l *Limiter) item.Key {
			w.configure(l, acme, gpt, rpm10)
			return w.spoil(layout.EntityConfigKey(l.namespace, acme, gpt), "l_rpm_cp", odd)
		}, []string{acme}},
		{"limits of a resource", func(w *world, l *Limiter) item.Key {
			w.configure(l, "", gpt, rpm10)
			return w.spoil(layout.ResourceConfigKey(l.namespace, gpt), "l_rpm_rp", nil)
		}, []string{acme, "other"}},
		{"limits of the namespace", func(w *world, l *Limiter) item.Key {
			return w.spoil(layout.SystemConfigKey(l.namespace), "l_rpm_ra", item.N(-1))
		}, []string{acme, "other"}},
		{"the policy of the namespace", func(w *world, l *Limiter) item.Key {
			return w.spoil(layout.SystemConfigKey(l.namespace), "on_unavailable", item.S("maybe"))
		}, []string{acme, "other"}},
		{"an entity's description", func(w *world, l *Limiter) item.Key {
			w.db.Store(config.Entity{Namespace: l.namespace, ID: acme}.Item())
			return w.spoil(layout.EntityKey(l.namespace, acme), "cascade", odd)
		}, []string{acme}},
		{"a parent's description", func(w *world, l *Limiter) item.Key {
			w.db.Store(config.Entity{Namespace: l.namespace, ID: acme, Parent: "above", Cascade: true}.Item())
			w.db.Store(config.Entity{Namespace: l.namespace, ID: "above"}.Item())
			return w.spoil(layout.EntityKey(l.namespace, "above"), "parent_id", item.N(1))
		}, []string{acme}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, Options{OnUnavailable: PolicyAllow}, func(t *testing.T, w *world, l *Limiter) {
				w.configure(l, "", "", rpm10)
				w.configure(l, "own", gpt, rpm10) // regardless of the others
				key := c.damage(w, l)
				for range 2 * desk.BreaksAfter {
					for _, who := range []string{acme, "other", "own"} {
						lease, err := l.Acquire(t.Context(), Request{Entity: who, Resource: gpt, Costs: Costs{"rpm": 1}})
						switch hurt := slices.Contains(c.hurt, who); {
						case !hurt && (err != nil || !lease.Charged()):
							t.Fatalf("%s: %v, %v", who, lease, err)
						case hurt && (lease != nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), key.PK)):
							t.Fatalf("%s: %v, %v; want an ErrInvalid that names %s", who, lease, err, key.PK)
						}
					}
				}
				check.Equal(t, l.desks.Breaker.Silent, 0, "the breaker has heard silences")
				w.db.ResetStats()
				must(t, l, Request{Entity: "own", Resource: gpt, Costs: Costs{"rpm": 1}})
				check.Equal(t, w.db.Stats().Reads, 0, "reads for a request that it does not decide on")
				w.db.Store(w.mended)
				must(t, l, Request{Entity: acme, Resource: gpt, Costs: Costs{"rpm": 1}})
			})
		})
	}
}

// spoil changes an attribute of an item like another writer, and keeps the original item.
func (w *world) spoil(k item.Key, attr string, v item.Value) item.Key {
	w.mended = w.db.Item(k)
	it := maps.Clone(w.mended)
	if it[attr] = v; v == nil {
		delete(it, attr)
	}
	w.db.Store(it)
	return k
}

// A remaining shard that cannot be read while shard 0 is missing: the bucket's grants are unknown,
// so it is not created again.
func TestUnreadableLeftoverShardsStopCreation(t *testing.T) {
	w, l := headless(t, 8, PerHour("rph", 40))
	w.edit(l, 1, item.Item{"rf": item.S("bad")})
	before := w.db.Snapshot()
	for range 2 * desk.BreaksAfter {
		if lease, err := l.Acquire(t.Context(), asks(Costs{"rph": 1}, PerHour("rph", 40))); !errors.Is(err, ErrUnreadable) {
			t.Fatalf("%v, %v; want ErrUnreadable", lease, err)
		}
	}
	w.sameTable(before)
}

// leaving is a table that performs and answers the first write just after its caller has left.
type leaving struct {
	store.Store
	leave context.CancelFunc
}

func (s *leaving) Write(ctx context.Context, w item.Write) (item.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	it, err := s.Store.Write(ctx, w)
	s.leave()
	time.Sleep(time.Millisecond) // the caller leaves
	return it, err
}

// A write that does not check the damaged attribute takes tokens before the damage is noticed: they
// are given back, even if the caller has left. If they cannot be given back, the outcome is
// unknown.
func TestTokensOfADamagedBucketAreGivenBack(t *testing.T) {
	for name, c := range map[string]struct {
		leaves, fails bool // the caller, giving back
		want          error
		unknown       bool
		used          int64
	}{
		"given back":                  {false, false, ErrUnreadable, false, 6},
		"given back, the caller left": {true, false, ErrCanceled, true, 6},
		"not given back":              {false, true, ErrUnreadable, true, 7},
	} {
		inBubble(t, Options{}, func(t *testing.T, w *world, l *Limiter) {
			must(t, l, asks(Costs{"rpm": 6}, rpm10))
			w.edit(l, 0, item.Item{"b_tpm_tk": item.S("many")})
			before := w.db.Item(layout.BucketKey(l.namespace, acme, gpt, 0))
			l, ctx := w.blinds(w.bystander(l), acmeGPT), t.Context()
			if c.fails {
				l.store.Store = &blind{Store: w.db}
				w.db.SetHook(onCall(isWrite, 1, func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Setup) }))
			}
			if c.leaves {
				gone, leave := context.WithCancel(ctx)
				ctx, l.store.Store = gone, &leaving{l.store.Store, leave}
			}
			w.db.ResetStats()
			lease, err := l.Acquire(ctx, asks(Costs{"rpm": 1}, rpm10))
			l.desks.Wait()
			if lease != nil || !errors.Is(err, c.want) || errors.Is(err, ErrUnknown) != c.unknown {
				t.Errorf("%s: %v, %v, want %v, unknown: %v", name, lease, err, c.want, c.unknown)
			}
			if n := w.db.Stats().WriteUnits; n != 2 && !c.fails {
				t.Errorf("%s: %v write units, want 2: one took the token", name, n)
			}
			it := w.db.Item(layout.BucketKey(l.namespace, acme, gpt, 0))
			if !item.Equal(it["b_rpm_tc"], item.N(c.used*bucket.Milli)) ||
				item.Equal(it["b_rpm_tk"], before["b_rpm_tk"]) == c.fails {
				t.Errorf("%s: %v of rpm are used, and %v left of %v; want %d tokens", name, it["b_rpm_tc"], it["b_rpm_tk"],
					before["b_rpm_tk"], c.used)
			}
		})
	}
}
