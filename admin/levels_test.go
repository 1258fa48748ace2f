package admin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// acquire asks for tokens of acme on gpt-4.
func acquire(l *limiter.Limiter, costs limiter.Costs) (*limiter.Lease, error) {
	return l.Acquire(context.Background(), limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: costs})
}

// drained returns how many tokens a client can take from a bucket one by one.
func (w *world) drained(l *limiter.Limiter) int {
	w.Helper()
	return w.tries(l, 1, 0)
}

// left returns what the whole bucket has left of rpm.
func (w *world) left() int {
	w.Helper()
	return int(w.peek("acme", "gpt-4")[0].Levels[0].Remaining)
}

// grants checks that clients who know the bucket empty find what was added, as they
// look at one shard after the other, and that what they do not find is still there.
func (w *world) grants(ls []*limiter.Limiter, want int) {
	w.Helper()
	check.Equal(w, w.left(), want)
	granted := 0
	for range 4 {
		w.advance(1100 * time.Millisecond) // longer than a denial is remembered
		for _, l := range ls {
			granted += w.drained(l)
		}
	}
	if granted < want/4 || granted+w.left() != want {
		w.Errorf("%d granted and %d left, want %d", granted, w.left(), want)
	}
}

// A reset bucket grants its capacity once more, on any number of shards, to clients
// that know it empty too; a credited one what was credited.
func TestResetAndCredit(t *testing.T) {
	for _, splits := range []int{0, 2} {
		w := newWorld(t)
		w.set(Scope{}, limiter.PerHour("rpm", 80), limiter.PerHour("tpm", 1000))
		w.split("acme", "gpt-4", splits)
		ls := []*limiter.Limiter{w.limiter(), w.limiter()}
		for _, l := range ls {
			w.drained(l)
		}
		before := w.left()
		added, err := w.ns.Reset(t.Context(), "acme", "gpt-4", "rpm")
		w.must(err)
		check.Equal(t, int(added["rpm"]), 80-before, "reset")
		w.grants(ls, 80)
		before = w.left()
		added, err = w.ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 32, "tpm": 5})
		if want := min(32, 80-before); err != nil || int(added["rpm"]) != want || added["tpm"] != 0 {
			t.Errorf("credit: %v, %v, want %d", added, err, want)
		}
		w.grants(ls, before+int(added["rpm"]))
		before = w.left()
		added, err = w.ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 1000})
		if err != nil || int(added["rpm"]) != 79-before && int(added["rpm"]) != 80-before || w.left() != 80 {
			t.Errorf("credit above capacity: %v, %v, %d left", added, err, w.left())
		}
		e := w.events(Scope{Entity: "acme"})
		if len(e) != 3 || e[2].Action != "bucket_reset" || e[1].Action != "bucket_credited" || e[1].Resource != "gpt-4" ||
			e[1].Details["tokens"].(map[string]any)["tpm"] != int64(0) {
			t.Errorf("events %+v", e)
		}
	}
}

// A debt is forgiven by a reset, and paid by a credit.
func TestDebtIsForgiven(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerHour("rpm", 10))
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
	b := w.bucket("acme", "gpt-4", 0)
	b.State.Slots[0].Tokens = -50_000
	w.db.Store(b.Item())
	w.must(check.Err(w.ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 20})))
	check.Equal(t, w.bucket("acme", "gpt-4", 0).State.Slots[0].Tokens, -30_000, "level")
	w.must(check.Err(w.ns.Reset(t.Context(), "acme", "gpt-4")))
	sl := w.bucket("acme", "gpt-4", 0).State.Slots[0]
	check.Equal(t, sl.Tokens, 10_000, "level")
	check.Equal(t, sl.Used, 1000, "used")
}

