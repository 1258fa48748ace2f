package dbtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// life plays the life of one bucket through a store and demands of every write
// the outcome and the item that the write has in memory.
type life struct {
	t      *testing.T
	db     store.Store
	ns     string // random, so that keys are new
	limits []bucket.Limit
	now    int64
}

func testShapes(t *testing.T, db store.Store) {
	hostile := make([]bucket.Limit, 32)
	for i := range hostile {
		name := fmt.Sprintf("L%02d-%s", i, strings.Repeat("x.", 30))
		if i < 6 {
			name = []string{"a-b", "in.tok", "SELECT", "size", "tk", "b_tk_cp"}[i]
		}
		hostile[i] = bucket.Limit{Name: name, Capacity: 100_000, Amount: 7_001, Period: 1003}
	}
	for _, tt := range []struct {
		name   string
		limits []bucket.Limit
	}{
		{"two limits", []bucket.Limit{{Name: "rpm", Capacity: 100_000, Amount: 100_000, Period: 60_000}, {Name: "tpm", Capacity: 100_000, Amount: 7_000, Period: 1009}}},
		{"32 limits with long and hostile names", hostile},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &life{t: t, db: db, ns: rand.Text(), limits: tt.limits, now: 1_700_000_000_000}
			l.play()
		})
	}
}

func (l *life) costs(tokens int64) []table.Cost {
	out := make([]table.Cost, len(l.limits))
	for i := range l.limits {
		out[i] = table.Cost{Limit: l.limits[i].Name, Milli: 1000 * tokens}
	}
	return out
}

// do performs a write that must be carried out and returns the bucket after it.
func (l *life) do(what string, w item.Write) table.Shard {
	l.t.Helper()
	want := l.expected(what, w, true)
	got, err := l.db.Write(l.t.Context(), w)
	if err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
	wantItem(l.t, what, got, want)
	return l.decode(what, got)
}

// refused performs a write that must be refused and returns the bucket as it is.
func (l *life) refused(what string, w item.Write) {
	l.t.Helper()
	old := l.expected(what, w, false)
	_, err := l.db.Write(l.t.Context(), w)
	wantRefused(l.t, err, old)
}

func (l *life) expected(what string, w item.Write, held bool) item.Item {
	l.t.Helper()
	after, ok, err := w.Apply(read(l.t, l.db, w.Target()))
	if err != nil || ok != held {
		l.t.Fatalf("%s: in memory the condition holds is %v (%v), want %v", what, ok, err, held)
	}
	return after
}

// transact performs a transaction that must be carried out, twice.
func (l *life) transact(what string, writes []item.Write) []table.Shard {
	l.t.Helper()
	want := make([]item.Item, len(writes))
	for i, w := range writes {
		want[i] = l.expected(what, w, true)
	}
	token := newToken()
	for range 2 {
		if err := l.db.Transact(l.t.Context(), token, writes); err != nil {
			l.t.Fatalf("%s: %v", what, err)
		}
	}
	out := make([]table.Shard, len(writes))
	for i, w := range writes {
		got := read(l.t, l.db, w.Target())
		wantItem(l.t, what, got, want[i])
		out[i] = l.decode(what, got)
	}
	return out
}

func (l *life) decode(what string, it item.Item) table.Shard {
	l.t.Helper()
	b, err := table.DecodeShard(it)
	if err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
	return b
}

// charge plans and performs a charge, which must be granted.
func (l *life) charge(b table.Shard, tokens, wait int64, change func(*table.Charge)) table.Shard {
	l.t.Helper()
	l.now += wait
	c := table.Charge{Image: b, Want: l.limits, Costs: l.costs(tokens), Now: l.now, Life: table.Expires}
	if change != nil {
		change(&c)
	}
	plan := c.Plan()
	if !plan.Verdict.Granted && !c.Force {
		l.t.Fatalf("charge of %d tokens: %+v", tokens, plan.Verdict)
	}
	return l.do("charge", plan.Update)
}

