//go:build interop

package interop

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// namespace is the name that all clients share.
const namespace = "shared"

// TestMain stops the engines where they do not end with the process.
func TestMain(m *testing.M) {
	code := m.Run()
	engine.StopShared()
	os.Exit(code)
}

// world is a table of the committed template on one emulator.
type world struct {
	*testing.T
	engine  *engine.Engine
	release string // of the Python client
	table   string
	direct  store.Store
	ns      string // the id, once a client has opened it

	ahead time.Duration // of the clocks of clients that are opened now
}

// advance makes it an instant later for all clients that are opened from now on. However slow the machine is, it
// may be far away for those that are open.
func (w *world) advance(to time.Time) { w.ahead = time.Until(to) }

func (w *world) now() time.Time { return time.Now().Add(w.ahead) }

var engines = []engine.Kind{engine.Dynoxide, engine.DynamoDBLocal}

// everywhere runs a test on each emulator with each of the releases. The emulators run in parallel,
// the releases one after the other, because DynamoDB Local trims streams that are read in parallel.
func everywhere(t *testing.T, releases []string, test func(t *testing.T, e *engine.Engine, release string)) {
	for _, kind := range engines {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			for _, release := range releases {
				t.Run(release, func(t *testing.T) { test(t, engine.ForTest(t, kind), release) })
			}
		})
	}
}

// onBothEngines runs a scenario on each emulator with each release of the Python client, on its own
// table.
func onBothEngines(t *testing.T, scenario func(*world)) { onTables(t, releases, scenario) }

// withNewer runs a scenario that the older release of the Python client does not support.
func withNewer(t *testing.T, scenario func(*world)) { onTables(t, []string{newer}, scenario) }

func onTables(t *testing.T, releases []string, scenario func(*world)) {
	everywhere(t, releases, func(t *testing.T, e *engine.Engine, release string) {
		scenario(newWorld(t, e, release, e.Table(t).Name))
	})
}

func newWorld(t *testing.T, e *engine.Engine, release, name string) *world {
	return &world{T: t, engine: e, release: release, table: name, direct: store.NewDynamo(e.DynamoDB(), name)}
}

// open returns one of our clients, with its own caches.
func (w *world) open(change ...func(*limiter.Options)) *limiter.Limiter {
	w.Helper()
	o := &limiter.Options{Namespace: namespace, Register: true, Timeout: time.Minute}
	if ahead := w.ahead; ahead > 0 {
		o.Now = func() time.Time { return time.Now().Add(ahead) }
	}
	for _, f := range change {
		f(o)
	}
	l, err := limiter.Open(w.Context(), w.engine.DynamoDB(), w.table, o)
	check.Must(w, err)
	if o.Namespace == namespace {
		w.ns = l.NamespaceID()
	}
	return l
}

// python returns a client of the Python release, with its own caches.
func (w *world) python() *python { w.Helper(); return w.anotherPython(0) }

// anotherPython returns a client in its own process, identified by number.
func (w *world) anotherPython(number int) *python {
	w.Helper()
	return w.pythonIn(driverFor(w, w.engine, w.release, number))
}

func (w *world) pythonIn(d *driver) *python {
	w.Helper()
	p, err := tryPython(w, d, w.table, namespace, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.ns = p.Namespace
	if w.ahead > 0 {
		d.must(w, nil, "clock", kv{"client": p.id, "ahead": w.ahead.Milliseconds()})
	}
	return p
}

// acquire takes available tokens with our client.
func (w *world) acquire(l *limiter.Limiter, r limiter.Request) *limiter.Lease {
	w.Helper()
	lease, err := l.Acquire(w.Context(), r)
	check.Must(w, err)
	return lease
}

// take acquires with our client, and drops the lease.
func (w *world) take(l *limiter.Limiter, entity, resource string, costs limiter.Costs) {
	w.Helper()
	w.acquire(l, limiter.Request{Entity: entity, Resource: resource, Costs: costs})
}

// denied makes a request with our client that must be denied.
func (w *world) denied(l *limiter.Limiter, entity, resource string, costs limiter.Costs) *limiter.LimitError {
	w.Helper()
	_, err := l.Acquire(w.Context(), limiter.Request{Entity: entity, Resource: resource, Costs: costs})
	denied, ok := errors.AsType[*limiter.LimitError](err)
	if !ok {
		w.Fatalf("acquire %s/%s %v: %v, want a denial", entity, resource, costs, err)
	}
	return denied
}

// item reads an item directly; nil if there is none.
func (w *world) item(k item.Key) item.Item {
	w.Helper()
	items, err := w.direct.Read(w.Context(), true, k)
	check.Must(w, err)
	return items[0]
}

// write changes the table directly.
func (w *world) write(writes ...item.Write) {
	w.Helper()
	for _, one := range writes {
		check.Must(w, check.Err(w.direct.Write(w.Context(), one)))
	}
}

// shard reads one shard of a bucket. It is not ok if there is none.
func (w *world) shard(entity, resource string, k int) (table.Shard, bool) {
	w.Helper()
	it := w.item(layout.BucketKey(w.ns, entity, resource, k))
	if it == nil {
		return table.Shard{}, false
	}
	b, err := table.DecodeShard(it)
	check.Must(w, err)
	return b, true
}

// bucket reads shard 0, which must exist.
func (w *world) bucket(entity, resource string) table.Shard {
	w.Helper()
	b, ok := w.shard(entity, resource, 0)
	if !ok {
		w.Fatalf("there is no bucket of %s/%s", entity, resource)
	}
	return b
}

// levels are a bucket's levels in millitokens, without the write meter.
type levels map[string]int64

func levelsOf(b table.Shard) levels {
	out := levels{}
	for _, sl := range b.State.Slots {
		if sl.Name != bucket.WCU {
			out[sl.Name] = sl.Tokens
		}
	}
	return out
}

// wantLevels compares levels, and checks that taken tokens were counted.
func (w *world) wantLevels(step, entity, resource string, want levels) {
	w.Helper()
	b := w.bucket(entity, resource)
	if got := levelsOf(b); !maps.Equal(got, want) {
		w.Fatalf("%s: levels %v, want %v", step, got, want)
	}
}

// still is a limit that refills next to nothing during a test, so that levels can be compared to
// the millitoken.
func still(name string, capacity int64) limiter.Limit {
	return limiter.Limit{Name: name, Capacity: capacity, Refill: 1, Period: 3650 * 24 * time.Hour}
}

// recode converts JSON of any shape to a type.
func recode(t testing.TB, from, to any) {
	t.Helper()
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	check.Must(t, err)
}
