package dbtest

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// testRecords writes every other record the way the product does.
func testRecords(t *testing.T, db store.Store) {
	ns := rand.Text()
	n := table.Namespace{ID: ns, Name: "name of " + ns, CreatedAt: table.Timestamp(0)}
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
		mustTransact(t, db, newToken(), step.writes)
		status(step.want)
		mustCancel(t, db, newToken(), step.writes)
	}
	mustWrite(t, db, n.Purge())
	status(table.NamespacePurging)
	mustCancel(t, db, newToken(), n.Recover())

	e := table.Entity{Namespace: ns, ID: "key-1", Name: "n", Parent: "acme", Cascade: true,
		Metadata: item.Item{"a": item.Null()}}
	wantItem(t, "entity", mustWrite(t, db, e.Create()), e.Item())
	mustRefuse(t, db, e.Create())

	c := table.Config{Namespace: ns, Entity: "key-1", Resource: table.DefaultResource,
		Limits: []bucket.Limit{{Name: "in.tok", Capacity: 1000, Amount: 2000, Period: 3000}}}
	was := mustWrite(t, db, c.Replace())
	got, err := table.DecodeConfig(was)
	if err != nil || len(got.Limits) != 1 || got.Limits[0] != c.Limits[0] {
		t.Errorf("config is %+v (%v), want %+v", got, err, c)
	}
	c.Limits = []bucket.Limit{{Name: "rpm", Capacity: 1000, Amount: 2000, Period: 3000}}
	wantItem(t, "other limits", mustWrite(t, db, c.Over(was, item.Exists(item.AttrPK))), c.Item())
	e.Name, e.Parent, e.Cascade = "m", "", false
	wantItem(t, "changed entity", mustWrite(t, db, e.Update()), e.Item())
	testRegistries(t, db, ns)
	testUsage(t, db, ns)
	audit := table.Audit{Namespace: ns, Subject: table.AuditSystem, ID: "01HF7YAT00000000000000AUDI",
		Action: "limits_set", TTL: 1}
	wantItem(t, "audit event", mustWrite(t, db, audit.Create()), audit.Item())
}

func testRegistries(t *testing.T, db store.Store, ns string) {
	var it item.Item
	for _, w := range []item.Update{
		table.AddResource(ns, "gpt"), table.AddResource(ns, "size"), table.AddResource(ns, "gpt"),
		table.RemoveResource(ns, "gpt"), table.RemoveResource(ns, "gpt"),
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
		return table.Mark{At: table.PositionOf(1_700_000_000, sequence),
			Used: []table.Count{{Limit: "rpm", Tokens: rpm}, {Limit: "ttl", Tokens: -rpm}}, Gen: 7}
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
	mustRefuse(t, db, u.Update())
	for name, from := range map[string]table.Expect{
		"a later position is counted": after("100", 300), "other counters": after("101", 299), "no mark": {},
		"as it was seen, but it was not": {Exactly: true},
	} {
		u.Moves = []table.Move{{Shard: 0, From: from, To: mark("102", 303)}}
		t.Run(name, func(t *testing.T) { mustRefuse(t, db, u.Update()) })
	}
	u.Moves = []table.Move{{Shard: 0, From: after("101", 300), To: mark("102", 303)}}
	second := mustWrite(t, db, u.Update())
	later := mark("5", 9)
	later.At = table.PositionOf(1_800_000_000, "5") // in another stream
	later.Used = append(later.Used, table.Count{Limit: "zz", Tokens: 5})
	u.Moves = []table.Move{{Shard: 0, From: table.Expect{Exactly: true}, To: later}, {Shard: 1, To: mark("9", 9)}}
	seen := table.MarksOf(first)
	u.Seen = &seen
	mustRefuse(t, db, u.Update())
	seen = table.MarksOf(second)
	counted := mustWrite(t, db, u.Update())
	s, err := table.DecodeSnapshot(counted)
	if err != nil || s.Counts["rpm"] != 9 || s.Counts["ttl"] != -3 || s.Events != 6 || s.TTL != u.TTL ||
		len(s.Marks) != 3 {
		t.Errorf("snapshot is %+v (%v)", s, err)
	}
	if m := s.Marks[0]; m.At != table.PositionOf(1_800_000_000, "5") || len(m.Used) != 3 ||
		s.Marks[7].At != table.PositionOf(1_700_000_000, "6") {
		t.Errorf("marks are %+v", s.Marks)
	}
	testSum(t, db, counted)
}

// testSum sums the day that was counted by marks, and once more. A sum that was planned
// from the day as it was before is refused.
func testSum(t *testing.T, db store.Store, counted item.Item) {
	k := item.KeyOf(counted)
	sum := table.Sum{Entity: "key-1", Resource: "gpt", Window: "daily", Start: "2023-11-14T00:00:00Z", Part: "2023-11-14",
		Summed: table.Summed{Version: 1_700_000_000_000, Parts: []int{0, 23}, Base: &table.Amount{Events: 4}}}
	sum.Namespace, _, _ = strings.Cut(k.PK, "/")
	sum.Amount = table.Amount{Events: 5, Tokens: map[string]int64{"rpm": 11, "tpm": 7}}
	first, _ := sum.Update(counted)
	summed := mustWrite(t, db, first)
	if got := table.AmountOf(summed); got.Events != 9 || got.Tokens["rpm"] != 11 || got.Tokens["ttl"] != 0 ||
		table.MarksOf(summed).Any || table.SummedOf(summed).Version == 0 || item.KeyOf(summed) != k {
		t.Errorf("summed: %v", summed)
	}
	mustRefuse(t, db, first)
	if u, due := sum.Update(summed); due {
		t.Errorf("summed already, but due: %v", u)
	}
	sum.Amount.Add(table.Amount{Events: 1, Tokens: map[string]int64{"ttl": 2}}, 1)
	second, _ := sum.Update(summed)
	again := mustWrite(t, db, second)
	if table.SummedOf(again).Version <= table.SummedOf(summed).Version || table.AmountOf(again).Tokens["ttl"] != 2 {
		t.Errorf("summed again: %v", again)
	}
	mustRefuse(t, db, second)
	fresh, _ := sum.Update(nil)
	mustRefuse(t, db, fresh)
}
