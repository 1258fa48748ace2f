package storetest

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// testRecords writes every other record the way the product does.
func testRecords(t *testing.T, db store.Store) {
	ns := rand.Text()
	n := config.Namespace{ID: ns, Name: "name of " + ns, CreatedAt: layout.Timestamp(0)}
	status := func(want string) {
		t.Helper()
		got, err := config.DecodeNamespace(read(t, db, layout.NamespaceIDKey(ns)))
		if err != nil || got.Status != want {
			t.Errorf("namespace is %+v (%v), want %s", got, err, want)
		}
	}
	for _, step := range []struct {
		writes []item.Write
		want   string
	}{
		{n.Register(), config.NamespaceActive}, {n.Retire(layout.Timestamp(1000)), config.NamespaceDeleted},
		{n.Recover(), config.NamespaceActive}, {n.Retire(layout.Timestamp(2000)), config.NamespaceDeleted},
	} {
		mustTransact(t, db, newToken(), step.writes)
		status(step.want)
		mustCancel(t, db, newToken(), step.writes)
	}
	mustWrite(t, db, n.Purge())
	status(config.NamespacePurging)
	mustCancel(t, db, newToken(), n.Recover())

	e := config.Entity{Namespace: ns, ID: "key-1", Name: "n", Parent: "acme", Cascade: true,
		Metadata: item.Item{"a": item.Null()}}
	wantItem(t, "entity", mustWrite(t, db, e.Create()), e.Item())
	mustRefuse(t, db, e.Create())

	c := config.Config{Namespace: ns, Entity: "key-1", Resource: layout.DefaultResource,
		Limits: []bucket.Limit{{Name: "in.tok", Capacity: 1000, Amount: 2000, Period: 3000}}}
	was := mustWrite(t, db, c.Replace())
	got, err := config.DecodeConfig(was)
	if err != nil || len(got.Limits) != 1 || got.Limits[0] != c.Limits[0] {
		t.Errorf("config is %+v (%v), want %+v", got, err, c)
	}
	c.Limits = []bucket.Limit{{Name: "rpm", Capacity: 1000, Amount: 2000, Period: 3000}}
	wantItem(t, "other limits", mustWrite(t, db, c.Over(was, item.Exists(item.AttrPK))), c.Item())
	e.Name, e.Parent, e.Cascade = "m", "", false
	wantItem(t, "changed entity", mustWrite(t, db, e.Update()), e.Item())
	testRegistries(t, db, ns)
	testUsage(t, db, ns)
	audit := ledger.Audit{Namespace: ns, Subject: layout.AuditSystem, ID: "01HF7YAT00000000000000AUDI",
		Action: "limits_set", TTL: 1}
	wantItem(t, "audit event", mustWrite(t, db, audit.Create()), audit.Item())
}

func testRegistries(t *testing.T, db store.Store, ns string) {
	var it item.Item
	for _, w := range []item.Update{
		config.AddResource(ns, "gpt"), config.AddResource(ns, "size"), config.AddResource(ns, "gpt"),
		config.RemoveResource(ns, "gpt"), config.RemoveResource(ns, "gpt"),
	} {
		it = mustWrite(t, db, w)
	}
	wantItem(t, "registry of resources", it, config.Resources{Namespace: ns, Names: []string{"size"}}.Item())
	for range 3 {
		u, ok := config.CountEntityConfigs(ns, "a/b-c.d", 1)
		if !ok {
			t.Error("resource is not counted")
		}
		it = mustWrite(t, db, u)
	}
	wantItem(t, "counts", it, config.EntityConfigs{Namespace: ns, Counts: map[string]int64{"a/b-c.d": 3}}.Item())
	if _, ok := config.CountEntityConfigs(ns, item.AttrGSI1PK, 1); ok {
		t.Error("a resource with the name of a key is counted")
	}
}