// A client that takes between the look and the write gets nothing twice.
func TestCreditUnderTraffic(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerHour("rpm", 80))
	l := w.limiter()
	taken := 0
	take := func() {
		if _, err := acquire(l, limiter.Costs{"rpm": 1}); err == nil {
			taken++
		}
	}
	for range 50 {
		take()
	}
	w.before(memdynamo.TransactWriteItems, 1, func() {
		for range 10 {
			take()
		}
	})
	w.must(check.Err(w.ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 20})))
	check.Equal(t, taken+w.left(), 100, "granted or left, want 80 and the 20 credited")
}

func TestBadRaises(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
	w.wants(check.Err(w.ns.Reset(t.Context(), "acme", "gpt-4", "wcu")), ErrNotFound)
	w.wants(check.Err(w.ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"tpm": 1})), ErrNotFound)
}

// A client that knows the bucket from before, and has tokens left by what it knows,
// does not take away again what was added.
func TestCreditsLast(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerHour("rpm", 10))
	l := w.limiter()
	req := limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 5}}
	w.must(check.Err(l.Acquire(t.Context(), req)))
	w.must(check.Err(w.ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 4})))
	req.Costs["rpm"] = 1
	w.must(check.Err(l.Acquire(t.Context(), req)))
	check.Equal(t, w.left(), 8, "left of 10, less 5, and 4, less 1")
}

// A reset of one limit leaves the others as they are, and says nothing of them.
func TestResetOfOneLimitLeavesTheOthers(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.PerHour("rpm", 80), limiter.PerHour("tpm", 1000))
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 30, "tpm": 400})
	added, err := w.ns.Reset(t.Context(), "acme", "gpt-4", "rpm", "rpm") // which is filled, and counted, once
	w.must(err)
	check.Deep(t, added, map[string]int64{"rpm": 30}, "added")
	levels := w.peek("acme", "gpt-4")[0].Levels
	check.Equal(t, levels[0].Remaining, 80)
	check.Equal(t, levels[1].Remaining, 600)
}

// What does not fit into one shard goes to others, and what fits into none is not given.
func TestDivide(t *testing.T) {
	for _, c := range []struct {
		milli int64
		rooms []int64
		want  []int64
	}{
		{100, []int64{100}, []int64{100}}, {100, []int64{100, 100}, []int64{50, 50}},
		{100, []int64{10, 100}, []int64{10, 90}},
		{100, []int64{100, 10}, []int64{90, 10}}, {100, []int64{10, 20}, []int64{10, 20}},
		{100, []int64{-5, 70}, []int64{0, 70}},
		{0, []int64{5, 5}, []int64{0, 0}},
		{100, []int64{10, 60, 60, 5}, []int64{10, 60, 25, 5}},
	} {
		check.Slices(t, divide(c.milli, c.rooms), c.want, "%d over %v", c.milli, c.rooms)
	}
}

// A bucket of very many shards is raised in several transactions, on all of them. After one that fails no other is
// sent. One that is refused is tried again only where nothing is written yet. Where nothing is, nothing was added.
func TestResetOfVeryManyShards(t *testing.T) {
	for _, c := range []struct {
		refused    bool
		from, want int // the first transaction that fails, and how many are sent
		err        error
	}{
		{false, 3, 2, nil}, {false, 1, 1, limiter.ErrUnavailable}, {false, 2, 2, limiter.ErrUnknown},
		{true, 1, callAttempts, ErrBusy}, {true, 2, 2, ErrBusy}, {true, 2, 2, limiter.ErrUnknown},
	} {
		w := newWorld(t)
		w.set(Scope{}, limiter.PerHour("rpm", 12_800))
		w.split("acme", "gpt-4", 7)
		for k := range 128 {
			w.spoil("acme", k, item.Item{"b_rpm_tk": item.N(0)})
		}
		sent := 0
		w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
			if op.Name != memdynamo.TransactWriteItems {
				return true, nil
			}
			if sent++; sent < c.from {
				return true, nil
			}
			reasons := make([]store.Reason, len(op.Writes))
			if reasons[0].Refused = true; c.refused {
				return false, &store.Canceled{Reasons: reasons}
			}
			return false, memdynamo.Fail(store.Unavailable)
		})
		added, err := w.ns.Reset(t.Context(), "acme", "gpt-4")
		w.db.SetHook(nil)
		if sent != c.want || !errors.Is(err, c.err) {
			t.Errorf("from transaction %d on, refused %v: %d sent, want %d: %v", c.from, c.refused, sent, c.want, err)
		}
		check.Equal(t, len(added) == 0, c.from == 1, "from transaction %d on: added %v", c.from, added)
		if c.err == nil && (added["rpm"] != 12_800 || w.left() != 12_800) {
			t.Errorf("added %v, %d left; want 12800", added, w.left())
		}
	}
}

