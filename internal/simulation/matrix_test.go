package simulation

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/streams"
)

var update = flag.Bool("update", false, "write the golden of the failure matrix anew")

// fault is something that happens to one call of a site.
type fault struct {
	name    string
	forever bool // to every call from that one on
	before  bool // the caller has gone before the site is called
	hook    func(r *rig, op memdynamo.Op) (apply bool, err error)
}

func injects(apply bool, kind store.Kind) func(*rig, memdynamo.Op) (bool, error) {
	return func(*rig, memdynamo.Op) (bool, error) { return apply, memdynamo.Fail(kind) }
}

var faults = []fault{
	{name: "refused", hook: (*rig).refused},
	{name: "answer lost", hook: injects(true, store.Unknown)},
	{name: "throttled", hook: injects(false, store.Throttled)},
	{name: "throttled on", hook: injects(false, store.Throttled), forever: true},
	{name: "conflict", hook: injects(false, store.Conflict)},
	{name: "down", hook: injects(false, store.Unavailable), forever: true},
	{name: "canceled before", before: true},
	{name: "canceled after", hook: func(r *rig, _ memdynamo.Op) (bool, error) {
		r.cancel()
		time.Sleep(time.Millisecond) // the caller leaves
		return true, nil
	}},
	{name: "hung", hook: func(_ *rig, op memdynamo.Op) (bool, error) { <-op.Done; return false, nil }},
}

// rig is a table in which one site meets one fault.
type rig struct {
	t      *testing.T
	db     *memdynamo.DB
	l      *limiter.Limiter
	tab    *admin.Table
	ns     *admin.Namespace
	agg    *streams.Aggregator
	lease  *limiter.Lease
	cancel context.CancelFunc
	broken []string
	seq    int64 // the last change that is not for the aggregator any more
}

// memory is a table in memory where a DynamoDB client is asked for.
type memory struct {
	streams.DynamoDB // never called
	*memdynamo.DB
}

var ten = []limiter.Limit{limiter.PerMinute("rpm", 10)}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, db: memdynamo.New(nil)}
	w := &world{db: r.db, tree: map[string]string{}}
	created := layout.Timestamp(time.Now().UnixMilli())
	ns := config.Namespace{ID: namespaceID, Name: "default", CreatedAt: created}
	w.db.Store(config.Version{Schema: "0.9.0", ClientMin: "0.0.0", UpdatedAt: created}.Create().Item)
	w.db.Store(ns.Forward())
	w.db.Store(ns.Reverse())
	w.store("", resource, ten)
	for _, e := range []config.Entity{{ID: "org"}, {ID: "team", Parent: "org", Cascade: true},
		{ID: "child", Parent: "team", Cascade: true}, {ID: "key"}} {
		e.Namespace, e.CreatedAt = namespaceID, created
		r.db.Store(e.Item())
	}
	r.l = r.open()
	var err error
	r.tab, err = admin.Open(t.Context(), memory{DB: r.db}, "table", &admin.Options{Principal: "matrix"})
	r.must(err)
	r.ns, err = r.tab.Namespace(t.Context(), "default")
	r.must(err)
	r.agg, err = streams.New(streams.Options{DynamoDB: memory{DB: r.db}, Table: "table", Concurrency: 1})
	r.must(err)
	return r
}

func (r *rig) open() *limiter.Limiter {
	l, err := limiter.Open(r.t.Context(), memory{DB: r.db}, "table", &limiter.Options{MaxShards: 4})
	r.must(err)
	return l
}

func (r *rig) must(err error) {
	r.t.Helper()
	check.Must(r.t, err)
}

func (r *rig) errorf(format string, args ...any) {
	r.broken = append(r.broken, fmt.Sprintf(format, args...))
}

func asks(entity string, rpm int64) limiter.Request {
	return limiter.Request{Entity: entity, Resource: resource, Costs: limiter.Costs{"rpm": rpm}}
}

// take acquires without faults and returns the lease.
func (r *rig) take(l *limiter.Limiter, entity string, rpm int64) *limiter.Lease {
	r.t.Helper()
	lease, err := l.Acquire(r.t.Context(), asks(entity, rpm))
	r.must(err)
	return lease
}

// refused is the refusal of a write whose condition would have held, as if somebody
// had changed the item and changed it back. Reads are not refused.
func (r *rig) refused(op memdynamo.Op) (bool, error) {
	c := &store.Canceled{Reasons: make([]store.Reason, len(op.Writes))}
	for i, w := range op.Writes {
		old := r.db.Item(w.Target())
		if strings.HasPrefix(w.Target().SK, layout.SKAuditPrefix) {
			continue // its key is random
		}
		if old != nil {
			changed := maps.Clone(old)
			for _, attr := range []string{"gn", "rf", "b_rpm_tc", "b_rpm_tk", "shard_count", "parent_id"} {
				changed[attr] = item.N(1 << 50)
			}
			if _, held, err := w.Apply(changed); held && err == nil {
				continue // whatever others do, it holds
			}
		}
		if op.Name != memdynamo.TransactWriteItems {
			return false, &store.Refused{Old: old}
		}
		c.Reasons[i] = store.Reason{Refused: true, Old: old}
		return false, c
	}
	return true, nil
}