func (l *life) play() {
	create, _ := table.Create(table.NewBucket{
		Namespace: l.ns, Entity: "key-1", Resource: "openai/gpt-4", Limits: l.limits, Costs: l.costs(1), Life: table.Expires, Now: l.now, Cascade: true, Parent: "acme",
	})
	b := l.do("create", create)
	l.refused("create again", create)
	b = l.charge(b, 2, 0, nil)
	stale := b
	l.charge(b, 1, 86_400_000, nil)
	b = l.charge(stale, 1, 1, nil) // commutes with the one it has not seen
	stale = b
	b = l.charge(b, 97, 0, nil)
	l.refused("charge of what others have taken", table.Charge{Image: stale, Want: l.limits, Costs: l.costs(90), Now: l.now}.Plan().Update)
	l.charge(b, 2, 1000, nil)
	cold := table.Add{Room: 50, Namespace: l.ns, Entity: "key-1", Resource: "openai/gpt-4", Shards: 1, Limits: l.limits, Costs: l.costs(0), Now: l.now}
	b = l.do("cold", cold.Plan())
	cold.Costs = l.costs(99)
	l.refused("cold write of more than there is", cold.Plan())
	b = l.do("adjust", table.Adjust(b.Key(), l.costs(-3)))
	force := func(c *table.Charge) { c.Force = true }
	b = l.charge(b, 50, 0, force)
	b = l.charge(b, 5000, 0, force) // moves the ttl beyond the debt

	changed := append([]bucket.Limit{}, l.limits...)
	for i := range changed {
		changed[i].Capacity *= 2
	}
	stale = b
	b = l.charge(b, 0, 3_600_000_000, func(c *table.Charge) { c.Want = changed })
	l.refused("charge from an earlier generation", table.Charge{Image: stale, Now: l.now}.Plan().Update)
	l.limits = changed

	longer, ok := table.Prolong(table.Shard{Namespace: b.Namespace, Entity: b.Entity, Resource: b.Resource, State: b.State, TTL: 1}, l.now+86_400_000)
	if ok {
		b = l.do("prolong", longer)
	}
	l.refused("look for two shards", table.Look(b.Key(), 2))
	l.refused("keep an unsplit bucket forever", table.KeepForever(b.Key()))

	split := table.Split(b, l.now)
	b = l.transact("split", split)[0]
	wantCanceled(l.t, l.db.Transact(l.t.Context(), newToken(), split), read(l.t, l.db, split[0].Target()), read(l.t, l.db, split[1].Target()))
	l.do("look for two shards", table.Look(b.Key(), 2))
	l.do("look of shard 1", table.Look(table.BucketKey(b.Namespace, b.Entity, b.Resource, 1), 2))
	b = l.charge(b, 1, 3_600_000_000, nil)

	sibling := l.decode("sibling", read(l.t, l.db, table.BucketKey(b.Namespace, b.Entity, b.Resource, 1)))
	merge := table.Merge(b, sibling, 1, l.now)
	if err := l.db.Transact(l.t.Context(), newToken(), merge); err != nil {
		l.t.Fatalf("merge: %v", err)
	}
	if err := l.db.Transact(l.t.Context(), newToken(), merge); err == nil {
		l.t.Fatal("merged twice")
	}
	b = l.decode("merged", read(l.t, l.db, b.Key()))
	b = l.transact("split again", table.Split(b, l.now))[0]
	if _, err := l.db.Write(l.t.Context(), item.Delete{Key: table.BucketKey(b.Namespace, b.Entity, b.Resource, 1)}); err != nil {
		l.t.Fatal(err)
	}
	l.refused("look of a missing shard", table.Look(table.BucketKey(b.Namespace, b.Entity, b.Resource, 1), 2))
	l.refused("adjust of a missing shard", table.Adjust(table.BucketKey(b.Namespace, b.Entity, b.Resource, 1), l.costs(1)))
	l.transact("open", table.Restore(b, 1, 2, l.now))
	l.do("recount", table.Recount(l.decode("image", read(l.t, l.db, b.Key())), l.now))
}

// testRecords writes every other kind of record the way the product does.
func testRecords(t *testing.T, db store.Store) {
	ns := rand.Text()
	n := table.Namespace{ID: ns, Name: "name of " + ns, CreatedAt: table.Timestamp(0)}
	transact := func(writes []item.Write) error { return db.Transact(t.Context(), newToken(), writes) }
	status := func(want string) {
		t.Helper()
		got, err := table.DecodeNamespace(read(t, db, table.NamespaceIDKey(ns)))
		if err != nil || got.Status != want {
			t.Errorf("namespace is %+v (%v), want %s", got, err, want)
		}
	}
	for _, step := range []struct {
		writes []item.Write
		want   string
	}{
		{n.Register(), table.NamespaceActive}, {n.Retire(table.Timestamp(1000)), table.NamespaceDeleted},
		{n.Recover(), table.NamespaceActive}, {n.Retire(table.Timestamp(2000)), table.NamespaceDeleted},
	} {
		if err := transact(step.writes); err != nil {
			t.Fatal(err)
		}
		status(step.want)
		if _, ok := errors.AsType[*store.Canceled](transact(step.writes)); !ok {
			t.Errorf("the same step on a namespace that is %s is not refused", step.want)
		}
	}
	mustWrite(t, db, n.Purge())
	status(table.NamespacePurging)
	wantCanceled(t, transact(n.Recover()), nil, read(t, db, table.NamespaceIDKey(ns)))

	e := table.Entity{Namespace: ns, ID: "key-1", Name: "n", Parent: "acme", Cascade: true, Metadata: item.Item{"a": item.Null()}}
	wantItem(t, "entity", mustWrite(t, db, e.Create()), e.Item())
	_, err := db.Write(t.Context(), e.Create())
	wantRefused(t, err, e.Item())

	c := table.Config{Namespace: ns, Entity: "key-1", Resource: table.DefaultResource, Limits: []bucket.Limit{{Name: "in.tok", Capacity: 1000, Amount: 2000, Period: 3000}}}
	mustWrite(t, db, c.Replace())
	got, err := table.DecodeConfig(read(t, db, c.Key()))
	if err != nil || len(got.Limits) != 1 || got.Limits[0] != c.Limits[0] {
		t.Errorf("config is %+v (%v), want %+v", got, err, c)
	}
	testRegistries(t, db, ns)
	testUsage(t, db, ns)
	audit := table.Audit{Namespace: ns, Subject: table.AuditSystem, ID: "01HF7YAT00000000000000AUDI", Action: "limits_set", TTL: 1}
	wantItem(t, "audit event", mustWrite(t, db, audit.Create()), audit.Item())
}