// Only a credit makes a bucket. A reset of one that is not there, with a quota or without, changes nothing.
func TestResetWithoutABucket(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.Quota("rpd", 10, limiter.Daily("")), rpm10)
	before := w.db.Snapshot()
	for _, limits := range [][]string{nil, {"rpm"}, {"rpd"}} {
		added, err := w.ns.Reset(t.Context(), "acme", "gpt-4", limits...)
		if err != nil || len(added) != 0 || w.db.Len() != before.Len() {
			t.Errorf("%q: added %v, %v, %d items, before %d", limits, added, err, w.db.Len(), before.Len())
		}
	}
}

// A limit has room for what it lacks, with what was credited on top, and for nothing where it is full or more
// than that. The meter and slots have none.
func TestRoomOfLimits(t *testing.T) {
	rate := bucket.Limit{Name: "rps", Capacity: 10_000, Amount: 1_000, Period: 1_000}
	quota := bucket.Limit{Name: "rpd", Capacity: 20_000, Period: bucket.QuotaPeriod, Reset: string(limiter.Daily(""))}
	slots := bucket.Limit{Name: "jobs", Capacity: 3_000, Period: 30_000, InFlight: true}
	var shards []table.Shard
	for _, tokens := range []int64{10_000, 4_000, -3_000, 11_000} {
		s := bucket.New([]bucket.Limit{rate, quota, slots}, 0, 1, start)
		s.Slots[s.Index("rps")].Tokens = tokens
		q := &s.Slots[s.Index("rpd")]
		q.Tokens, q.Extra = tokens, 500
		shards = append(shards, table.Shard{State: s})
	}
	got := rooms(shards, start)
	want := map[string]room{"rps": {by: []int64{0, 6_000, 13_000, 0}},
		"rpd": {by: []int64{10_500, 16_500, 23_500, 9_500}, quota: true}}
	check.Deep(t, got, want)
}

var someCalendars = map[string]limiter.Calendar{"daily": limiter.Daily(""), "first": limiter.FromFirstUse(time.Hour)}

// A quota that is topped up grants its amount and the credit, on any number of shards, and
// only the amount in the next period. What is credited twice by one id is credited once.
func TestAQuotaIsToppedUpOnce(t *testing.T) {
	for name, c := range someCalendars {
		for _, splits := range []int{0, 2} {
			if name == "first" && splits > 0 {
				continue // it is not split
			}
			w := newWorld(t)
			w.set(Scope{}, limiter.Quota("rpm", 40, c), limiter.PerHour("rph", 9))
			granted := 0
			if splits > 0 {
				w.split("acme", "gpt-4", splits)
				granted++
			}
			ns := w.once("invoice-1")
			var ls []*limiter.Limiter
			for range 2 {
				ls = append(ls, w.limiter())
				added, err := ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 25})
				w.must(err)
				check.Equal(t, added["rpm"], 25, "%s: credit", name)
			}
			drained := func() (n int) {
				for range 5 {
					n += w.drained(ls[0]) + w.drained(ls[1])
					w.advance(1100 * time.Millisecond) // longer than a denial is remembered
				}
				return n
			}
			check.Equal(t, granted+drained(), 65, "%s, %d splits: granted of 40 and 25", name, splits)
			w.advance(25 * time.Hour)
			check.Equal(t, drained(), 40, "%s, %d splits: granted in the next period", name, splits)
			if e := w.events(Scope{Entity: "acme"}); len(e) != 1 || e[0].Details["id"] != "invoice-1" {
				t.Errorf("events %+v", e)
			}
			check.Is(t, check.Err(ns.Reset(t.Context(), "acme", "gpt-4")), validate.ErrInvalid,
				"a reset by the id of a credit")
		}
	}
}

