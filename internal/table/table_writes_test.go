package table

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// call is a planned call: one write, or a transaction of several.
type call struct {
	name   string
	writes []item.Write
	on     []item.Item // the item for which each write is planned; nil: no item
}

// one returns a call of one write.
func one(name string, w item.Write, on item.Item) call {
	return call{name, []item.Write{w}, []item.Item{on}}
}

// sampleNew describes the bucket for which the sample writes are planned.
func sampleNew(limits []bucket.Limit) NewBucket {
	n := NewBucket{Namespace: "ns", Entity: "key-1", Resource: "gpt", Cascade: true, Parent: "acme",
		Lifetime: Expires, Now: sampleNow}
	for i, l := range limits {
		n.Costs = append(n.Costs, Cost{Limit: l, Milli: 1000 * int64(i+1)})
	}
	return n
}

// sampleImages returns images of the sample bucket: in use, and in every state for which a charge
// begins a generation.
func sampleImages(limits []bucket.Limit) map[string]Shard {
	_, used := Create(sampleNew(limits))
	used.Generation = (sampleNow - 5000) << drawBits
	used.State.Slots = slices.Clone(used.State.Slots)
	for i := range used.State.Slots {
		used.State.Slots[i].Tokens = used.State.Slots[i].Capacity / 2
		used.State.Slots[i].Used = 1_000_000
	}
	out := map[string]Shard{"used": used}
	edit := func(name string, change func(*Shard)) {
		b := used
		b.State.Slots = slices.Clone(used.State.Slots)
		change(&b)
		out[name] = b
	}
	edit("foreign", func(b *Shard) { b.Generation = 0 })
	edit("no clock", func(b *Shard) { b.State.NoClock, b.State.RF, b.Generation, b.NoShardCount = true, 0, 0, true })
	edit("broken clock", func(b *Shard) { b.State.RF += 1_000_000_000 })
	edit("full", func(b *Shard) {
		for i := range b.State.Slots {
			b.State.Slots[i].Tokens = b.State.Slots[i].Capacity
		}
	})
	edit("debt", func(b *Shard) {
		for i := range b.State.Slots {
			b.State.Slots[i].Tokens = -2 * b.State.Slots[i].Capacity
		}
	})
	edit("outgrown", func(b *Shard) {
		b.Outgrown = map[string]item.Value{"b_" + limits[0].Name + "_tc": num("18446744073710551616")}
	})
	edit("partial", func(b *Shard) {
		for _, sl := range b.State.Slots {
			b.Partial = append(b.Partial, PartialLimit{Name: sl.Name, Tokens: -5})
		}
		b.State.Slots, b.Generation = nil, 0
	})
	edit("no limits", func(b *Shard) { b.State.Slots = nil })
	edit("more limits", func(b *Shard) {
		b.State.Slots = append(b.State.Slots, bucket.Slot{Limit: newRate("zzz", 7000, 1000), Tokens: 7000, Used: 9000})
	})
	edit("held", func(b *Shard) { hold(b, sampleNow+500) })
	edit("split", func(b *Shard) { b.State.Shards, b.TTL = 2, 0 })
	edit("split, held", func(b *Shard) { b.State.Shards, b.TTL = 2, 0; hold(b, sampleNow+5000) })
	edit("bumped", func(b *Shard) {
		b.State.Shards, b.TTL = 2, 0
		for i := range b.State.Slots {
			b.State.Slots[i].Tokens = b.State.Slots[i].Capacity
		}
	})
	return out
}

// hold marks a twentieth of every limit's capacity as held until an instant.
func hold(b *Shard, until int64) {
	b.State.HeldUntil = until
	for i := range b.State.Slots {
		if sl := &b.State.Slots[i]; sl.Name != bucket.WCU {
			sl.Held, sl.Ended = sl.Capacity/20, sl.Capacity/50
		}
	}
}

