package table

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// quotaLimits are a rate and quotas of both kinds.
var quotaLimits = []bucket.Limit{
	sampleLimits[0],
	newQuota("tpd", 20_000_000, "m0h0@UTC"),
	newQuota("tph", 20_000_000, "+3600"),
}

// quotaWrites returns the writes that exist only for buckets with quotas.
func quotaWrites(t *testing.T) []call {
	t.Helper()
	n := sampleNew(quotaLimits)
	image := begun(t, n)
	image, _ = written(t, image, Charge{Image: image, Costs: n.Costs, Now: sampleNow}) // the first use of tph
	back := Costs(quotaLimits, -1000, -1000, -1000)
	for i, l := range quotaLimits {
		back[i].End = image.State.Slots[image.State.Index(l.Name)].End
	}
	again := image
	again.State.Slots = slices.Clone(image.State.Slots)
	again.State.Slots[image.State.Index("tpd")].Resets = 2
	reset := slices.Clone(back[1:2])
	reset[0].Resets = 2
	next := Charge{Image: image, Costs: n.Costs, Now: back[1].End + 60_000}
	rate := sampleImages(quotaLimits[:1])["used"]
	half := image
	half.State.Slots = slices.Clone(image.State.Slots)
	half.State.Slots[0].Tokens /= 2
	add := Add{Room: 50, Namespace: "ns", Entity: "key-1", Resource: "gpt", Shards: 1, Costs: n.Costs, Now: sampleNow}
	windows := []bucket.Limit{sampleLimits[0]}
	windows[0].Plan = "100000 100000 60000 m*/10s500@UTC"
	w := sampleNew(windows)
	_, opened := Create(w)
	opened.Generation, opened.Calendars.Schedule = (sampleNow-5000)<<drawBits, true
	opened.State.Slots = slices.Clone(opened.State.Slots)
	opened.State.Slots[0].Tokens /= 2
	until, _ := opened.State.NextEdge()
	opened.Calendars.Until, opened.Calendars.Has, opened.Calendars.Zone = until, true, "UTC"
	add2 := add
	add2.Costs = w.Costs
	r := sampleNew([]bucket.Limit{sampleLimits[0].WithRaises(fmt.Sprintf("50:%d", sampleNow+5000))})
	_, raised := Create(r)
	raised.Generation, raised.State.Slots[0].Tokens = opened.Generation, opened.State.Slots[0].Tokens
	raised.Calendars.Until, raised.Calendars.Has = sampleNow+5000, true
	_, plain := Create(sampleNew(sampleLimits[:1]))
	plain.Generation = opened.Generation
	add3 := add
	add3.Costs = r.Costs
	return []call{
		one("add to a raise", add3.Plan(), raised.Item()),
		one("acquire with a raise", Charge{Image: plain, Costs: r.Costs, Now: sampleNow + 1}.Plan().Update, plain.Item()),
		one("acquire behind a raise", Charge{Image: raised, Costs: r.Costs, Now: sampleNow + 7000}.Plan().Update,
			raised.Item()),
		one("add to a schedule", add2.Plan(), opened.Item()),
		one("acquire in the next window", Charge{Image: opened, Costs: w.Costs, Now: until + 2000}.Plan().Update,
			opened.Item()),
		one("acquire without the schedule", Charge{Image: opened, Costs: sampleNew(sampleLimits[:1]).Costs,
			Now: sampleNow + 1}.Plan().Update, opened.Item()),
		one("add to quotas", add.Plan(), half.Item()),
		one("count denials besides", CountDenials(add.Plan(), 3), half.Item()),
		one("count denials alone", CountDenials(Adjust(image.Key(), nil), 3), image.Item()),
		one("give back to quotas", Adjust(image.Key(), back), image.Item()),
		one("give up what is held", Release(image.Key(), Released{Back: back, Declared: Costs(quotaLimits, 4000, 5000),
			Ended: Costs(quotaLimits, 2000), Generation: image.Generation}), image.Item()),
		one("give back to a quota that was reset", Adjust(image.Key(), reset), again.Item()),
		one("credit and reset quotas", Raise(image, map[string]bucket.Gift{"tpd": {Milli: 9000}, "tph": {Whole: true}},
			sampleNow+1), image.Item()),
		one("acquire in the next period", next.Plan().Update, image.Item()),
		one("acquire with quotas that are new", Charge{Image: rate, Costs: n.Costs, Now: sampleNow + 1}.Plan().Update,
			rate.Item()),
	}
}

