package waitqueue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const (
	begun = int64(1_700_000_000_000)
	asked = 10 // the turn at which a sleeper asked
)

var (
	acme = decide.Name{Entity: "acme", Resource: "gpt"}
	rps  = bucket.Limit{Name: "rps", Capacity: 20_000, Amount: 2000, Period: 1000} // each shard refills 1 a second
)

// image returns a shard of acme's two, after so many writes.
func image(shard int, tokens, writes int64) table.Shard {
	b := table.Shard{Namespace: "ns", Entity: acme.Entity, Resource: acme.Resource, Generation: 1,
		State: bucket.New([]bucket.Limit{rps}, shard, 2, begun)}
	b.State.Slots[b.State.Index("rps")].Tokens = tokens * bucket.Milli
	b.State.Slots[b.State.Index(bucket.WCU)].Used = writes
	return b
}

func owes(images ...table.Shard) (out []Owed) {
	for _, b := range images {
		out = append(out, Owed{b, []string{"rps"}, asked})
	}
	return out
}

func (s *Sleeper) told() bool {
	select {
	case <-s.Sooner():
		return true
	default:
		return false
	}
}

// giveBack is 10 tokens of a lease, taken by one write of a shard and given back by another.
func giveBack(shard int, taken, given int64) Return {
	return Return{Taking{Moment: MomentOf(image(shard, 0, taken))}, MomentOf(image(shard, 0, given)),
		[]table.Cost{{Limit: rps, Milli: -10 * bucket.Milli}}}
}

// A request owes 50 tokens since the fifth write of shard 0. Only tokens that were taken before
// that write and given back after it wake it sooner.
func TestOnlyEarlierTokensWakeASleeper(t *testing.T) {
	other := giveBack(0, 3, 7)
	other.Taken.Moment.name.Entity, other.Given.name.Entity = "other", "other"
	more := giveBack(0, 3, 7)
	more.Costs[0].Milli *= -1
	unknown := giveBack(0, 3, 7)
	unknown.Taken = Taking{}
	later := giveBack(0, 3, 7)
	later.Taken.Moment.generation, later.Given.generation = 2, 2
	inTurn, outOfTurn, shown := unknown, unknown, giveBack(0, 0, 4)
	inTurn.Taken.Turn, outOfTurn.Taken.Turn = asked-1, asked+1
	shown.Taken = inTurn.Taken
	nothing := giveBack(0, 3, 7)
	nothing.Costs[0].Milli = 0
	elsewhere := giveBack(0, 3, 7)
	elsewhere.Costs[0].Limit.Name = "tps"
	for _, c := range []struct {
		name  string
		g     Return
		until int64 // milliseconds
		told  bool
	}{
		{"taken before, given back after", giveBack(0, 3, 7), 40_000, true},
		{"given back before", giveBack(0, 3, 4), 50_000, false},
		{"given back by the same write", giveBack(0, 3, 5), 50_000, false},
		{"taken after", giveBack(0, 6, 7), 50_000, false},
		{"nothing given back", nothing, 50_000, false},
		{"taken by the same write", giveBack(0, 5, 7), 50_000, false},
		{"of the other shard", giveBack(1, 3, 7), 50_000, false},
		{"of another bucket", other, 50_000, false},
		{"of a later generation", later, 50_000, false},
		{"at an unknown moment", unknown, 50_000, false},
		{"at an unknown moment, taken in an earlier turn", inTurn, 40_000, true},
		{"at an unknown moment, taken in a later turn", outOfTurn, 50_000, false},
		{"of an earlier turn, and given back before", shown, 50_000, false},
		{"it took more", more, 50_000, false},
		{"of a limit that the bucket lacks", elsewhere, 50_000, true},
	} {
		for _, early := range []bool{false, true} { // given back before the request sleeps
			all := Queue{Rooms: rooms{}}
			if early {
				all.Wake(acme, c.g)
			}
			mine := image(0, -50, 5)
			s := all.Add(owes(mine))
			if !early {
				all.Wake(acme, c.g)
			}
			if got := all.Until(s) - begun; got != c.until || s.told() != c.told {
				t.Errorf("%s: goes on after %d ms, want %d, woken: %t", c.name, got, c.until, c.told)
			}
			check.Equal(t, mine.State.Slots[mine.State.Index("rps")].Tokens, -50*bucket.Milli,
				"%s: the caller's image has changed to", c.name)
		}
	}
}

// A moment is known if the bucket exists and counts its writes.
func TestMomentsNeedCountedWrites(t *testing.T) {
	without := func(b table.Shard) table.Shard {
		b.Generation = 0
		return b
	}
	old := without(image(0, 0, 3))
	old.State.Slots = old.State.Slots[:old.State.Index(bucket.WCU)]
	early, late := MomentOf(without(image(0, 0, -9))), MomentOf(without(image(0, 0, 9)))
	if !early.before(late) {
		t.Error("known moments are not compared")
	}
	for name, m := range map[string]Moment{"no image": MomentOf(table.Shard{}), "no meter": MomentOf(old)} {
		if m.before(late) || early.before(m) {
			t.Errorf("%s: %+v is before or after another", name, m)
		}
	}
}