// allWrites returns every possible write of a bucket with these limits, in its longest form: it
// names, charges, refills and changes every limit.
func allWrites(t *testing.T, limits []bucket.Limit) []call {
	t.Helper()
	const now = sampleNow + 1007
	n, images := sampleNew(limits), sampleImages(limits)
	changed, adjust := slices.Clone(n.Costs), slices.Clone(n.Costs)
	for i := range limits {
		changed[i].Limit.Capacity *= 2
		adjust[i].Milli = -adjust[i].Milli
	}
	create, _ := Create(n)
	createEmpty, _ := CreateEmpty(n, 4)
	used := images["used"]
	needy := used
	needy.TTL = 1
	prolong, ok := Prolong(needy, now)
	if !ok {
		t.Error("the sample bucket needs no longer ttl")
	}
	calls := []call{one("create", create, nil), one("create empty", createEmpty, nil)}
	charge := func(name, image string, c Charge) {
		t.Helper()
		c.Image, c.Now = images[image], cmp.Or(c.Now, now)
		plan := c.Plan()
		if !plan.Verdict.Granted && !c.Force {
			t.Errorf("%s: denied, %+v", name, plan.Verdict)
		}
		calls = append(calls, one(name, plan.Update, asStored(c.Image)))
	}
	acquire := Charge{Costs: n.Costs, Lifetime: Expires}
	young := acquire
	young.Now = sampleNow + 7
	charge("acquire", "used", acquire)
	charge("acquire within a second", "used", young)
	crowd := acquire
	crowd.Slack, crowd.Room = 25, 10
	charge("acquire on a full bucket", "full", acquire)
	charge("acquire on a full bucket in a crowd, leaving room for adds", "full", crowd)
	charge("acquire on an item that another client made", "foreign", acquire)
	charge("acquire on an item without a clock and a count", "no clock", acquire)
	charge("acquire on an item whose clock is broken", "broken clock", acquire)
	charge("acquire on an item with a counter beyond 64 bits", "outgrown", acquire)
	charge("acquire with changed limits", "used", Charge{Costs: changed, Lifetime: NeverExpires})
	charge("acquire with new limits", "no limits", acquire)
	charge("acquire with other limits in force", "more limits", Charge{Costs: changed, Lifetime: Expires})
	charge("acquire on a split bucket", "split", acquire)
	charge("mend", "partial", Charge{Costs: n.Costs, Lifetime: Expires, Refill: true})
	charge("settle by force", "used", Charge{Costs: n.Costs, Force: true})
	charge("settle by force into more debt", "debt", Charge{Costs: n.Costs, Force: true})
	charge("give back by force", "used", Charge{Costs: adjust, Force: true})
	charge("refill", "used", Charge{})
	charge("refill of debt", "debt", Charge{})
	half := slices.Clone(n.Costs)
	for i := range half {
		half[i].Milli /= 2
	}
	takes := Charge{Costs: n.Costs, Lifetime: Expires}
	takes.Ahead = &Ahead{Life: 500, Take: half, Left: half, Declared: half[:1], Ended: half}
	charge("acquire that takes ahead", "used", takes)
	charge("acquire that takes ahead where others hold", "held", takes)
	takes.Ahead = &Ahead{Life: 500, Take: half, Mend: true, Spent: &used}
	charge("acquire that takes ahead and mends", "held", takes)
	charge("acquire where others hold", "held", acquire)
	split, held, bumped, debt := images["split"], images["split, held"], images["bumped"], images["debt"]
	first, firstHeld, four, dated := split, held, split, split
	first.State.Shard, firstHeld.State.Shard, four.State.Shards, dated.TTL = 1, 1, 4, 1
	third := four
	third.State.Shard = 1
	cold := Add{Room: 50, Namespace: "ns", Entity: "key-1", Resource: "gpt", Shards: 1, Costs: n.Costs, Now: now}
	if drain, ok := Drain(used, now+60_000, now); ok { // quotas cannot be drained
		calls = append(calls, one("drain", drain, used.Item()))
	}
	return append(calls,
		one("cold", cold.Plan(), used.Item()),
		one("adjust", Adjust(used.Key(), adjust), used.Item()),
		one("adjust unmetered", Release(used.Key(), Released{Back: adjust, Unmetered: true}), used.Item()),
		call{"split", Split(used, now), []item.Item{used.Item(), nil}},
		call{"split of debt", Split(debt, now), []item.Item{debt.Item(), nil}},
		one("recount", Recount(used, now), used.Item()),
		call{"merge", Merge(split, first, 1, now), []item.Item{first.Item(), split.Item()}},
		call{"merge of what is held", Merge(split, firstHeld, 1, now), []item.Item{firstHeld.Item(), split.Item()}},
		call{"discount", Discount(split, 1, now), []item.Item{split.Item(), nil}},
		call{"discount of an uncut shard", Discount(bumped, 1, now), []item.Item{bumped.Item(), nil}},
		call{"restore", Restore(split, 1, 2, now, 3), []item.Item{nil, split.Item()}},
		call{"restore a shard that shard 1 split off", Restore(four, 3, 4, now, 3),
			[]item.Item{nil, four.Item(), third.Item()}},
		call{"restore from a count that another client raised", Restore(bumped, 1, 2, now, 3),
			[]item.Item{nil, bumped.Item()}},
		one("counts", Counts(split, 2), split.Item()),
		one("look", Look(used.Key(), 4), four.Item()),
		one("keep forever", KeepForever(used.Key()), dated.Item()),
		one("prolong", prolong, needy.Item()),
		one("raise", Raise(used, map[string]bucket.Gift{limits[0].Name: {Milli: 1000}}, now), used.Item()),
	)
}

