package ledger

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Another aggregator's counts are distinguished from ours, written with or without a look. If a
// life ends unseen, they are unknown until the next look.
func TestCountsOfOthersAreDistinguished(t *testing.T) {
	apply := func(it item.Item, u Usage) item.Item {
		t.Helper()
		return applied(t, u.Update(), it)
	}
	mark := func(at int, rpm, tpm int64) Mark {
		return Mark{At: PositionOf(1, fmt.Sprint(at)), Used: []Count{{"rpm", rpm}, {"tpm", tpm}}, Gen: 3}
	}
	usage := func(rpm, tpm int64, m Move) Usage {
		return Usage{Place: hour, Counts: []Count{{"rpm", rpm}, {"tpm", tpm}}, Events: 1, Moves: []Move{m}}
	}
	others := func(it item.Item, want ...Count) {
		t.Helper()
		if got := MarksOf(it).Others(); !reflect.DeepEqual(got, want) {
			t.Fatalf("others have counted %v, want %v", got, want)
		}
	}
	// Counting begins at 100 and 0, and goes on twice without a look.
	it := apply(nil, usage(5, 7, Move{To: mark(10, 105, 7)}))
	others(it)
	from := mark(20, 105, 7)
	it = apply(it, usage(1, 2, Move{Counted: &from, To: mark(20, 106, 9)}))
	others(it)
	it["rpm"] = item.N(6 + 40)
	others(it, Count{"rpm", 40})
	from = mark(30, 106, 9)
	it = apply(it, usage(4, 0, Move{Counted: &from, To: mark(30, 110, 9)}))
	others(it, Count{"rpm", 40})

	seen := MarksOf(it) // 25 of the 40 are before the mark
	u := usage(3, 0, Move{To: mark(40, 138, 9)})
	u.Seen, u.Others = &seen, []Count{{"rpm", 15}}
	it = apply(it, u)
	others(it, Count{"rpm", 15})

	// In another life; 200 more were counted in the one before.
	from = mark(50, 138, 9)
	it = apply(it, usage(203, 0, Move{Counted: &from, To: mark(50, 3, 0)}))
	others(it)
	it["rpm"] = item.N(1000)
	others(it)
	seen = MarksOf(it)
	u = usage(1, 1, Move{To: mark(60, 4, 1)})
	u.Seen = &seen
	it = apply(it, u)
	others(it)
	it["tpm"] = item.N(10_000)
	if got := MarksOf(it).Others(); len(got) != 1 || got[0].Limit != "tpm" {
		t.Errorf("others have counted %v after a look, want some of tpm", got)
	}

	// A snapshot of another aggregator is not written without a look.
	foreign := Snapshot{Namespace: "n", Entity: "e", Resource: "r", Part: "x", Counts: map[string]int64{"rpm": 9}}
	if _, held, _ := usage(5, 7, Move{To: mark(10, 105, 7)}).Update().Apply(foreign.Item()); held {
		t.Error("written without reading the snapshot")
	}
}

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
	beside := Move{Shard: 1, To: mark(20, Count{"rpm", 7})}
	for _, c := range []struct {
		name string
		then []Move // seen, after shard 0 has counted 5
		want []Count
	}{
		{"a shard", nil, []Count{{"rpm", 1}}},
		{"a shard that was removed", []Move{{To: gone}}, []Count{{"rpm", 1}}},
		{"another shard beside", []Move{beside}, []Count{{"rpm", 1}}},
		{"one whose mark says nothing", []Move{{Shard: 1, To: mark(20)}}, nil},
		{"its own says nothing any more", []Move{{To: mark(20)}}, nil},
		{"nor beside another", []Move{beside, {To: mark(30)}}, nil},
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

// An origin was given up, and given up again by a write between a look and its write. That look
// does not restore it: otherwise our own counts would look like others'.
func TestOriginsGivenUpAreNotRestoredFromAnOldLook(t *testing.T) {
	var it item.Item
	try := func(seen *Marks, shard int, counted int64, from *Mark, at int, rpm int64) (held bool) {
		t.Helper()
		return attempt(t, &it, seen, []Count{{"rpm", counted}}, Move{Shard: shard, Counted: from,
			To: Mark{At: PositionOf(1, fmt.Sprint(at)), Used: []Count{{"rpm", rpm}}, Gen: 3}})
	}
	counted := func(at int, rpm int64) *Mark {
		return &Mark{At: PositionOf(1, fmt.Sprint(at)), Used: []Count{{"rpm", rpm}}, Gen: 3}
	}
	ok := try(nil, 0, 100, nil, 10, 100) && try(nil, 1, 200, nil, 11, 200)
	ok = ok && try(nil, 1, 3, counted(20, 200), 20, 3) // another life
	old := MarksOf(it)
	ok = ok && try(nil, 1, 1, counted(30, 3), 30, 1) // and another
	if !ok {
		t.Fatal("a write was refused")
	}
	if try(&old, 0, 10, nil, 40, 110) {
		t.Errorf("written after an old look: others have counted %v", MarksOf(it).Others())
	}
	if seen := MarksOf(it); !try(&seen, 0, 10, nil, 40, 110) || len(MarksOf(it).Others()) > 0 {
		t.Errorf("after a new look others have counted %v", MarksOf(it).Others())
	}
}

// A limit that began and vanished before the mark is counted, but in no mark. A write planned
// before that does not mistake it for others' counts.
func TestLimitsThatComeAndGoAreNotOthers(t *testing.T) {
	var it item.Item
	try := func(shard int, counts, used []Count, from *Mark, seen *Marks) (held bool) {
		t.Helper()
		return attempt(t, &it, seen, counts, Move{Shard: shard, Counted: from,
			To: Mark{At: PositionOf(1, fmt.Sprint(10+len(it)+shard)), Used: used, Gen: 3}})
	}
	begun := []Count{{"rpm", 10}}
	if !try(0, begun, begun, nil, nil) {
		t.Fatal("refused")
	}
	old := MarksOf(it)
	if !try(0, []Count{{"day", 88}, {"rpm", 1}}, []Count{{"rpm", 11}}, nil, &old) {
		t.Fatal("refused")
	}
	later := func(seen Marks) bool {
		return try(1, []Count{{"day", 38}, {"rpm", 5}}, []Count{{"day", 92}, {"rpm", 5}}, nil, &seen)
	}
	if later(old) {
		t.Errorf("written after an old look: others have counted %v", MarksOf(it).Others())
	} else if !later(MarksOf(it)) || len(MarksOf(it).Others()) > 0 {
		t.Errorf("after a new look others have counted %v", MarksOf(it).Others())
	}
}

// An origin is given up if it becomes unknown: with an empty mark of any shard, or a count that is
// not a number. Until the next look, nobody else counts as having counted.
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