// way is how long a call is on its way, which depends on what it is about.
func way(op memdynamo.Op) time.Duration {
	target := op.Query.PK
	switch {
	case len(op.Writes) > 0:
		target = op.Writes[0].Target().PK
	case len(op.Keys) > 0:
		target = op.Keys[0].PK
	}
	return time.Millisecond + time.Duration(hash(target)%1_000_000)
}

// reads reports whether a call writes nothing.
func reads(op memdynamo.Op) bool {
	return op.Name == memdynamo.BatchGetItem || op.Name == memdynamo.Query
}

// shards returns the stored shards of an entity's bucket.
func (r *rig) shards(entity string) (out []table.Shard) {
	for k := range maxShards {
		it := r.db.Item(layout.BucketKey(namespaceID, entity, resource, k))
		if it == nil {
			continue
		}
		b, err := table.DecodeShard(it)
		if err != nil || len(b.Partial) > 0 {
			r.errorf("shard %d of %s cannot be read: %v", k, entity, err)
			continue
		}
		out = append(out, b)
	}
	return out
}

// used returns what has been taken of an entity's bucket, in tokens.
func (r *rig) used(entity string) (tokens int64) {
	for _, b := range r.shards(entity) {
		if i := b.State.Index("rpm"); i >= 0 {
			tokens += b.State.Slots[i].Used / bucket.Milli
		}
	}
	return tokens
}

// there returns what an entity's bucket holds now, in millitokens.
func (r *rig) there(entity string) (milli int64) {
	shards := r.shards(entity)
	if len(shards) == 0 {
		return 10 * bucket.Milli
	}
	for _, b := range shards {
		at := b.State.At(time.Now().UnixMilli())
		if i := at.Index("rpm"); i >= 0 {
			milli += at.Slots[i].Tokens
		}
	}
	return milli
}

// split doubles the shards of an entity's bucket so many times.
func (r *rig) split(entity string, times int) {
	for n := range times {
		for _, b := range r.shards(entity) {
			token := fmt.Sprintf("split-%d-%d-and-so-on", n, b.State.Shard)
			r.must(r.db.Transact(r.t.Context(), token, table.Split(b, time.Now().UnixMilli())))
		}
	}
}

// site is one place that calls the table.
type site struct {
	name    string
	prepare func(r *rig)
	call    func(r *rig, ctx context.Context) error
	takes   map[string]int64  // tokens by entity that it takes, or gives back if negative, when it is done
	done    func(r *rig) bool // of what takes nothing: whether it is
	again   bool              // if nothing was written it can be repeated, and is done then
	half    bool              // it can be done in part, which is said
	quiet   bool              // it does not tell: what is not done is left to others
	lease   bool              // what it takes is granted to a caller
}

func acquire(entity string, rpm int64) func(*rig, context.Context) error {
	return func(r *rig, ctx context.Context) error { return check.Err(r.l.Acquire(ctx, asks(entity, rpm))) }
}

// TestFailureMatrix: every call of every site meets every fault. Nothing is admitted
// or given back beyond what there is, and what the caller is told is what has
// happened. The table that it prints is kept in testdata, so that a change of any
// outcome is seen: of each call of the site in its order, what the caller was told,
// and how much of the work was done: + all, 0 nothing, ~ a part.
func TestFailureMatrix(t *testing.T) {
	var out strings.Builder
	tab := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprint(tab, "site")
	for _, f := range faults {
		fmt.Fprintf(tab, "\t%s", f.name)
	}
	fmt.Fprintln(tab)
	for _, s := range sites() {
		fmt.Fprint(tab, s.name)
		for _, f := range faults {
			fmt.Fprintf(tab, "\t%s", cell(t, s, f))
		}
		fmt.Fprintln(tab)
	}
	tab.Flush()
	t.Log("\n" + out.String())
	check.Golden(t, filepath.Join("testdata", "matrix.txt"), out.String(), *update)
}

// cell lets a site meet a fault in each of its calls.
func cell(t *testing.T, s site, f fault) string {
	var outcomes, broken []string
	most := 1
	if !f.before {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			s.prepare(r)
			if _, most = r.meet(s, fault{name: "none"}, -1); most > 12 {
				t.Errorf("%s makes %d calls", s.name, most)
			}
			time.Sleep(10 * time.Second)
			broken = append(broken, r.broken...)
		})
	}
	for nth := range most {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			s.prepare(r)
			o, _ := r.meet(s, f, nth)
			outcomes = append(outcomes, o)
			time.Sleep(10 * time.Second)
			broken = append(broken, r.broken...)
		})
	}
	for _, b := range broken {
		t.Error(b)
	}
	for i := len(outcomes) - 1; i > 0 && outcomes[i] == outcomes[i-1]; i-- {
		outcomes = outcomes[:i] // the same for all later ones
	}
	return strings.Join(outcomes, " ")
}