// asStored returns the item of an image, including missing and partial limits.
func asStored(b Shard) item.Item {
	it := b.Item()
	if b.State.NoClock {
		delete(it, layout.AttrRF)
	}
	if b.NoShardCount {
		delete(it, AttrShardCount)
	}
	if b.Generation == 0 {
		delete(it, AttrGeneration)
	}
	for _, p := range b.Partial {
		it[namesOf(p.Name).tokens] = item.N(p.Tokens)
	}
	return it
}

// rendered is a write in DynamoDB's form.
type rendered struct {
	verb, update, cond string
	names              map[string]string
	values             item.Item
}

func render(w item.Write) rendered {
	in := item.TransactInput("t", "t", []item.Write{w}).TransactItems[0]
	switch {
	case in.Update != nil:
		return rendered{"update", aws.ToString(in.Update.UpdateExpression), aws.ToString(in.Update.ConditionExpression),
			in.Update.ExpressionAttributeNames, in.Update.ExpressionAttributeValues}
	case in.Put != nil:
		return rendered{"put", "", aws.ToString(in.Put.ConditionExpression), in.Put.ExpressionAttributeNames,
			in.Put.ExpressionAttributeValues}
	case in.Delete != nil:
		return rendered{"delete", "", aws.ToString(in.Delete.ConditionExpression), in.Delete.ExpressionAttributeNames,
			in.Delete.ExpressionAttributeValues}
	}
	c := in.ConditionCheck
	return rendered{"check", "", aws.ToString(c.ConditionExpression), c.ExpressionAttributeNames,
		c.ExpressionAttributeValues}
}

var alias = regexp.MustCompile(`[#:][0-9]+`)

// readable replaces aliases by names and values.
func (r rendered) readable() string {
	plain := func(s string) string {
		return alias.ReplaceAllStringFunc(s, func(a string) string {
			if a[0] == '#' {
				return r.names[a]
			}
			s := string(itemtest.JSON(item.Item{"": r.values[a]}))
			s = strings.TrimSuffix(strings.TrimPrefix(s, "{\n  \"\": "), "\n}\n")
			if n, ok := strings.CutPrefix(s, `{"N": "`); ok {
				return strings.TrimSuffix(n, `"}`)
			}
			return s
		})
	}
	out := r.verb
	for verb := range strings.FieldsSeq("SET ADD DELETE REMOVE") {
		r.update = strings.Replace(" "+r.update, " "+verb+" ", "\n  "+verb+" ", 1)
	}
	out += plain(strings.ReplaceAll(strings.TrimLeft(r.update, " "), ", #", ",\n      #"))
	if r.cond != "" {
		cond := regexp.MustCompile(` AND ([#a(])`).ReplaceAllString(r.cond, "\n  AND $1")
		out += "\n  IF  " + plain(cond)
	}
	return out + "\n"
}