// A reset makes a quota whole, with what it was topped up by. What a lease took before is not
// given back after it: it was forgiven.
func TestAResetQuotaTakesNothingBack(t *testing.T) {
	for name, c := range someCalendars {
		w := newWorld(t)
		w.set(Scope{}, limiter.Quota("rpm", 40, c))
		l := w.limiter()
		lease, err := acquire(l, limiter.Costs{"rpm": 30})
		w.must(err)
		w.must(check.Err(w.ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 5})))
		added, err := w.ns.Reset(t.Context(), "acme", "gpt-4")
		w.must(err)
		check.Equal(t, added["rpm"], 30, "%s: reset", name)
		w.must(lease.Rollback(t.Context()))
		w.advance(1100 * time.Millisecond)
		later, err := acquire(l, limiter.Costs{"rpm": 20})
		w.must(err)
		w.must(later.Rollback(t.Context()))
		check.Equal(t, w.drained(l), 45, "%s: granted after the reset", name)
	}
}

// An id is used once for each bucket: the same one credits others, too, and another one the same.
func TestAnOperationIsOfItsBucket(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, limiter.Quota("rpm", 40, limiter.Daily("")))
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "acme", Parent: "org", Cascade: true})
	ns := w.once("n-1")
	for _, of := range []Scope{{"acme", "gpt-4"}, {"beta", "gpt-4"}, {"acme", "o3"}, {"acme", "gpt-4"}} {
		added, err := ns.Credit(t.Context(), of.Entity, of.Resource, limiter.Costs{"rpm": 8})
		w.must(err)
		check.Equal(t, added["rpm"], 8, "%s", of)
		got := w.peek(of.Entity, of.Resource)
		check.Equal(t, got[0].Levels[0].Remaining, 48, "%s: %+v", of, got[0].Levels)
	}
	added, err := w.once("n-2").Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 8})
	w.must(err)
	check.Equal(t, added["rpm"], 8, "another id")
	got := w.peek("acme", "gpt-4")
	check.Equal(t, got[0].Levels[0].Remaining, 56, "another id: %+v", got[0].Levels)
	if b := w.bucket("acme", "gpt-4", 0); b.Parent != "org" || !b.Cascade {
		t.Errorf("the bucket that a credit has made does not know its parent: %+v", b)
	}
}

// What an id may be, at its bounds.
func TestIdsOfOperations(t *testing.T) {
	w := newWorld(t)
	for id, valid := range map[string]bool{
		"a": true, "azAZ09.-_:": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "a b": false, "a/b": false, "a;b": false, "a@b": false, "a[b": false,
		"a`b": false, "a{b": false, "é": false,
	} {
		if ns, err := w.ns.Once(id); valid != (err == nil) || !valid && !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("%q: %v, %v", id, ns, err)
		}
	}
}

// Where it cannot be read whether an operation was carried out, it is not carried out.
func TestUnreadableOperationsAreNotCarriedOut(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.take("acme", "gpt-4", limiter.Costs{"rpm": 5})
	ns := w.once("n-1")
	w.must(check.Err(ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 2})))
	w.db.Store(spoilt(w.db.Item(ns.operationOf(Scope{"acme", "gpt-4"}, table.OperationTopUp).Key())))
	added, err := ns.Credit(t.Context(), "acme", "gpt-4", limiter.Costs{"rpm": 2})
	check.Says(t, err, `"operation"`)
	check.Equal(t, len(added), 0, "added")
	check.Equal(t, w.left(), 7, "left")
}