func testRegistries(t *testing.T, db store.Store, ns string) {
	var it item.Item
	for _, w := range []item.Update{
		table.AddResource(ns, "gpt"), table.AddResource(ns, "size"), table.AddResource(ns, "gpt"), table.RemoveResource(ns, "gpt"), table.RemoveResource(ns, "gpt"),
	} {
		it = mustWrite(t, db, w)
	}
	wantItem(t, "registry of resources", it, table.Resources{Namespace: ns, Names: []string{"size"}}.Item())
	for range 3 {
		u, ok := table.CountEntityConfigs(ns, "a/b-c.d", 1)
		if !ok {
			t.Error("resource is not counted")
		}
		it = mustWrite(t, db, u)
	}
	wantItem(t, "counts", it, table.EntityConfigs{Namespace: ns, Counts: map[string]int64{"a/b-c.d": 3}}.Item())
	if _, ok := table.CountEntityConfigs(ns, item.AttrGSI1PK, 1); ok {
		t.Error("a resource with the name of a key is counted")
	}
}

// testUsage counts twice in a snapshot. Whatever arrives again, or does not go on
// from where the snapshot is, is refused and tells how far it has counted.
func testUsage(t *testing.T, db store.Store, ns string) {
	mark := func(sequence string, rpm int64) table.Mark {
		return table.Mark{At: table.PositionOf(1_700_000_000, sequence), Used: []table.Count{{Limit: "rpm", Tokens: rpm}, {Limit: "ttl", Tokens: -rpm}}, Life: 7}
	}
	after := func(sequence string, rpm int64) table.Expect {
		m := mark(sequence, rpm)
		return table.Expect{Counted: &m}
	}
	u := table.Usage{
		Namespace: ns, Entity: "key-1", Resource: "gpt", Window: "daily", Start: "2023-11-14T00:00:00Z", Part: "2023-11-14",
		Counts: []table.Count{{Limit: "rpm", Tokens: 3}, {Limit: "ttl", Tokens: -1}}, Events: 2, TTL: 1_800_000_000,
		Moves: []table.Move{{Shard: 0, To: mark("100", 300)}, {Shard: 7, To: mark("6", 1)}},
	}
	first := mustWrite(t, db, u.Update())
	_, err := db.Write(t.Context(), u.Update())
	wantRefused(t, err, first)
	for name, from := range map[string]table.Expect{
		"a later position is counted": after("100", 300), "other counters": after("101", 299), "no mark": {},
		"as it was seen, but it was not": {Exactly: true},
	} {
		u.Moves = []table.Move{{Shard: 0, From: from, To: mark("102", 303)}}
		_, err := db.Write(t.Context(), u.Update())
		if t.Run(name, func(t *testing.T) { wantRefused(t, err, first) }); t.Failed() {
			return
		}
	}
	u.Moves = []table.Move{{Shard: 0, From: after("101", 300), To: mark("102", 303)}}
	second := mustWrite(t, db, u.Update())
	for _, seen := range []item.Item{first, second} {
		marks := table.MarksOf(seen)
		u.Seen = &marks
		later := mark("5", 9)
		later.At = table.PositionOf(1_800_000_000, "5") // in another stream
		later.Used = append(later.Used, table.Count{Limit: "zz", Tokens: 5})
		u.Moves = []table.Move{{Shard: 0, From: table.Expect{Exactly: true}, To: later}, {Shard: 1, To: mark("9", 9)}}
		_, err = db.Write(t.Context(), u.Update())
	}
	if err != nil {
		t.Fatal(err)
	}
	items, err := db.Read(t.Context(), true, u.Key())
	if err != nil {
		t.Fatal(err)
	}
	s, err := table.DecodeSnapshot(items[0])
	if err != nil || s.Counts["rpm"] != 9 || s.Counts["ttl"] != -3 || s.Events != 6 || s.TTL != u.TTL || len(s.Marks) != 3 {
		t.Errorf("snapshot is %+v (%v)", s, err)
	}
	if m := s.Marks[0]; m.At != table.PositionOf(1_800_000_000, "5") || len(m.Used) != 3 || s.Marks[7].At != table.PositionOf(1_700_000_000, "6") {
		t.Errorf("marks are %+v", s.Marks)
	}
}
