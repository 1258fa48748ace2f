package ledger

import (
	"bytes"
	"fmt"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A snapshot with a legend of another form has no marks.
func TestOtherLegendsHaveNoMarks(t *testing.T) {
	legend := Legend{Stream: 7, Limits: []string{"rpm"}}.bytes()
	// A client whose every request names another limit adds a name with every write.
	many := Legend{Stream: 7, Limits: slices.Repeat([]string{"a"}, 5000)}.bytes()
	for name, c := range map[string]struct {
		v   item.Value
		any bool
	}{
		"ours": {item.B(legend), true}, "none": {nil, false}, "a string": {item.S("x"), false},
		"cut short": {item.B(legend[:len(legend)-1]), false}, "empty": {item.B(nil), false},
		"of many limits": {item.B(many), true},
	} {
		it := Snapshot{Namespace: "n", Entity: "e", Resource: "r", Part: "x"}.Item()
		if delete(it, attrLegend); c.v != nil {
			it[attrLegend] = c.v
		}
		if m := MarksOf(it); m.Any != c.any || len(m.Legend.Limits) > 0 != c.any {
			t.Errorf("%s: %v, %d limits", name, m.Any, len(m.Legend.Limits))
		}
	}
}

// digits returns sequence numbers of all lengths, with the bounds of packing.
func digits(r *rand.Rand) string {
	n := 1 + r.IntN(sequenceDigits)
	b := make([]byte, n)
	for i := range b {
		b[i] = "0000999912345678"[r.IntN(16)]
	}
	return string(b)
}

func TestPositionsAreOrderedLikeTheirNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	number := func(s string) *big.Int { n, _ := new(big.Int).SetString(s, 10); return n }
	for range 20_000 {
		a, b := digits(r), digits(r)
		p, q := PositionOf(1, a), PositionOf(1, b)
		check.MustEqual(t, p.Compare(q), number(a).Cmp(number(b)), "%s against %s", a, b)
		if number(p.String()).Cmp(number(a)) != 0 || len(p.String()) != sequenceDigits {
			t.Fatalf("%s is %s", a, p)
		}
		if back, ok := UnpackPosition(1, p.Pack()); !ok || back != p {
			t.Fatalf("%s: unpacked %v %v", a, back, ok)
		}
		before := new(big.Int).Sub(number(a), big.NewInt(1))
		if before.Sign() < 0 {
			before.SetInt64(0)
		}
		if got := p.Before(); number(got.String()).Cmp(before) != 0 {
			t.Fatalf("before %s is %s", a, got)
		}
		if p.Compare(q) < 0 && bytes.Compare(Legend{Stream: 1}.position(p), Legend{Stream: 1}.position(q)) >= 0 {
			t.Fatalf("%s and %s are not in order when packed", a, b)
		}
	}
	early, late := PositionOf(1, "900"), PositionOf(2, "1")
	if early.Compare(late) >= 0 {
		t.Error("a later stream's positions are not after those of an earlier one")
	}
	for _, l := range []Legend{{Stream: 0}, {Stream: 1}, {Stream: 2}, {Stream: 3}} {
		if bytes.Compare(l.position(early), l.position(late)) >= 0 {
			t.Errorf("in the legend of stream %d: not in order", l.Stream)
		}
	}
}

func TestMarksSurviveStorage(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		l := Legend{Stream: g.Int64N(3) * 1_700_000_000, Limits: []string{"tpm", "rpm", "odd name"}}
		m := randomMark(g, l)
		got, ok := l.parse(l.mark(m))
		if !ok || !reflect.DeepEqual(got, m) {
			t.Fatalf("got  %+v %v\nwant %+v", got, ok, m)
		}
		// A limit added later changes no older mark.
		wider := l.With([]Count{{"later", 1}, {"rpm", 2}})
		if got, ok := wider.parse(l.mark(m)); !ok || !reflect.DeepEqual(got, m) || len(l.Limits) != 3 {
			t.Fatalf("in a longer legend %+v %v\nwant %+v", got, ok, m)
		}
		if got, ok := parseLegend(wider.bytes()); !ok || !reflect.DeepEqual(got, wider) {
			t.Fatalf("legend %+v, want %+v", got, wider)
		}
	}
}

// Any bytes decode as a mark or as none, without a panic.
func TestForeignMarksAreIgnored(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	l := Legend{Stream: 7, Limits: []string{"rpm", "tpm"}}
	read := 0
	for range 50_000 {
		b := make([]byte, r.IntN(24))
		for i := range b {
			b[i] = byte(r.IntN(256))
			if r.IntN(3) == 0 {
				b[i] = []byte{earlier, inStream, inStream + 3, later, goneCounter, noCounter, 0xDF, 0}[r.IntN(8)]
			}
		}
		if m, ok := l.parse(b); ok {
			read++
			if again, ok := l.parse(l.mark(m)); !ok || !reflect.DeepEqual(again, m) {
				t.Fatalf("% x reads as %+v, which is stored as % x", b, m, l.mark(m))
			}
		}
		parseLegend(b)
	}
	if read == 0 {
		t.Error("nothing was a mark")
	}
}

// The names of marks differ from all other attributes.
func TestAttributesOfMarksAreUnique(t *testing.T) {
	seen := map[string]bool{attrLegend: true}
	for _, name := range []string{"PK", "SK", "ttl", "window", "resource", "entity_id", "_", "_0", "_v", "_.100"} {
		seen[attrCount(name)] = true
	}
	for shard := range 40_000 {
		attr := attrMark(shard)
		if got, ok := shardOfMark(attr); !ok || got != shard || seen[attr] {
			t.Fatalf("shard %d: %q, read back as %d %v, in use %v", shard, attr, got, ok, seen[attr])
		}
		seen[attr] = true
	}
	for _, attr := range []string{"", "_", "_.", "_.5", "_00", "_V", "_-1", "0", "_ttl", "_PK", "__0"} {
		if n, ok := shardOfMark(attr); ok {
			t.Errorf("%q is the mark of shard %d", attr, n)
		}
	}
}

