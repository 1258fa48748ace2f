package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// world is a table in memory with a clock that only the test moves.
type world struct {
	*testing.T
	db    *memdynamo.DB
	now   atomic.Int64
	table *Table
	ns    *Namespace
}

const start = 1_700_000_000_000

// ages is a bound that no call comes near, however slow the machine is.
const ages = 24 * time.Hour

func newWorld(t *testing.T, change ...func(*Options)) *world {
	w := &world{T: t}
	w.now.Store(start)
	w.db = memdynamo.New(w.now.Load)
	w.db.PageSize = 2 // every listing is longer than a page
	opts := &Options{Now: func() time.Time { return time.UnixMilli(w.now.Load()) }, Principal: "alice", Timeout: ages}
	for _, f := range change {
		f(opts)
	}
	var err error
	w.table, err = open(t.Context(), w.db, opts)
	check.Must(t, err)
	w.ns, err = w.table.Register(t.Context(), "prod")
	check.Must(t, err)
	return w
}

func (w *world) advance(d time.Duration) { w.now.Add(d.Milliseconds()) }

// must fails the test if what it wraps did.
func (w *world) must(err error) {
	w.Helper()
	check.Must(w, err)
}

// inWords reports whether the text of an error is what was meant: no value without its place in it.
func inWords(err error) bool { return !strings.Contains(err.Error(), "%!") }

// wants fails the test unless err is what is wanted.
func (w *world) wants(err, want error) {
	w.Helper()
	if !errors.Is(err, want) || !inWords(err) {
		w.Fatalf("error is %v, want %v", err, want)
	}
}

func (w *world) set(at Scope, limits ...limiter.Limit) {
	w.Helper()
	w.must(w.ns.SetLimits(w.Context(), at, limits...))
}

// collect returns everything that a listing yields.
func collect[T any](t *testing.T, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var out []T
	for v, err := range seq {
		check.Must(t, err)
		out = append(out, v)
	}
	return out
}

// limiter returns a client of the namespace.
func (w *world) limiter() *limiter.Limiter {
	w.Helper()
	l, err := limiter.Open(context.Background(), twin{DB: w.db}, "t", &limiter.Options{
		Namespace: w.ns.Name(), Timeout: ages, ConfigTTL: -1, Now: func() time.Time { return time.UnixMilli(w.now.Load()) },
	})
	check.Must(w, err)
	return l
}

// twin is a table in memory where a DynamoDB client is asked for.
type twin struct {
	DynamoDB
	*memdynamo.DB
}

// take takes tokens from a bucket, with stored limits or those given.
func (w *world) take(entity, resource string, costs limiter.Costs, limits ...limiter.Limit) {
	w.Helper()
	w.must(check.Err(w.limiter().Acquire(context.Background(), limiter.Request{
		Entity: entity, Resource: resource, Costs: costs, Limits: limits,
	})))
}

// bucket returns shard k of a bucket as it is stored; it must be there.
func (w *world) bucket(entity, resource string, k int) table.Shard {
	w.Helper()
	b, err := table.DecodeShard(w.db.Item(layout.BucketKey(w.ns.ID(), entity, resource, k)))
	check.Must(w, err)
	return b
}

// peek returns what is shown of a bucket, and of those that are charged with it.
func (w *world) peek(entity, resource string) []Bucket {
	w.Helper()
	got, err := w.ns.Peek(w.Context(), entity, resource)
	w.must(err)
	return got
}

// once returns the namespace, for operations with an id.
func (w *world) once(id string) *Namespace {
	w.Helper()
	ns, err := w.ns.Once(id)
	w.must(err)
	return ns
}

// events returns the audit events about a subject, the newest first.
func (w *world) events(about Scope) []Event {
	w.Helper()
	return collect(w.T, w.ns.Events(w.Context(), about, ""))
}

// removes deletes an entity, which must remove so many items.
func (w *world) removes(entity string, items int) {
	w.Helper()
	n, err := w.ns.DeleteEntity(w.Context(), entity)
	w.must(err)
	check.Equal(w, n, items, "removed of %s", entity)
}

// config returns the configuration stored at a scope.
func (w *world) config(at Scope) Config {
	w.Helper()
	c, err := w.ns.Config(w.Context(), at)
	w.must(err)
	return c
}

// entity returns a stored entity.
func (w *world) entity(id string) Entity {
	w.Helper()
	e, err := w.ns.Entity(w.Context(), id)
	w.must(err)
	return e
}

// refused requires an error of a kind, with a text.
func (w *world) refused(err, kind error, text string, words ...any) {
	w.Helper()
	check.Is(w, err, kind, words...)
	check.Says(w, err, text, words...)
}

func (w *world) deleteNamespace(name string) {
	w.Helper()
	ns, err := w.table.Lookup(w.Context(), name)
	w.must(err)
	w.must(w.table.DeleteNamespace(w.Context(), ns.ID))
}

// hasNoOrphans checks that every item is where a purge finds it.
func (w *world) hasNoOrphans() {
	w.Helper()
	for _, it := range w.db.Items() {
		if it[item.AttrGSI4PK] == nil || it[item.AttrGSI4SK] == nil {
			w.Errorf("no purge finds %q", item.KeyOf(it))
		}
	}
}

// bareLister is the table in memory without its hook.
type bareLister struct{ *memdynamo.DB }

func (b bareLister) Write(ctx context.Context, w item.Write) (item.Item, error) {
	return b.DB.Bare().Write(ctx, w)
}

func (b bareLister) Transact(ctx context.Context, token string, writes []item.Write) error {
	return b.DB.Bare().Transact(ctx, token, writes)
}

func (b bareLister) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	return b.DB.Bare().Read(ctx, consistent, keys...)
}

// split makes a bucket, and doubles its shards that many times.
func (w *world) split(entity, resource string, times int) {
	w.Helper()
	w.take(entity, resource, limiter.Costs{"rpm": 1})
	for range times {
		for k := range w.bucket(entity, resource, 0).State.Shards {
			w.must(w.db.Transact(context.Background(), rand.Text(), table.Split(w.bucket(entity, resource, k), w.now.Load())))
		}
	}
}