// The expressions of every call are in a golden, so that changes are visible.
func TestWritesRenderAsTheirGolden(t *testing.T) {
	rendersAs(t, "writes.txt", allWrites(t, sampleLimits))
	rendersAs(t, "writes-quotas.txt", quotaWrites(t))
	rendersAs(t, "writes-others.txt", otherWrites(t))
}

func rendersAs(t *testing.T, name string, calls []call) {
	t.Helper()
	var b strings.Builder
	for _, s := range calls {
		fmt.Fprintf(&b, "# %s\n", s.name)
		for _, w := range s.writes {
			k := w.Target()
			fmt.Fprintf(&b, "%s %s\n%s", k.PK, k.SK, render(w).readable())
		}
		b.WriteString("\n")
	}
	golden(t, name, []byte(b.String()))
}

// hostileLimits returns as many limits as a call may have. Their names are as long as possible,
// with every allowed character, and reserved words.
func hostileLimits(n int) []bucket.Limit {
	names := []string{"a-b", "in.tok", "SELECT", "size", "tk", "b_tk_cp", "Name", "l_x"}
	for i := len(names); i < n; i++ {
		names = append(names, fmt.Sprintf("L%02d-%s", i, strings.Repeat("x.", 30)))
	}
	limits := make([]bucket.Limit, n)
	for i := range limits {
		limits[i] = bucket.Limit{Name: names[i], Capacity: 1_000_000_000_000, Amount: 999_999_937_000, Period: 3_600_000}
	}
	return limits
}

// Every call with 32 limits of 64-character names fits into DynamoDB's limits, and no attribute
// name is part of an expression.
func TestWritesFitTheLimitsOfDynamoDB(t *testing.T) {
	expression := regexp.MustCompile(
		`^([#:][0-9]+|SET|ADD|DELETE|REMOVE|AND|OR|BETWEEN|if_not_exists|attribute_exists|attribute_not_exists|[=<>(), ]+| - )*$`)
	longest := rendered{}
	rates := hostileLimits(bucket.MaxLimits)
	quotas := slices.Clone(rates)
	for i := range quotas {
		quotas[i].Amount, quotas[i].Period = 0, bucket.QuotaPeriod
		quotas[i].Reset = []string{"m0h0@Europe/Berlin", "+3600"}[i%2]
	}
	planned := slices.Clone(rates)
	for i, l := range planned {
		if l.Refills() {
			l, _ = l.WithSchedule("h9-16s2000@UTC")
		}
		planned[i] = l.WithRaises(bucket.FormOfRaises([]bucket.Raise{{Tokens: 7, End: sampleNow + 3_600_000}}))
	}
	slots := slices.Clone(rates) // as many as allowed, with rates
	for i := range bucket.MaxAtOnce {
		slots[i] = slotsLimit(slots[len(slots)-1-i].Name+"s", 10)
	}
	for _, s := range slices.Concat(allWrites(t, rates), allWrites(t, quotas), allWrites(t, planned),
		slotsWrites(t, slots)) {
		for _, w := range s.writes {
			if u, ok := w.(item.Update); ok {
				w = CountDenials(u, 1<<40) // each has room for it
			}
			if err := itemtest.ValidateInTransaction(w); err != nil && s.name != "look" {
				t.Errorf("%s: %v", s.name, err)
			}
			r := render(w)
			for _, x := range []string{r.update, r.cond} {
				if !expression.MatchString(x) {
					t.Errorf("%s: a name or value is not aliased: %s", s.name, x)
				}
			}
			for a, name := range r.names {
				if len(a) > 255 || name == "" {
					t.Errorf("%s: alias %q of %q", s.name, a, name)
				}
			}
			if _, ok := w.(item.Update); ok {
				t.Logf("%-27s update %4d bytes, condition %4d bytes, %3d names, %3d values",
					s.name, len(r.update), len(r.cond), len(r.names), len(r.values))
				if len(r.names) > 1000 || len(r.values) > 1000 {
					t.Errorf("%s: too many aliases", s.name)
				}
			}
			if len(r.update)+len(r.cond) > len(longest.update)+len(longest.cond) {
				longest = r
			}
		}
	}
	if len(longest.names) < 5*bucket.MaxLimits {
		t.Errorf("the longest call has only %d names, too few for this test", len(longest.names))
	}
}