// 32 shards cost one write unit, with numbers as in production.
func TestMarksOfManyShardsFitOneUnit(t *testing.T) {
	for _, c := range []struct {
		entity        string
		shards, units int
	}{{"customer-12345", 1, 1}, {"customer-12345", 32, 1}, {strings.Repeat("x", 40), 16, 1},
		{strings.Repeat("x", 40), 32, 2}} {
		u := Usage{Place: hour, Counts: []Count{{"rpm", 4_000}, {"tpm", 3_000_000}}, Events: 4_000}
		u.Namespace, u.Entity, u.Resource = "kQ3xZp9LmNa", c.entity, "gpt-4"
		for k := range c.shards {
			at := PositionOf(1_700_000_000, fmt.Sprintf("%d", 4_421_584_500_000_000_000+int64(k))+"01745")
			u.Moves = append(u.Moves, Move{Shard: k,
				To: Mark{At: at, Used: []Count{{"rpm", 60_000}, {"tpm", 40_000_000}}, Gen: 9}})
		}
		it := applied(t, u.Update(), nil)
		t.Logf("%d shards, entity of %d characters: %d bytes", c.shards, len(c.entity), item.Size(it))
		if got := (item.Size(it) + 1023) / 1024; got != c.units {
			t.Errorf("%d shards, entity of %d characters: %d units, want %d", c.shards, len(c.entity), got, c.units)
		}
		if shards := MarksOf(it).Shards(); len(shards) != c.shards || !slices.IsSorted(shards) {
			t.Errorf("shards %v", shards)
		}
	}
}

// Marks do not count without the legend, which names their limits.
func TestMarksNeedTheirLegend(t *testing.T) {
	it := usageSample("hourly", "2023-11-14T22:00:00Z", "2023-11-14T22:00:00Z").Item()
	if m, ok := MarksOf(it).Shard(0); !ok || len(m.Used) != 3 {
		t.Fatalf("%+v %v", m, ok)
	}
	delete(it, attrLegend)
	if m, ok := MarksOf(it).Shard(0); ok {
		t.Errorf("without a legend: %+v", m)
	}
	if m, ok := MarksOf(it).Shard(3); ok {
		t.Errorf("of a removed shard, without a legend: %+v", m)
	}
	if m, ok := MarksOf(it).Shard(1); ok {
		t.Errorf("of a shard without a mark: %+v", m)
	}
}

// The limits of a snapshot are the names of its numbers. Some numbers are something else, so limits
// with those names have a leading underscore.
func TestLimitsAreReadFromTheirAttributes(t *testing.T) {
	for attr, want := range map[string]string{"rpm": "rpm", "_window": "window", "_ttl": "ttl", "__x": "_x", "window": "",
		"ttl": "", "_rpm": "", "_": "", "": "", "total_events": "", "_total_events": "total_events"} {
		got, ok := limitOfCount(attr)
		if ok != (want != "") || ok && (got != want || attrCount(got) != attr) {
			t.Errorf("%q: %q, %v, want %q", attr, got, ok, want)
		}
	}
}

// A write without a look can continue from a mark whose limit has vanished since, because the
// expected legend still has the limit.
func TestWritesExpectVanishedLimits(t *testing.T) {
	at := func(n string, used ...Count) Mark {
		return Mark{At: PositionOf(sampleNow/1000, n), Used: used, Gen: 9}
	}
	u := Usage{Place: hour, Events: 1, Moves: []Move{{To: at("10", Count{"rpm", 3}, Count{"tpm", 5})}}}
	stored := applied(t, u.Update(), nil)
	from := at("20", Count{"rpm", 3}, Count{"tpm", 5})
	u.Counts, u.Moves = []Count{{"rpm", 1}}, []Move{{Counted: &from, To: at("20", Count{"rpm", 4})}}
	if m, ok := MarksOf(applied(t, u.Update(), stored)).Shard(0); !ok || len(m.Used) != 1 {
		t.Errorf("%v: %+v", ok, m)
	}
}

// A negative counter has its own form. A positive counter in that form is not a mark.
func TestPositiveCountersInNegativeFormAreRefused(t *testing.T) {
	l := Legend{Stream: 7, Limits: []string{"rpm"}}
	b := l.mark(Mark{At: PositionOf(7, "5"), Used: []Count{{"rpm", -5}}, Gen: 3})
	if m, ok := l.parse(b); !ok || m.Used[0].Tokens != -5 {
		t.Errorf("%+v, %v", m, ok)
	}
	if b[2] &= 0x7F; b[1] != negative {
		t.Fatalf("%x", b)
	}
	if m, ok := l.parse(b); ok {
		t.Errorf("%x is %+v", b, m)
	}
}

// A legend adds limits that no mark has yet, up to 64.
func TestLegendsAddUpTo64Limits(t *testing.T) {
	for n, want := range map[int]int{63: 63, 64: 64, 65: 0} {
		u := Usage{Place: hour, Events: 1,
			Moves: []Move{{To: Mark{At: PositionOf(sampleNow/1000, "10"), Gen: 9}}}}
		for i := range n {
			u.Counts = append(u.Counts, Count{fmt.Sprintf("l%02d", i), 1})
		}
		after := applied(t, u.Update(), nil)
		check.Equal(t, len(MarksOf(after).Legend.Limits), want, "of %d limits it has", n)
	}
}