// otherWrites returns every write of other items than buckets.
func otherWrites(t *testing.T) []call {
	t.Helper()
	const ns = "ns"
	n := config.Namespace{ID: "id", Name: "default", CreatedAt: layout.Timestamp(sampleNow)}
	gone := n
	gone.Status, gone.DeletedAt = config.NamespaceDeleted, layout.Timestamp(sampleNow)
	purging := gone
	purging.Status = config.NamespacePurging
	v := config.Version{Schema: "0.9.0", Lambda: "0.10.3", ClientMin: "0.0.0", UpdatedAt: layout.Timestamp(sampleNow)}
	e := config.Entity{Namespace: ns, ID: "key-1", Parent: "acme", CreatedAt: layout.Timestamp(sampleNow)}
	orphan := config.Entity{Namespace: ns, ID: "key-2", CreatedAt: layout.Timestamp(sampleNow)}
	bucketItem := sampleImages(sampleLimits)["used"].Item()
	c, bare := config.Config{Namespace: ns, Resource: "gpt", Limits: sampleLimits}, config.Config{Namespace: ns,
		Resource: "gpt"}
	own := config.Config{Namespace: ns, Entity: "key-1", Resource: "gpt"}
	switched := own
	switched.Access.Switch = config.SwitchedOn
	declared := c
	declared.Access = config.Access{Switch: config.Bypassed, Cascade: new(true)}
	declared.Declared = config.Declared{Switch: true, Cascade: true}
	listing := func(l config.Listing) item.Write { return config.List(ns, l)[0] }
	zero := registry(ns, config.Listing{Entity: "e", Resource: "gpt", Is: true},
		config.Listing{Entity: "f", Resource: "gpt", Was: true})
	pages := pagedSample.Pages()
	foreign := item.Item{item.AttrPK: pages[0][item.AttrPK], item.AttrSK: pages[0][item.AttrSK]}
	noted := applied(t, config.Deleted(ns, "key-1", sampleNow-1), nil)
	odd := applied(t, config.Deleted(ns, "key-1", math.MaxInt64/2), nil)
	list := ledger.OwedList{Created: sampleNow, Packed: []byte{1}, TTL: sampleNow / 1000}
	fresh, claimed, later := ledger.OwedCursor{}, ledger.OwedCursor{Claimed: 7}, ledger.OwedCursor{Counted: 5, Claimed: 9}
	cursor := func(c ledger.OwedCursor) item.Item {
		it := ledger.OwedCursorKey().Item()
		for attr, n := range map[string]int64{"settled": c.Counted, "claimed": c.Claimed} {
			if n != 0 {
				it[attr] = item.N(n)
			}
		}
		return it
	}
	calls := []call{
		{"register", n.Register(), []item.Item{nil, nil}},
		one("in use", n.InUse(), n.Reverse()),
		{"retire", n.Retire(layout.Timestamp(sampleNow)), []item.Item{n.Forward(), n.Reverse()}},
		{"recover", gone.Recover(), []item.Item{nil, gone.Reverse()}},
		{"recover what lost its name", n.Recover(), []item.Item{nil, n.Reverse()}},
		one("purge", gone.Purge(), gone.Reverse()),
		one("purge again", gone.Purge(), purging.Reverse()),
		one("purged", gone.Purged(), purging.Reverse()),
		one("purged again", gone.Purged(), nil),
		one("note a deletion", config.Deleted(ns, "key-1", sampleNow), nil),
		one("note a later deletion", config.Deleted(ns, "key-1", sampleNow), noted),
		one("note what is odd", config.Deleted(ns, "key-1", sampleNow), odd),
		one("note a purge", config.Deleted(ns, "", sampleNow), nil),
		one("version", v.Create(), nil),
		one("disown", v.Disown(layout.Timestamp(sampleNow)), v.Item()),
		one("entity", e.Create(), nil),
		one("entity changes", e.Update(), e.Item()),
		one("entity moves", e.Move(), e.Item()),
		one("entity is unchanged", e.Unchanged(), e.Item()),
		one("entity has no parent", orphan.Unchanged(), orphan.Item()),
		one("adopt", e.Adopt(item.KeyOf(bucketItem)), bucketItem),
		one("discard", Discard(bucketItem), bucketItem),
		one("discard what says nothing", Discard(item.KeyOf(bucketItem).Item()), item.KeyOf(bucketItem).Item()),
		one("adopt without a parent", orphan.Adopt(item.KeyOf(bucketItem)), bucketItem),
		one("replace limits", item.Put{Item: c.Item()}, nil),
		one("store limits over others", c.Over(c.Item(), item.Exists(item.AttrPK)), c.Item()),
		one("change limits", config.Noticed(c.Over(c.Item(), item.Exists(item.AttrPK)), c.Item()), c.Item()),
		one("delete limits", config.Noticed(bare.Over(c.Item(), item.Exists(item.AttrPK)), c.Item()), c.Item()),
		one("enable", switched.Over(nil, item.Absent(item.AttrPK)), nil),
		one("decide nothing any more", own.Over(switched.Item(), item.Exists(item.AttrPK)), switched.Item()),
		one("take back what a manifest declared", c.Over(declared.Item(), item.Exists(item.AttrPK)), declared.Item()),
		one("declare", declared.Over(c.Item(), item.Exists(item.AttrPK)), c.Item()),
		one("tell a bucket that it is enabled", config.Stamp(item.KeyOf(bucketItem), config.SwitchedOn, 0), bucketItem),
		one("tell a bucket that it is bypassed", config.Stamp(item.KeyOf(bucketItem), config.Bypassed, sampleNow),
			bucketItem),
		one("tell a bucket", config.Stamp(item.KeyOf(bucketItem), config.SwitchedOff, 0), bucketItem),
		one("keep audit", config.KeepAudit(ns, 30), nil),
		one("add resource", listing(config.Listing{Resource: "gpt", Is: true}), nil),
		one("remove resource", listing(config.Listing{Resource: "gpt"}),
			registry(ns, config.Listing{Resource: "gpt", Is: true}, config.Listing{Resource: "x", Is: true})),
		one("count configs", listing(config.Listing{Entity: "e", Resource: "gpt", Was: true}), zero),
		one("forget configs", config.ForgetEntityConfigs(ns, "gpt"), zero),
		one("new page", config.ReplacePage(pages[0], nil), nil),
		one("page over a foreign one", config.ReplacePage(pages[0], foreign), foreign),
		one("page over another", config.ReplacePage(pages[0], pages[0]), pages[0]),
		one("owed", list.Put(), nil),
		one("claim at first", fresh.Claim(7), nil),
		one("claim", later.Claim(7), cursor(later)),
		one("advance at first", fresh.Advance(7, 5), cursor(claimed)),
		one("advance", later.Advance(9, 8), cursor(later)),
		one("operation", Operation{Namespace: ns, Entity: "e", Resource: "r", ID: "x", Kind: OperationReset,
			Tokens: map[string]int64{"rpm": 1}, At: sampleNow}.Create(), nil),
		one("audit", ledger.Audit{Namespace: ns, Subject: "e", ID: "1", At: layout.Timestamp(sampleNow), Action: "x",
			TTL: 1}.Create(), nil),
	}
	return append(calls, usageWrites(t)...)
}

