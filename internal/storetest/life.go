package storetest

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// life runs the life of one bucket through a store. Every write must have the same outcome and item
// as in memory.
type life struct {
	t      *testing.T
	db     store.Store
	ns     string // random, so that keys are new
	limits []bucket.Limit
	now    int64
}

func testLife(t *testing.T, db store.Lister) {
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
		{"two limits", []bucket.Limit{{Name: "rpm", Capacity: 100_000, Amount: 100_000, Period: 60_000},
			{Name: "tpm", Capacity: 100_000, Amount: 7_000, Period: 1009}}},
		{"32 limits with long and hostile names", hostile},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &life{t: t, db: db, ns: rand.Text(), limits: tt.limits, now: 1_700_000_000_000}
			l.play()
		})
	}
}

func (l *life) costs(tokens int64) []table.Cost {
	return table.Costs(l.limits, slices.Repeat([]int64{1000 * tokens}, len(l.limits))...)
}

// do performs a write that must succeed, and returns the bucket after it.
func (l *life) do(what string, w item.Write) table.Shard {
	l.t.Helper()
	return l.decode(what, mustWrite(l.t, l.db, w))
}

// transact performs a transaction that must succeed, then repeats it without effect.
func (l *life) transact(what string, writes []item.Write) (out []table.Shard) {
	l.t.Helper()
	token := newToken()
	after := mustTransact(l.t, l.db, token, writes)
	check.Must(l.t, l.db.Transact(l.t.Context(), token, writes), "%s, again", what)
	wantStored(l.t, l.db, writes, after)
	for _, it := range after {
		out = append(out, l.decode(what, it))
	}
	return out
}

func (l *life) decode(what string, it item.Item) table.Shard {
	l.t.Helper()
	b, err := table.DecodeShard(it)
	check.Must(l.t, err, what)
	return b
}

// charge plans and performs a charge, which must be granted.
func (l *life) charge(b table.Shard, tokens, wait int64, change func(*table.Charge)) table.Shard {
	l.t.Helper()
	l.now += wait
	c := table.Charge{Image: b, Costs: l.costs(tokens), Now: l.now, Lifetime: table.Expires}
	if change != nil {
		change(&c)
	}
	plan := c.Plan()
	if !plan.Verdict.Granted && !c.Force {
		l.t.Fatalf("charge of %d tokens: %+v", tokens, plan.Verdict)
	}
	return l.do("charge", plan.Update)
}

// play creates the bucket, charges it, changes its limits, splits and merges it, and restores a lost shard.
func (l *life) play() {
	b := l.splits(l.changes(l.charges()))
	b = l.transact("split again", table.Split(b, l.now))[0]
	mustWrite(l.t, l.db, item.Delete{Key: sibling(b)})
	mustRefuse(l.t, l.db, table.Look(sibling(b), 2))
	mustRefuse(l.t, l.db, table.Adjust(sibling(b), l.costs(1)))
	l.transact("restore", table.Restore(b, 1, 2, l.now, 3))
	l.do("recount", table.Recount(l.decode("image", read(l.t, l.db, b.Key())), l.now))
}

// charges creates the bucket, then takes from it and gives back in every way.
func (l *life) charges() table.Shard {
	create, _ := table.Create(table.NewBucket{
		Namespace: l.ns, Entity: "key-1", Resource: "openai/gpt-4", Costs: l.costs(1), Lifetime: table.Expires,
		Now: l.now, Cascade: true, Parent: "acme",
	})
	b := l.do("create", create)
	mustRefuse(l.t, l.db, create)
	b = l.charge(b, 2, 0, nil)
	stale := b
	l.charge(b, 1, 86_400_000, nil)
	b = l.charge(stale, 1, 1, nil) // commutes with the charge missing from its image
	stale = b
	b = l.charge(b, 97, 0, nil)
	mustRefuse(l.t, l.db, table.Charge{Image: stale, Costs: l.costs(90), Now: l.now}.Plan().Update)
	l.charge(b, 2, 1000, nil)
	cold := table.Add{Room: 50, Namespace: l.ns, Entity: "key-1", Resource: "openai/gpt-4", Shards: 1,
		Costs: l.costs(0), Now: l.now}
	b = l.do("cold", cold.Plan())
	cold.Costs = l.costs(99)
	mustRefuse(l.t, l.db, cold.Plan())
	b = l.do("adjust", table.Adjust(b.Key(), l.costs(-3)))
	b = l.drains(b)
	force := func(c *table.Charge) { c.Force = true }
	b = l.charge(b, 50, 0, force)
	return l.charge(b, 5000, 0, force) // extends the ttl beyond the debt
}

// drains drains the bucket from an old image, and again from the old and the new one.
func (l *life) drains(stale table.Shard) table.Shard {
	l.charge(stale, 1, 1, nil)
	until := l.now + 20_000
	u, _ := table.Drain(stale, until, l.now)
	b := l.do("drain", u)
	mustRefuse(l.t, l.db, u)
	if _, again := table.Drain(b, until, l.now); again {
		l.t.Fatalf("drained once more: %v", b.State)
	}
	mustRefuse(l.t, l.db, table.Charge{Image: stale, Costs: l.costs(1), Now: l.now}.Plan().Update)
	return b
}

// changes puts other limits in force, which begins a generation.
func (l *life) changes(b table.Shard) table.Shard {
	changed := append([]bucket.Limit{}, l.limits...)
	for i := range changed {
		changed[i].Capacity *= 2
	}
	stale := b
	b = l.charge(b, 0, 3_600_000_000, func(c *table.Charge) { c.Costs = table.Costs(changed) })
	mustRefuse(l.t, l.db, table.Charge{Image: stale, Now: l.now}.Plan().Update)
	l.limits = changed

	longer, ok := table.Prolong(table.Shard{Namespace: b.Namespace, Entity: b.Entity, Resource: b.Resource,
		State: b.State, TTL: 1}, l.now+86_400_000)
	if ok {
		b = l.do("prolong", longer)
	}
	mustRefuse(l.t, l.db, table.Look(b.Key(), 2))
	mustRefuse(l.t, l.db, table.KeepForever(b.Key()))
	return b
}

// sibling returns the key of the shard that the first split creates.
func sibling(b table.Shard) item.Key {
	return layout.BucketKey(b.Namespace, b.Entity, b.Resource, 1)
}

// splits splits the bucket and merges it again.
func (l *life) splits(b table.Shard) table.Shard {
	split := table.Split(b, l.now)
	b = l.transact("split", split)[0]
	mustCancel(l.t, l.db, newToken(), split)
	l.do("look for two shards", table.Look(b.Key(), 2))
	l.do("look of shard 1", table.Look(sibling(b), 2))
	b = l.charge(b, 1, 3_600_000_000, nil)

	other := l.decode("sibling", read(l.t, l.db, sibling(b)))
	merge := table.Merge(b, other, 1, l.now)
	mustTransact(l.t, l.db, newToken(), merge)
	mustCancel(l.t, l.db, newToken(), merge)
	return l.decode("merged", read(l.t, l.db, b.Key()))
}
