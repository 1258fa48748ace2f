package ledger

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// attempt applies a write of usage to a snapshot. It reports whether the condition held.
func attempt(t *testing.T, snapshot *item.Item, seen *Marks, counts []Count, m Move) (held bool) {
	t.Helper()
	u := Usage{Place: hour, Counts: counts, Events: 1, Seen: seen, Moves: []Move{m}}
	after, held, err := u.Update().Apply(*snapshot)
	check.Must(t, err)
	if held {
		*snapshot = after
	}
	return held
}

// One token more than we counted shows that others count too, together with existing or removed
// shards. With a shard whose mark has no counters, nothing is known.
func TestOneTokenMoreShowsOtherAggregators(t *testing.T) {
	mark := func(at int, used ...Count) Mark { return Mark{At: PositionOf(1, fmt.Sprint(at)), Used: used, Gen: 3} }
	gone := mark(20)
	gone.Gone = true
	another := Move{Shard: 1, To: mark(20, Count{"rpm", 7})}
	for _, c := range []struct {
		name string
		then []Move // seen, after shard 0 has counted 5
		want []Count
	}{
		{"a shard", nil, []Count{{"rpm", 1}}},
		{"a shard that was removed", []Move{{To: gone}}, []Count{{"rpm", 1}}},
		{"another shard", []Move{another}, []Count{{"rpm", 1}}},
		{"one whose mark says nothing", []Move{{Shard: 1, To: mark(20)}}, nil},
		{"its own says nothing any more", []Move{{To: mark(20)}}, nil},
		{"nor with another shard", []Move{another, {To: mark(30)}}, nil},
	} {
		var it item.Item
		ok := attempt(t, &it, nil, []Count{{"rpm", 5}}, Move{To: mark(10, Count{"rpm", 5})})
		for _, m := range c.then {
			seen := MarksOf(it)
			ok = ok && attempt(t, &it, &seen, nil, m)
		}
		if !ok || MarksOf(it).Shared() {
			t.Fatalf("%s: counted %v, shared %v", c.name, ok, MarksOf(it).Shared())
		}
		it["rpm"] = item.N(6)
		if got := MarksOf(it).Others(); !reflect.DeepEqual(got, c.want) || MarksOf(it).Shared() != (c.want != nil) {
			t.Errorf("%s: others have counted %v, shared %v, want %v", c.name, got, MarksOf(it).Shared(), c.want)
		}
	}
}

// The marks of a snapshot include a new limit from then on, together with the earlier ones.
func TestNewLimitsJoinTheMarks(t *testing.T) {
	var it item.Item
	rpm, both := []Count{{"rpm", 5}}, []Count{{"rpm", 6}, {"tpm", 2}}
	if !attempt(t, &it, nil, rpm, Move{To: Mark{At: PositionOf(1, "10"), Used: rpm, Gen: 3}}) {
		t.Fatal("refused")
	}
	seen := MarksOf(it)
	move := Move{To: Mark{At: PositionOf(1, "20"), Used: both, Gen: 3}}
	if !attempt(t, &it, &seen, []Count{{"rpm", 1}, {"tpm", 2}}, move) {
		t.Fatal("refused")
	}
	if m, ok := MarksOf(it).Shard(0); !ok || !reflect.DeepEqual(m.Used, both) {
		t.Errorf("the mark is %+v, %v, want %v", m, ok, both)
	}
}