// A request that owes on two shards goes on when both are paid back. It is woken once for each
// change, and leaves nothing behind.
func TestSleepersWaitForAllTheirShards(t *testing.T) {
	rooms := rooms{}
	all := Queue{Rooms: rooms}
	s, beside := all.Add(owes(image(0, -50, 5), image(1, -30, 5))), all.Add(owes(image(0, -60, 6)))
	for i, c := range []struct {
		g     Return
		until int64
		told  bool
	}{
		{giveBack(1, 3, 7), 50_000, true}, // shard 0 still owes 50
		{giveBack(0, 3, 8), 40_000, true},
		{giveBack(0, 2, 9), 30_000, true},
		{giveBack(0, 1, 10), 20_000, true}, // like shard 1
		{giveBack(0, 1, 11), 20_000, true},
	} {
		all.Wake(acme, c.g)
		if got := all.Until(s) - begun; got != c.until || s.told() != c.told || s.told() {
			t.Errorf("%d: goes on after %d ms, want %d, woken: %t", i, got, c.until, c.told)
		}
	}
	all.Remove(s)
	if len(rooms) != 1 || len(rooms[acme].sleepers) != 1 {
		t.Errorf("the rooms of %d buckets are kept: %v, want one sleeper in one", len(rooms), rooms)
	}
	beside.told()
	if all.Wake(acme, giveBack(0, 0, 12)); s.told() || !beside.told() {
		t.Error("a removed sleeper is woken, or a remaining one is not")
	}
	all.Remove(beside)
	check.Equal(t, len(rooms), 0, "buckets that still have sleepers")
}

// New sleepers get only the last 64 returns.
func TestNewSleepersGetTheLast64Returns(t *testing.T) {
	for _, c := range []struct{ after, until int64 }{{63, 40_000}, {64, 50_000}} {
		all := Queue{Rooms: rooms{}}
		all.Wake(acme, giveBack(0, 3, 7))
		for range c.after {
			all.Wake(acme, giveBack(1, 3, 7))
		}
		check.Equal(t, all.Until(all.Add(owes(image(0, -50, 5))))-begun, c.until,
			"%d returns later: goes on after ms", c.after)
	}
}

// One sleeper looks at its shard for all sleepers charged by then, 15 seconds after the last look
// or charge.
func TestLooksServeEarlierSleepers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := Queue{Rooms: rooms{}}
		early, beside := all.Add(owes(image(0, -50, 5))), all.Add(owes(image(0, -60, 6), image(1, -90, 1)))
		if looks, next := all.Due(early); len(looks) != 0 || next != LongestPause {
			t.Fatalf("looks at once at %v, or after %s", looks, next)
		}
		time.Sleep(LongestPause - time.Second)
		if looks, next := all.Due(early); len(looks) != 0 || next != time.Second {
			t.Fatalf("looks too early at %v, or after %s", looks, next)
		}
		time.Sleep(time.Second)
		looks, next := all.Due(early)
		if len(looks) != 1 || len(looks[0].who) != 2 || looks[0].Key != image(0, 0, 0).Key() || next != LongestPause {
			t.Fatalf("looks at %v, and after %s again", looks, next)
		}
		if other, _ := all.Due(beside); len(other) != 1 || other[0].Key != image(1, 0, 0).Key() {
			t.Fatalf("the other looks at %v, want shard 1 alone", other)
		}
		late := all.Add(owes(image(0, -70, 7)))
		whole := image(0, 3, 9)
		split, stopped, partial := image(0, 3, 9), image(0, 3, 9), image(0, 3, 9)
		split.State.Shards, stopped.State.NoClock, partial.Partial = 4, true, []table.PartialLimit{{Name: "rps"}}
		for _, b := range []table.Shard{split, stopped, partial} {
			if all.Saw(looks[0], b); all.Until(early)-begun != 50_000 || early.told() {
				t.Errorf("goes on by %+v", b)
			}
		}
		all.Saw(looks[0], whole)
		if got := all.Until(early); got != 0 || !early.told() {
			t.Errorf("goes on at %d, want at once: nothing is owed", got)
		}
		check.Equal(t, all.Until(beside)-begun, 90_000, "the other goes on after ms, want the 90 s of shard 1")
		if got := all.Until(late) - begun; got != 70_000 || late.told() {
			t.Errorf("the later sleeper goes on after %d ms, want 70 s", got)
		}
	})
}

// A look wakes only sleepers that may go on sooner than they knew. A sleeper that asks again uses
// the clock: if the clock was set ahead, it would go on before the tokens are there.
func TestALookWakesOnlySleepersThatMayGoOnSooner(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens int64
		wakes  bool
		until  int64
	}{
		{"as it left it", -50, false, 50_000},
		{"others owe more", -80, false, 50_000},
		{"some was put back", -20, true, 20_000},
		{"all was put back", 3, true, -begun},
	} {
		all := Queue{Rooms: rooms{}}
		s := all.Add(owes(image(0, -50, 5)))
		all.Saw(Look{who: []debtOf{{s, &s.parts[0]}}}, image(0, c.tokens, 9))
		if woken := s.told(); woken != c.wakes || all.Until(s)-begun != c.until {
			t.Errorf("%s: woken %t, goes on after %d ms", c.name, woken, all.Until(s)-begun)
		}
	}
}

// Turns increase, and none is zero, which means unknown.
func TestTurnsAreInOrder(t *testing.T) {
	var all Queue
	for last, n := int64(0), 0; n < 3; n++ {
		next := all.Turn()
		if next <= last {
			t.Errorf("turn %d after %d", next, last)
		}
		last = next
	}
}