// testUsage counts twice in a snapshot. A usage that arrives again, or does not continue from the
// snapshot's mark, is refused, and the error shows how far it has counted.
func testUsage(t *testing.T, db store.Store, ns string) {
	mark := func(sequence string, rpm int64) ledger.Mark {
		return ledger.Mark{At: ledger.PositionOf(1_700_000_000, sequence),
			Used: []ledger.Count{{Limit: "rpm", Tokens: rpm}, {Limit: "ttl", Tokens: -rpm}}, Gen: 7}
	}
	after := func(sequence string, rpm int64) ledger.Expect {
		m := mark(sequence, rpm)
		return ledger.Expect{Counted: &m}
	}
	u := ledger.Usage{
		Namespace: ns, Entity: "key-1", Resource: "gpt", Window: "daily", Start: "2023-11-14T00:00:00Z", Part: "2023-11-14",
		Counts: []ledger.Count{{Limit: "rpm", Tokens: 3}, {Limit: "ttl", Tokens: -1}}, Events: 2, TTL: 1_800_000_000,
		Moves: []ledger.Move{{Shard: 0, To: mark("100", 300)}, {Shard: 7, To: mark("6", 1)}},
	}
	first := mustWrite(t, db, u.Update())
	mustRefuse(t, db, u.Update())
	for name, from := range map[string]ledger.Expect{
		"a later position is counted": after("100", 300), "other counters": after("101", 299), "no mark": {},
		"as it was seen, but it was not": {Exactly: true},
	} {
		u.Moves = []ledger.Move{{Shard: 0, From: from, To: mark("102", 303)}}
		t.Run(name, func(t *testing.T) { mustRefuse(t, db, u.Update()) })
	}
	u.Moves = []ledger.Move{{Shard: 0, From: after("101", 300), To: mark("102", 303)}}
	second := mustWrite(t, db, u.Update())
	later := mark("5", 9)
	later.At = ledger.PositionOf(1_800_000_000, "5") // in another stream
	later.Used = append(later.Used, ledger.Count{Limit: "zz", Tokens: 5})
	u.Moves = []ledger.Move{{Shard: 0, From: ledger.Expect{Exactly: true}, To: later}, {Shard: 1, To: mark("9", 9)}}
	seen := ledger.MarksOf(first)
	u.Seen = &seen
	mustRefuse(t, db, u.Update())
	seen = ledger.MarksOf(second)
	counted := mustWrite(t, db, u.Update())
	s, err := ledger.DecodeSnapshot(counted)
	if err != nil || s.Counts["rpm"] != 9 || s.Counts["ttl"] != -3 || s.Events != 6 || s.TTL != u.TTL ||
		len(s.Marks) != 3 {
		t.Errorf("snapshot is %+v (%v)", s, err)
	}
	if m := s.Marks[0]; m.At != ledger.PositionOf(1_800_000_000, "5") || len(m.Used) != 3 ||
		s.Marks[7].At != ledger.PositionOf(1_700_000_000, "6") {
		t.Errorf("marks are %+v", s.Marks)
	}
	testSum(t, db, counted)
}

// testSum sums the day that was counted by marks, and once more. A sum that was planned
// from the day as it was before is refused.
func testSum(t *testing.T, db store.Store, counted item.Item) {
	k := item.KeyOf(counted)
	sum := ledger.Sum{Entity: "key-1", Resource: "gpt", Window: "daily", Start: "2023-11-14T00:00:00Z",
		Part:   "2023-11-14",
		Summed: ledger.Summed{Version: 1_700_000_000_000, Parts: []int{0, 23}, Base: &ledger.Amount{Events: 4}}}
	sum.Namespace, _, _ = strings.Cut(k.PK, "/")
	sum.Amount = ledger.Amount{Events: 5, Tokens: map[string]int64{"rpm": 11, "tpm": 7}}
	first, _ := sum.Update(counted)
	summed := mustWrite(t, db, first)
	if got := ledger.AmountOf(summed); got.Events != 9 || got.Tokens["rpm"] != 11 || got.Tokens["ttl"] != 0 ||
		ledger.MarksOf(summed).Any || ledger.SummedOf(summed).Version == 0 || item.KeyOf(summed) != k {
		t.Errorf("summed: %v", summed)
	}
	mustRefuse(t, db, first)
	if u, due := sum.Update(summed); due {
		t.Errorf("summed already, but due: %v", u)
	}
	sum.Amount.Add(ledger.Amount{Events: 1, Tokens: map[string]int64{"ttl": 2}})
	second, _ := sum.Update(summed)
	again := mustWrite(t, db, second)
	if ledger.SummedOf(again).Version <= ledger.SummedOf(summed).Version || ledger.AmountOf(again).Tokens["ttl"] != 2 {
		t.Errorf("summed again: %v", again)
	}
	mustRefuse(t, db, second)
	fresh, _ := sum.Update(nil)
	mustRefuse(t, db, fresh)
}
