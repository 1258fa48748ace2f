package decide

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A waiting request goes into debt on the shard that is paid back first, and is denied by a full
// queue after others have won too often.
func TestWhereARequestOwes(t *testing.T) {
	for _, c := range []struct {
		tokens []int64
		rounds int
		want   Choice
	}{
		{[]int64{-4, -1, -3}, 0, Choice{Do: Take, Shard: 1, Owe: true}},
		{[]int64{-1, -1, -3}, 2*MaxRounds - 1, Choice{Do: Take, Shard: 0, Owe: true}},
		{[]int64{-4, -1, -3}, 2 * MaxRounds, Choice{Do: Deny, full: true}},
	} {
		d := seenAs(perSecond, c.tokens...).Decide(asks(1, perSecond),
			&Attempt{Waits: true, Until: bucket.Never, Rounds: c.rounds}, clock(noon))
		if d.Do != c.want.Do || d.Owe != c.want.Owe || d.full != c.want.full || d.Owe && d.Shard != c.want.Shard {
			t.Errorf("%v after %d rounds: %+v, want %+v", c.tokens, c.rounds, d.Choice, c.want)
		}
	}
}

// indebted returns a shard with these levels of three limits of ten tokens, seen at noon. The
// second refills ten tokens per second, the others one.
func indebted(first, second, third int64) table.Shard {
	image := shardOf(bucket.New([]bucket.Limit{each("a", 1), each("b", 10), each("c", 1)}, 0, 1, noon))
	for name, milli := range map[string]int64{"a": first, "b": second, "c": third} {
		image.State.Slots[image.State.Index(name)].Tokens = milli
	}
	return image
}

func each(name string, perSecond int64) bucket.Limit {
	return bucket.Limit{Name: name, Capacity: 10_000, Amount: perSecond * 1000, Period: 1000}
}

// A queue has room if no limit's debt exceeds its capacity.
func TestRoomIn(t *testing.T) {
	all := []bucket.Limit{each("a", 1), each("b", 10), each("c", 1)}
	soft := each("c", 1)
	soft.Soft = true
	for _, c := range []struct {
		name  string
		image table.Shard
		asks  []bucket.Limit
		less  int64 // taken of b since the image
		at    int64 // ms; 0: always
		limit string
	}{
		{"a capacity is owed", indebted(-10_000, -10_000, -10_000), all, 0, 0, ""},
		{"a millitoken more", indebted(-10_001, 0, 0), all, 0, 1, "a"},
		{"15 tokens more", indebted(-25_000, -10_000, 0), all, 0, 15_000, "a"},
		{"at ten times the rate", indebted(0, -25_000, 0), all, 0, 1500, "b"},
		{"with 10 that are not in the image yet", indebted(0, -25_000, 0), all, 10_000, 2500, "b"},
		{"the one that takes longest", indebted(-11_000, -60_000, -13_000), all, 0, 5000, "b"},
		{"of two, the first", indebted(-13_000, 0, -13_000), all, 0, 3000, "a"},
		{"one that is not asked for", indebted(0, 0, -25_000), all[:2], 0, 0, ""},
		{"a soft one", indebted(0, 0, -25_000), append(all[:2:2], soft), 0, 0, ""},
		{"one that is not stored", indebted(-13_000, 0, 0), append([]bucket.Limit{each("_", 1)}, all...), 0, 3000, "a"},
	} {
		if c.at > 0 {
			c.at += noon
		}
		less := func(limit string) int64 { return map[string]int64{"b": c.less}[limit] }
		if at, limit := RoomIn(c.image, asks(1, c.asks...), less); at != c.at || limit != c.limit {
			t.Errorf("%s: room at %d for %q, want %d for %q", c.name, at-noon, limit, c.at-noon, c.limit)
		}
	}
}

// Debts are paid back when the last of them is at zero.
func TestPaidBack(t *testing.T) {
	for _, c := range []struct {
		limits []string
		want   int64
	}{{nil, 0}, {[]string{"c"}, 0}, {[]string{"a"}, noon + 3000}, {[]string{"a", "b"}, noon + 5000},
		{[]string{"b", "a", "c", "other"}, noon + 5000}} {
		check.Equal(t, PaidBack(indebted(-3000, -50_000, 0), c.limits), c.want, "%q", c.limits)
	}
}

// overheld returns a shard with a level of its first limit, of which others may hold more than
// there is room for, for five seconds.
func overheld(milli int64) table.Shard {
	image := indebted(milli, 0, 0)
	image.State.HeldUntil = noon + 5000
	image.State.Slots[0].Held = image.State.Slots[0].Capacity + 1
	return image
}

