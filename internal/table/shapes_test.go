package table

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// shape is a planned call: one write, or a transaction of several.
type shape struct {
	name   string
	writes []item.Write
}

// allShapes is every shape that a bucket of these limits can meet, at its
// longest: every limit is named, charged, refilled and changed.
func allShapes(t *testing.T, limits []bucket.Limit) []shape {
	t.Helper()
	const now = sampleNow
	costs := make([]Cost, len(limits))
	changed := slices.Clone(limits)
	for i, l := range limits {
		costs[i] = Cost{l.Name, 1000 * int64(i+1)}
		changed[i].Capacity *= 2
	}
	n := NewBucket{
		Namespace: "ns", Entity: "key-1", Resource: "gpt", Cascade: true, Parent: "acme", Limits: limits, Costs: costs, Life: Expires, Now: now,
	}
	create, full := Create(n)
	empty := full
	empty.State = emptied(full.State)
	half := full
	half.State.Slots = slices.Clone(full.State.Slots)
	for i := range half.State.Slots {
		half.State.Slots[i].Tokens = half.State.Slots[i].Capacity / 2
	}
	noLimits := full
	noLimits.State.Slots = nil
	partial := noLimits
	for _, sl := range full.State.Slots {
		partial.Partial = append(partial.Partial, PartialLimit{Name: sl.Name, Tokens: -5, HasTokens: true})
	}
	split := full
	split.State.Shards, split.TTL = 2, 0
	createEmpty, _ := CreateEmpty(n, 4)
	spend := func(s Spend) item.Update {
		t.Helper()
		u, ok := s.Plan()
		if !ok {
			t.Error("the sample spend is refused")
		}
		return u
	}
	refill := func(r Refill) item.Update { return r.Plan().Update }
	top, ok := Charge{Image: full, Limits: limits, Costs: costs, Now: now + 3_600_000, Life: Expires}.top()
	if !ok {
		t.Error("the sample bucket is not full after an hour")
	}
	prolong, ok := Prolong(Bucket{Namespace: "ns", Entity: "e", Resource: "r", State: empty.State, TTL: 1}, now)
	if !ok {
		t.Error("the sample bucket needs no longer ttl")
	}
	adjust := slices.Clone(costs)
	for i := range adjust {
		adjust[i].Milli = -adjust[i].Milli
	}
	return []shape{
		{"create", []item.Write{create}},
		{"create empty", []item.Write{createEmpty}},
		{"spend", []item.Write{spend(Spend{Image: half, Limits: limits, Costs: costs, Now: now + 1})}},
		{"spend unmetered", []item.Write{spend(Spend{Image: half, Limits: limits, Costs: costs, Now: now + 1, Unmetered: true})}},
		{"spend by force", []item.Write{spend(Spend{Image: half, Limits: limits, Costs: costs, Now: now + 1, Force: true})}},
		{"top", []item.Write{top}},
		{"refill", []item.Write{refill(Refill{Image: empty, Costs: costs, Now: now + 600_007, Life: Expires})}},
		{"refill of the aggregator", []item.Write{refill(Refill{Image: empty, Now: now + 7})}},
		{"refill with changed limits", []item.Write{refill(Refill{Image: empty, Want: changed, Costs: costs, Now: now + 600_007, Life: NeverExpires})}},
		{"refill with new limits", []item.Write{refill(Refill{Image: noLimits, Want: limits, Costs: costs, Now: now + 7, Life: Expires})}},
		{"refill that mends", []item.Write{refill(Refill{Image: partial, Want: limits, Now: now + 7, Life: Expires})}},
		{"refill by force", []item.Write{refill(Refill{Image: empty, Costs: costs, Now: now, Force: true})}},
		{"adjust", []item.Write{Adjust(full.Key(), adjust)}},
		{"split", Split(full)},
		{"recount", []item.Write{Recount(full)}},
		{"open", Open(split, 1, 2, now)},
		{"probe", []item.Write{Probe(full.Key(), 4)}},
		{"keep forever", []item.Write{KeepForever(full.Key())}},
		{"prolong", []item.Write{prolong}},
	}
}

// rendered is a write as DynamoDB gets it.
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
		return rendered{"put", "", aws.ToString(in.Put.ConditionExpression), in.Put.ExpressionAttributeNames, in.Put.ExpressionAttributeValues}
	case in.Delete != nil:
		return rendered{"delete", "", aws.ToString(in.Delete.ConditionExpression), in.Delete.ExpressionAttributeNames, in.Delete.ExpressionAttributeValues}
	}
	c := in.ConditionCheck
	return rendered{"check", "", aws.ToString(c.ConditionExpression), c.ExpressionAttributeNames, c.ExpressionAttributeValues}
}

var alias = regexp.MustCompile(`[#:][0-9]+`)