// meet calls a site, whose nth call meets the fault, and checks what comes of it.
func (r *rig) meet(s site, f fault, nth int) (outcome string, calls int) {
	before, there := map[string]int64{}, map[string]int64{}
	for _, e := range entitiesOf(s) {
		before[e], there[e] = r.used(e), r.there(e)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	if r.cancel = cancel; f.before {
		cancel()
	}
	mu := make(chan int, 1)
	mu <- 0
	r.db.SetHook(func(op memdynamo.Op) (bool, error) {
		time.Sleep(way(op)) // calls that are made at once come one after the other
		n := <-mu
		mu <- n + 1
		if !f.before && (n == nth || f.forever && n >= nth) {
			apply, err := f.hook(r, op)
			switch kind := store.KindOf(err); {
			case reads(op) && kind == store.Unknown:
				return false, memdynamo.Fail(store.Unavailable)
			case reads(op) && kind == store.Conflict:
				return true, nil
			}
			return apply, err
		}
		return true, nil
	})
	begin := time.Now()
	err := s.call(r, ctx)
	time.Sleep(time.Second) // background work ends, the breaker closes
	r.db.SetHook(nil)
	calls = <-mu
	told, effect := toldOf(err), r.effect(s, before)
	name := fmt.Sprintf("%s, %s, call %d: told %s, effect %s: %v", s.name, f.name, nth, told, effect, err)
	switch {
	case s.quiet:
	case told == "ok" && effect != "+",
		(told == "unavail" || told == "cancel" || told == "denied") && effect != "0" && !(s.half && effect == "~"):
		r.errorf("%s", name)
	case told == "another error":
		r.errorf("%s", name)
	}
	if told == "unavail" && s.again {
		if err := s.call(r, r.t.Context()); err != nil {
			r.errorf("%s; %v when repeated", name, err)
		}
		if again := r.effect(s, before); again != "+" {
			r.errorf("%s; %s when repeated", name, again)
		}
	}
	r.bounded(s, name, there, told, begin)
	return told + effect, calls
}

func entitiesOf(s site) []string {
	var out []string
	for _, e := range []string{"key", "child", "team", "org"} {
		if _, ok := s.takes[e]; ok {
			out = append(out, e)
		}
	}
	return out
}

// effect returns how much of the work of a site is done.
func (r *rig) effect(s site, before map[string]int64) string {
	if s.done != nil {
		if s.done(r) {
			return "+"
		}
		return "0"
	}
	all, none := true, true
	for e, n := range s.takes {
		got := r.used(e) - before[e]
		if got < min(n, 0) || got > max(n, 0) {
			r.errorf("%s: %s was charged %d, at most %d was to be", s.name, e, got, n)
		}
		all, none = all && got == n, none && got == 0
	}
	switch {
	case all:
		return "+"
	case none:
		return "0"
	}
	return "~"
}

// bounded checks that nobody is granted more than there was: what the caller was
// granted, and what a process that knows nothing can take now.
func (r *rig) bounded(s site, name string, there map[string]int64, told string, begin time.Time) {
	for _, e := range entitiesOf(s) {
		granted := int64(0)
		if s.lease && told == "ok" {
			granted = s.takes[e]
		}
		if !s.lease {
			granted = min(s.takes[e], 0) // given back at most
		}
		l := r.open()
		for {
			_, err := l.Acquire(r.t.Context(), asks(e, 1))
			if err != nil {
				break
			}
			granted++
		}
		if most := (there[e] + int64(time.Since(begin).Milliseconds())*10_000/60_000) / bucket.Milli; granted > most {
			r.errorf("%s: %s: %d granted, %d were there", name, e, granted, most)
		}
	}
}

func toldOf(err error) string {
	_, unsettled := errors.AsType[*limiter.SettleError](err)
	unreached := errors.Is(err, admin.ErrReach)
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, limiter.ErrLimited) && (unsettled || errors.Is(err, limiter.ErrUnknown)):
		return "denied?" // it says that it may have charged somebody
	case unreached:
		return "unreached" // stored, but not brought to all buckets
	case errors.Is(err, admin.ErrExists):
		return "exists"
	case errors.Is(err, limiter.ErrUnknown):
		return "unknown"
	case errors.Is(err, limiter.ErrCanceled), errors.Is(err, context.Canceled):
		return "cancel"
	case errors.Is(err, limiter.ErrUnavailable):
		return "unavail"
	case errors.Is(err, limiter.ErrLimited):
		return "denied"
	case errors.Is(err, errResumed):
		return "resumed"
	case errors.Is(err, admin.ErrBusy):
		return "busy"
	}
	return "another error"
}

var errResumed = errors.New("to be resumed")