// A granted charge of any image renders to a valid write that holds for the image and has the
// planned effect.
func FuzzChargesHoldForTheirImage(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		g := generator{rand.New(rand.NewPCG(seed, 3))}
		b := g.bucket()
		b.State.RF, b.Generation = sampleNow, g.Int64N(3)
		b.State.Shards = 1 << g.IntN(3)
		b.State.Shard = g.IntN(b.State.Shards)
		want := g.limits(1000, 1000)
		var costs []Cost
		for i := range b.State.Slots {
			sl := &b.State.Slots[i]
			sl.Capacity, sl.Amount, sl.Period = 1000*(1+g.Int64N(100)), 1000*(1+g.Int64N(100)), 1+g.Int64N(10_000)
			sl.Tokens, sl.Rest, sl.Used = g.Int64N(2*sl.Capacity)-sl.Capacity/2, g.Int64N(sl.Period), g.Int64N(1<<40)
			if sl.Name == bucket.WCU {
				sl.Limit = bucket.WCULimit()
				continue
			}
			if g.IntN(3) > 0 {
				want = append(want, sl.Limit)
			}
		}
		if g.IntN(2) == 0 {
			want = want[len(want)/2:]
		}
		for _, l := range want {
			costs = append(costs, Cost{Limit: l, Milli: 1000 * g.Int64N(1+l.Capacity/1000) * g.Int64N(2)})
		}
		c := Charge{Image: b, Costs: costs, Now: sampleNow + g.Int64N(20_000) - 1000,
			Lifetime: Lifetime(g.IntN(3)),
			Force:    g.IntN(4) == 0, Slack: g.Int64N(2) * g.Int64N(101), Room: g.Int64N(2) * g.Int64N(101)}
		plan := c.Plan()
		if !plan.Verdict.Granted && !c.Force {
			return
		}
		if g.IntN(8) == 0 {
			c.Refill = true
			plan = c.Plan()
		}
		checkCharge(t, c, plan.Update)
	})
}

// checkCharge applies a charge to the exact item of its image. It must hold, count exactly the
// costs, leave exactly the planned levels, and put the limits in force.
func checkCharge(t *testing.T, c Charge, u item.Update) {
	t.Helper()
	shown := func() string { return render(u).readable() + string(itemtest.JSON(c.Image.Item())) }
	if err := item.Validate(u); err != nil {
		t.Fatalf("%v:\n%s", err, shown())
	}
	after := applied(t, u, c.Image.Item())
	got, err := DecodeShard(after)
	if err != nil || !got.State.Matches(LimitsOf(c.Costs)) || got.Generation == 0 {
		t.Fatalf("leaves %+v (%v)\n%s", got, err, shown())
	}
	before := c.Plan().Before
	for i, sl := range before.Slots {
		cost := costsBySlot(nil, before, c.taken(), c.taken() != nil)[i]
		j := got.State.Index(sl.Name)
		if j < 0 || got.State.Slots[j].Rest != sl.Rest || sl.Name != bucket.WCU &&
			got.State.Slots[j].Tokens != sl.Tokens-cost {
			t.Fatalf("limit %s: planned %+v less %d\n%s%s", sl.Name, sl, cost, shown(), itemtest.JSON(after))
		}
		if used := got.State.Slots[j].Used; used-sl.Used != cost {
			t.Errorf("limit %s counts %d more, want %d", sl.Name, used-sl.Used, cost)
		}
	}
}