// readable puts names and values back in place of their aliases.
func (r rendered) readable() string {
	plain := func(s string) string {
		return alias.ReplaceAllStringFunc(s, func(a string) string {
			if a[0] == '#' {
				return r.names[a]
			}
			s := strings.TrimSuffix(strings.TrimPrefix(string(item.JSON(item.Item{"": r.values[a]})), "{\n  \"\": "), "\n}\n")
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

// The expressions of every shape are a file: a change is seen and understood.
func TestShapesRenderAsTheirGolden(t *testing.T) {
	var b strings.Builder
	for _, s := range allShapes(t, sampleLimits) {
		fmt.Fprintf(&b, "# %s\n", s.name)
		for _, w := range s.writes {
			b.WriteString(render(w).readable())
		}
		b.WriteString("\n")
	}
	golden(t, "shapes.txt", []byte(b.String()))
}

// hostileLimits are as many limits as a call may have, with names as long as
// they may be, of every character that may stand in them, reserved words among
// them.
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

// maxLimits is how many limits one bucket is expected to carry at most.
const maxLimits = 32

// Every shape fits DynamoDB's limits with 32 limits of 64-character names, and
// no attribute name reaches an expression.
func TestShapesFitTheLimitsOfDynamoDB(t *testing.T) {
	expression := regexp.MustCompile(`^([#:][0-9]+|SET|ADD|DELETE|REMOVE|AND|OR|BETWEEN|if_not_exists|attribute_exists|attribute_not_exists|[=<>(), ]+)*$`)
	longest := rendered{}
	for _, s := range allShapes(t, hostileLimits(maxLimits)) {
		for _, w := range s.writes {
			if err := item.ValidateInTransaction(w); err != nil && s.name != "probe" {
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
	if len(longest.names) < 5*maxLimits {
		t.Errorf("the longest shape has %d names only, the test says little", len(longest.names))
	}
}

// Whatever the image, a charge that is granted renders to a valid write that
// holds for its image and takes exactly the costs from the counters.
func FuzzChargesHoldForTheirImage(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		g := generator{rand.New(rand.NewPCG(seed, 3))}
		b := g.bucket()
		b.State.RF = sampleNow
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
			costs = append(costs, Cost{l.Name, 1000 * g.Int64N(1+l.Capacity/1000)})
		}
		c := Charge{Image: b, Limits: want, Costs: costs, Now: sampleNow + g.Int64N(20_000) - 1000, Life: Lifetime(g.IntN(3)), Force: g.IntN(4) == 0}
		plan := c.Plan()
		if !plan.Verdict.Granted && !c.Force {
			return
		}
		if err := item.Validate(plan.Update); err != nil {
			t.Fatalf("%s: %v", plan.Shape, err)
		}
		after, held, err := plan.Update.Apply(b.Item())
		if err != nil || !held {
			t.Fatalf("%s is refused by its own image (%v):\n%s%s", plan.Shape, err, render(plan.Update).readable(), item.JSON(b.Item()))
		}
		got, err := DecodeBucket(after)
		if err != nil || !got.State.Matches(want) && plan.Shape == ShapeRefill {
			t.Fatalf("%s leaves %+v (%v)", plan.Shape, got, err)
		}
		for _, cost := range costs {
			before := int64(0)
			if i := b.State.Index(cost.Limit); i >= 0 {
				before = b.State.Slots[i].Used
			}
			if i := got.State.Index(cost.Limit); got.State.Slots[i].Used-before != cost.Milli {
				t.Errorf("%s: limit %s counts %d more, want %d", plan.Shape, cost.Limit, got.State.Slots[i].Used-before, cost.Milli)
			}
		}
	})
}

// Watermarks compare as strings, so positions must.
func TestPositionsCompareLikeStrings(t *testing.T) {
	inOrder := []string{
		Position{0, "7"}.String(),
		Position{0, "0010"}.String(),
		Position{0, strings.Repeat("9", sequenceDigits)}.String(),
		Position{1, "5"}.String(),
		Position{1_699_999_999, "900"}.String(),
		Position{1_700_000_000, "1"}.String(),
		Position{1_700_000_000, "2"}.String(),
		Position{9_999_999_999, ""}.String(),
	}
	if !slices.IsSorted(inOrder) {
		t.Errorf("not in order: %q", inOrder)
	}
	for _, p := range inOrder {
		if want := streamDigits + sequenceDigits; len(p) != want {
			t.Errorf("%s has %d digits, want %d", p, len(p), want)
		}
	}
	const withoutStream = "0000000000004421584500000000017450439091"
	if at := (Position{1_700_000_000, "1"}).String(); withoutStream >= at {
		t.Errorf("%s is not below %s", withoutStream, at)
	}
}