// An origin is given up if it becomes unknown: with an empty mark of any shard, or a count that is
// not a number. Until the next look, no other aggregator counts as having counted.
func TestUnknownMarksGiveUpTheOrigin(t *testing.T) {
	mark := func(at int, used ...Count) Mark { return Mark{At: PositionOf(1, fmt.Sprint(at)), Used: used, Gen: 3} }
	expect := func(at int, used ...Count) *Mark { m := mark(at, used...); return &m }
	rpm, tpm := Count{"rpm", 5}, Count{"tpm", 6}
	for _, c := range []struct {
		name  string
		edit  func(item.Item) // after shards 0 and 1 have counted 5 and 6
		look  bool
		moves []Move
		known bool
	}{
		{"nothing", nil, false, []Move{{Counted: expect(20, rpm, tpm), To: mark(20, Count{"rpm", 7}, tpm)}}, true},
		{"nothing, seen", nil, true, []Move{{To: mark(20, Count{"rpm", 7}, tpm)}}, true},
		{"a count that is no number", func(it item.Item) { it["rpm"] = item.S("5") }, true,
			[]Move{{To: mark(20, rpm, tpm)}}, false},
		{"another shard's mark", nil, false, []Move{{Shard: 2, To: mark(20)}}, false},
		{"the first of two marks", nil, false, []Move{{Shard: 2, To: mark(20)}, {Shard: 3, To: mark(20, rpm)}}, false},
		{"its own mark, seen", nil, true, []Move{{To: mark(20)}}, false},
		{"expecting a mark that says nothing", nil, false, []Move{{Counted: expect(20), To: mark(20, rpm, tpm)}}, false},
		{"expecting it of the first of two", nil, false, []Move{{Counted: expect(20), To: mark(20, rpm, tpm)},
			{Shard: 1, Counted: expect(20, rpm, tpm), To: mark(20, rpm, tpm)}}, false},
		{"it was not there", func(it item.Item) { delete(it, attrOrigin) }, false,
			[]Move{{Counted: expect(20, rpm, tpm), To: mark(20, Count{"rpm", 7}, tpm)}}, false},
	} {
		var it item.Item
		for shard := range 2 {
			if !attempt(t, &it, nil, []Count{rpm, tpm}, Move{Shard: shard, To: mark(10, rpm, tpm)}) {
				t.Fatal("refused")
			}
		}
		if c.edit != nil {
			c.edit(it)
		}
		u := Usage{Place: hour, Moves: c.moves}
		if seen := MarksOf(it); c.look {
			u.Seen = &seen
		} else {
			u.Counts = []Count{{"rpm", 0}, {"tpm", 0}}
		}
		if _, ok := MarksOf(applied(t, u.Update(), it)).origin(); ok != c.known {
			t.Errorf("%s: the origin is known: %v", c.name, ok)
		}
	}
}

// Any bytes decode as an origin or as none, without a panic.
func TestForeignOriginsAreIgnored(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	l := Legend{Stream: 7, Limits: []string{"rpm", "tpm"}}
	for range 20_000 {
		b := make([]byte, r.IntN(20))
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		if len(b) > 0 && r.IntN(2) == 0 {
			b[0] = 1
		}
		m := Marks{Legend: l, Any: true, snapshot: item.Item{attrOrigin: item.B(b), "rpm": item.N(5)}}
		if origin, ok := m.origin(); ok && len(origin) != 2 {
			t.Fatalf("% x reads as %v", b, origin)
		}
		m.Others()
	}
}

// A snapshot that another aggregator began is known to be shared forever, even when the origin,
// which includes its counts, is given up. Our own snapshots are not shared, and neither is a
// missing one.
func TestSharedSnapshotsStayKnown(t *testing.T) {
	count := func(it item.Item, seen bool, rpm int64, m Move) item.Item {
		t.Helper()
		var look *Marks
		if marks := MarksOf(it); seen {
			look = &marks
		}
		if !attempt(t, &it, look, []Count{{"rpm", rpm}}, m) {
			t.Fatal("refused")
		}
		return it
	}
	mark := func(at int, rpm int64) Mark {
		return Mark{At: PositionOf(1, fmt.Sprint(at)), Used: []Count{{"rpm", rpm}}, Gen: 3}
	}
	foreign := Snapshot{Namespace: "n", Entity: "e", Resource: "r", Window: "hourly", Start: "2023-11-14T22:00:00Z",
		Part: "2023-11-14T22:00:00Z", Counts: map[string]int64{"rpm": 600}, Events: 6}
	for name, begun := range map[string]item.Item{"shared": foreign.Item(), "ours": nil} {
		shared := begun != nil
		it := count(begun, true, 10, Move{To: mark(10, 310)})
		check.Equal(t, MarksOf(it).Shared(), shared, "%s: shared is after the first mark", name)
		from := mark(20, 310) // another life
		it = count(it, false, 5, Move{Counted: &from, To: mark(20, 5)})
		if got := MarksOf(it).Shared(); got != shared || shared && !reflect.DeepEqual(it[attrShared], item.B([]byte{1})) {
			t.Errorf("%s: shared is %v, stored as %v, without an origin", name, got, it[attrShared])
		}
	}
}