// usageWrites returns the writes of usage: of one shard, for a snapshot that was not read, read as
// empty, or read with contents; and the writes of sums.
func usageWrites(t *testing.T) []call {
	t.Helper()
	at := func(n string, used int64) ledger.Mark {
		return ledger.Mark{At: ledger.PositionOf(sampleNow/1000, n), Used: []ledger.Count{{Limit: "rpm", Tokens: used}},
			Gen: 9}
	}
	u := ledger.Usage{Place: ledger.Place{Namespace: "ns", Entity: "key-1", Resource: "gpt", Window: "hourly",
		Start: "2023-11-14T22:00:00Z", Part: "2023-11-14T22:00:00Z", TTL: sampleNow},
		Counts: []ledger.Count{{Limit: "rpm", Tokens: 3}}, Events: 2, Moves: []ledger.Move{{Shard: 0, To: at("10", 3_000)}}}
	first, other := applied(t, u.Update(), nil), u
	other.Moves = []ledger.Move{{Shard: 1, To: at("10", 3_000)}}
	beside := applied(t, other.Update(), nil)
	known, last := u, at("10", 3_000)
	last.At = ledger.PositionOf(sampleNow/1000, "20")
	known.Moves = []ledger.Move{{Shard: 0, Counted: &last, To: at("20", 6_000)}}
	seen, marks := u, ledger.MarksOf(first)
	seen.Seen, seen.Moves = &marks, []ledger.Move{{Shard: 0, To: at("30", 9_000)}, {Shard: 1, To: at("31", 2_000)}}
	foreign := u
	none := item.Item{item.AttrPK: first[item.AttrPK], item.AttrSK: first[item.AttrSK], "rpm": item.N(5)}
	noMarks := ledger.MarksOf(none)
	foreign.Seen = &noMarks

	sum := ledger.Sum{Place: ledger.Place{Namespace: "ns", Entity: "key-1", Resource: "gpt", Window: "daily",
		Start: "2023-11-14T00:00:00Z", Part: "2023-11-14", TTL: sampleNow},
		Amount: ledger.AmountOf(first), Summed: ledger.Summed{Parts: []int{22}}}
	sumOver := func(on item.Item) item.Update {
		up, due := sum.Update(on)
		if !due {
			t.Error("a sum has nothing to write")
		}
		return up
	}
	daily := item.Item{item.AttrPK: sum.Key().Item()[item.AttrPK], item.AttrSK: sum.Key().Item()[item.AttrSK],
		"total_events": item.N(2), "rpm": item.N(3)}
	stored := applied(t, sumOver(nil), nil)
	write := sumOver(daily)
	sum.Events++
	return []call{
		one("usage, not seen", u.Update(), beside),
		one("usage, not seen, and expected", known.Update(), first),
		one("usage, seen", seen.Update(), first),
		one("usage, seen by others only", foreign.Update(), none),
		one("first sum", func() item.Update { up, _ := sum.Update(nil); return up }(), nil),
		one("sum in place of what was counted", write, daily),
		one("sum over a sum", sumOver(stored), stored),
	}
}

// begun returns a bucket as read after its creation.
func begun(t *testing.T, n NewBucket) Shard {
	t.Helper()
	created, _ := Create(n)
	b := decode(t, created.Item)
	return b
}