// A full queue names the limit that fills it. If it is full because others stand in line, that is a
// limit with a cost.
func TestAFullQueueNamesItsLimit(t *testing.T) {
	for _, c := range []struct {
		level  int64 // of b
		costs  []int64
		inLine bool
		limit  string
		after  int64
	}{
		{-25_000, []int64{1000, 1000, 1000}, false, "b", 1500},
		{-25_000, []int64{1000, 0, 1000}, true, "b", 1500},
		{0, []int64{0, 1000, 1000}, true, "b", 1},
	} {
		b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
		b.See(indebted(0, c.level, 0), noon, Unsent)
		w := asks(0)
		w.Costs = table.Costs([]bucket.Limit{each("a", 1), each("b", 10), each("c", 1)}, c.costs...)
		d := b.Decide(w, &Attempt{Waits: true, Until: noon + 60_000, InLine: c.inLine}, clock(noon))
		if d.Do != Deny || !d.Denial.Full || d.Denial.Limit != c.limit || d.Denial.After != c.after {
			t.Errorf("%+v: %+v, %+v", c, d.Choice, d.Denial)
		}
	}
}

// A debt on several shards waits for the one whose queue is full, whichever that is.
func TestAFullQueueOfOneShardStopsWhatAllOwe(t *testing.T) {
	for full := range 5 { // of four shards; beyond: none
		tokens := []int64{0, 0, 0, 0, 0}
		tokens[full] = -30
		waits := &Attempt{Waits: true, Until: bucket.Never}
		d := seenAs(perSecond, tokens[:4]...).Decide(asks(8, perSecond), waits, clock(noon))
		if denied := d.Do == Deny; denied != (full < 4) || d.Denial.Full != denied || d.Owe == denied {
			t.Errorf("shard %d is full: %+v, %+v", full, d.Choice, d.Denial)
		}
	}
}

// A request that ends in line, or whose bucket is gone, is denied by a limit with a cost, even if
// the bucket would cover it.
func TestARefusalNamesALimit(t *testing.T) {
	w := asks(0)
	w.Costs = table.Costs([]bucket.Limit{each("a", 1), each("b", 10)}, 0, 1000)
	for _, b := range []*Bucket{NewBucket(&Settings{DenyFor: 60_000}), seenAs(each("b", 10), 5)} {
		if d := b.Refusal(w, noon-1, noon); d.Limit != "b" || d.After != 1 {
			t.Errorf("%+v", d)
		}
	}
}

// A waiting request that would have to wait too long according to an old image looks before it is
// denied; if the wait is not too long, it takes into debt, and looks at nothing.
func TestTooLongWaitLooksFirst(t *testing.T) {
	for _, c := range []struct {
		until  int64
		inLine bool
		want   Action
	}{{noon + 60_000, false, Take}, {noon + 10, false, Look}, {noon + 10, true, Deny}} {
		k := seenAs(perSecond, 0).lock()
		d := decider{facts: k, now: noon, want: asks(5, perSecond),
			attempt: &Attempt{Waits: true, Until: c.until, InLine: c.inLine}}
		if got := d.behind(Choice{Do: Look}); got.Do != c.want || got.Owe != (c.want == Take) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// Of a hundred waiting requests that decide at the same moment, an empty bucket of 20 admits those
// whose debt fits in 20 tokens, and the one that finds a debt of 20.
func TestQueueIsFilledOnce(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 1000})
	state := bucket.New([]bucket.Limit{perHour20}, 0, 1, 1)
	state.Slots[state.Index("rph")].Tokens = 0
	b.See(shardOf(state), 1, Unsent)
	w := Want{Costs: []table.Cost{{Limit: perHour20, Milli: bucket.Milli}}}
	e := askMany(b, 100, w, Attempt{Waits: true, Until: bucket.Never}, 1)
	begun := 0
	for _, c := range e.Calls {
		if c.Choice.Owe {
			begun++
		}
	}
	check.Equal(t, begun, 21, "begin")
}

// A shard is in debt while a limit in force is below zero.
func TestOwes(t *testing.T) {
	for _, c := range []struct {
		image  table.Shard
		limits []bucket.Limit
		ms     int64
		want   bool
	}{
		{indebted(0, 0, 0), []bucket.Limit{each("a", 1)}, 0, false},
		{indebted(-3000, 0, 0), []bucket.Limit{each("a", 1)}, 2999, true},
		{indebted(-3000, 0, 0), []bucket.Limit{each("a", 1)}, 3000, false},
		{indebted(-3000, 0, 0), []bucket.Limit{each("b", 10)}, 0, false},
		{indebted(-3000, 0, -1), []bucket.Limit{each("c", 1)}, 0, true},
		{indebted(1, 0, -1), []bucket.Limit{each("c", 1)}, 0, true},
		{overheld(0), []bucket.Limit{each("a", 1)}, 1, true},
		{overheld(0), []bucket.Limit{each("a", 1)}, 5001, false},
		{overheld(-1000), []bucket.Limit{each("a", 1)}, 999, true},
	} {
		s := &seen{image: c.image}
		check.Equal(t, s.owes(asks(1, c.limits...), noon+c.ms), c.want,
			"%v, %v after %d ms", c.image.State, c.limits, c.ms)
	}
}
