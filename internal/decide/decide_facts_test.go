package decide

import (
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Shards that remain after shard 0 is gone: a shard gives the earlier count, an item without a
// refill instant and a shard count gives nothing, and an unreadable one is an error.
func TestSurvivingShardsGiveTheCount(t *testing.T) {
	without := func(attribute string) func() item.Item {
		return func() item.Item {
			it := imageOf(1, 4, 3).Item()
			delete(it, attribute)
			return it
		}
	}
	for _, c := range []struct {
		name   string
		stored func() item.Item
		count  int
		fails  bool
	}{
		{"nothing", func() item.Item { return nil }, 1, false},
		{"a shard of four", func() item.Item { return imageOf(1, 4, 3).Item() }, 4, false},
		{"without a refill instant", without("rf"), 4, false},
		{"without a count", without("shard_count"), 2, false},
		{"a shard with a count that cannot be its own", func() item.Item { return imageOf(1, 1, 3).Item() }, 2, false},
		{"what a settlement left behind", func() item.Item {
			it := item.KeyOf(imageOf(1, 4, 3).Item()).Item()
			it["b_rps_tk"], it["b_rps_tc"] = item.N(-5), item.N(5)
			return it
		}, 1, false},
		{"what cannot be read", func() item.Item {
			it := imageOf(1, 4, 3).Item()
			it["rf"] = item.S("x")
			return it
		}, 0, true},
	} {
		b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
		b.Missing(noon, 0)
		count, err := b.Survives(1, c.stored(), noon)
		if count != c.count || (err != nil) != c.fails {
			t.Errorf("%s: count %d, %v, want %d", c.name, count, err, c.count)
		}
	}
}

// Remaining shards give no count unless shard 0 is known to be gone.
func TestSurvivorsGiveNoCountWhereShardZeroIsUnseen(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	if count, err := b.Survives(1, nil, noon); count != 1 || err != nil || b.ReadAll(noon) != 1 {
		t.Errorf("count %d, %v", count, err)
	}
	b.See(imageOf(0, 8, 3), noon, Unsent)
	if _, err := b.Survives(1, imageOf(1, 4, 3).Item(), noon); err != nil || b.ReadAll(noon) != 8 {
		t.Errorf("%d shards, %v, want the 8 of shard 0", b.ReadAll(noon), err)
	}
}

// If shard 0 is gone and another shard is missing, the count is no larger than the one at which
// that shard would be split off.
func TestMissingShardBoundsTheCount(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	b.See(imageOf(1, 4, 3), noon, Unsent)
	b.Missing(noon, 0)
	check.Must(t, check.Err(b.Survives(2, nil, noon)))
	it, _, err := b.Create(asks(1, perSecond), Now{Ms: noon}).Write.Apply(nil)
	if image, err2 := table.DecodeShard(it); err != nil || err2 != nil || image.State.Shards != 2 {
		t.Errorf("shard 0 comes back with %d shards, %v, %v, want 2", image.State.Shards, err, err2)
	}
}

// A waiting request for two shards together is denied if both have enough only too late.
func TestWaitsForTwoShardsUntilItsEnd(t *testing.T) {
	for until, want := range map[int64]Action{1999: Deny, 2000: Several} {
		d := seenAs(perSecond, 3, 3).Decide(asks(8, perSecond), &Attempt{Waits: true, Until: noon + until}, clock(noon))
		if d.Do != want || d.Owe != (want == Several) {
			t.Errorf("until %d ms: %+v, owes %v", until, d.Choice, d.Owe)
		}
	}
}

// The older of two images is determined by the generation, then by the meter, which counts every
// write, then by the clock.
func TestOlder(t *testing.T) {
	image := func(generation, writes, rf int64) table.Shard {
		b := imageOf(0, 1, 5)
		b.Generation, b.State.RF = generation, rf
		b.State.Slots[b.State.Index(bucket.WCU)].Used = writes
		return b
	}
	for _, c := range []struct {
		a, b  table.Shard
		older bool
	}{
		{image(1, 9, 9), image(2, 3, 3), true},
		{image(2, 3, 3), image(1, 9, 9), false},
		{image(1, 3, 9), image(1, 9, 3), true},
		{image(0, 3, 9), image(7, 9, 3), true}, // another client's item has no generation
		{image(7, 9, 3), image(0, 3, 9), false},
		{image(7, 3, 9), image(0, 9, 3), true},
		{image(0, 9, 3), image(7, 3, 9), false},
		{image(1, 3, 3), image(1, 3, 9), true},
		{image(1, 3, 3), image(1, 3, 3), false},
	} {
		check.Equal(t, older(c.a, c.b), c.older,
			"generation %d, %v is older than %d, %v", c.a.Generation, c.a.State, c.b.Generation, c.b.State)
	}
}

// A write finds the level of the image minus what others take until it arrives: 1 a second, of 5
// plus 1 a second, one second after the image and two before it arrives.
func TestOthersTakeUntilAWriteArrives(t *testing.T) {
	s := &seen{image: imageOf(0, 1, 5), at: noon,
		others: others{taken: map[string]float64{"rps": 10_000}, elapsed: 10_000}}
	if got := s.leaves(asks(1, perSecond).Costs, 2000, noon+1000); got[0] != 5000+1000-3000 {
		t.Errorf("others leave %d", got[0])
	}
	if got := s.leaves(asks(1, perSecond).Costs, 2000, noon-9000); got[0] != 5000-2000 {
		t.Errorf("others leave %d where the clock was set back since: they gave nothing back", got[0])
	}
}

// In a crowd, two fifths of the slack are left for plain adds, at least one percent.
func TestRoomOf(t *testing.T) {
	for slack, want := range map[int64]int64{0: 1, 2: 1, 5: 2, 30: 12, 100: 40} {
		if got := roomOf(slack); got != want {
			t.Errorf("a slack of %d %%: %d %%, want %d", slack, got, want)
		}
	}
}

// An image without a usable clock is valid at now.
func TestWithoutAClockLevelsAreOfNow(t *testing.T) {
	for name, change := range map[string]func(*bucket.State){
		"none":       func(s *bucket.State) { s.NoClock, s.RF = true, 0 },
		"far ahead":  func(s *bucket.State) { s.RF += 10 * bucket.MaxSkew },
		"one of now": func(*bucket.State) {},
	} {
		image := imageOf(0, 1, 1)
		change(&image.State)
		s := &seen{image: image}
		if v, short := s.covers(asks(3, perSecond), noon); v.Granted || v.At != noon+2000 || short != "rps" {
			t.Errorf("%s: %+v, %q", name, v, short)
		}
	}
}

// A refusal is an answer of an existing bucket, unless the write was to create it. It shows that
// others have taken the tokens if it was a charge under the rules still in force. A charge that
// came too late for the bucket's clock was not answered.
func TestRefusalsAreClassified(t *testing.T) {
	b := seenAs(perSecond, 5) // of generation 1
	for name, c := range map[string]struct {
		plan           Planned
		answered, lost bool
	}{
		"a charge":             {Planned{Charges: true, Takes: true, generation: 1, clock: noon}, true, true},
		"a charge by a second": {Planned{Charges: true, Takes: true, generation: 1, clock: noon - table.MaxLag}, true, true},
		"a charge too late": {Planned{Charges: true, Takes: true, generation: 1, clock: noon - table.MaxLag - 1}, false,
			false},
		"a refill":            {Planned{Charges: true, generation: 1}, true, false},
		"an add to learn":     {Planned{Takes: true, generation: 1}, true, false},
		"an add in a crowd":   {Planned{Takes: true, adds: true, generation: 1}, true, true},
		"by other rules":      {Planned{Takes: true, adds: true, generation: 2}, true, false},
		"other rules":         {Planned{Charges: true, Takes: true, generation: 2, clock: noon}, true, false},
		"a creation":          {Planned{Creates: true, Takes: true}, false, false},
		"a shard not seen":    {Planned{Shard: 3, Takes: true}, false, false},
		"a creation over one": {Planned{Shard: 3, Creates: true, Takes: true}, false, false},
	} {
		if answered, lost := b.Outbid(c.plan); answered != c.answered || lost != c.lost {
			t.Errorf("%s: answered %v, lost %v; want %v, %v", name, answered, lost, c.answered, c.lost)
		}
	}
}

// Costs under way are counted by limit, and dropped with the last one: then the shard is idle. A
// request without costs is never under way.
func TestIdleOnceNothingIsUnderWay(t *testing.T) {
	b := seenAs(perSecond, 5)
	for _, milli := range []int64{0, 1, 1000, -1} {
		w := asks(0)
		w.Costs = table.Costs([]bucket.Limit{perSecond}, milli)
		b.Begin(Choice{Do: Take}, w, noon)
		check.Equal(t, b.Seen(0).Idle, milli == 0, "%d under way: idle", milli)
		if b.End(0, w); !b.Seen(0).Idle || len(b.facts.shards[0].underWay) != 0 {
			t.Errorf("%d: not idle at the end", milli)
		}
	}
	one, b := asks(1, perSecond), seenAs(perSecond, 5)
	b.Begin(Choice{Do: Take}, one, noon)
	b.Begin(Choice{Do: Take}, one, noon)
	if b.End(0, one); b.Seen(0).Idle || b.facts.shards[0].underWay.of("rps") != bucket.Milli {
		t.Errorf("of two requests one is left, and %v is under way", b.facts.shards[0].underWay)
	}
}

// An image with a tenth of a share more than refill explains raises the known level; an image with
// another count or without a clock, and a limit that is new, changed or held, shows nothing.
func TestRaised(t *testing.T) {
	const ms = 1000 // later, after the refill of a token
	other := perSecond
	other.Amount *= 2
	for _, c := range []struct {
		name   string
		newer  func(s *bucket.State)
		level  int64 // in millitokens; it was 3000
		raised bool
	}{
		{"as refilled", nil, 4000, false},
		{"a tenth more", nil, 5000, false},
		{"more than that", nil, 5001, true},
		{"another count", func(s *bucket.State) { s.Shards = 2 }, 10_000, false},
		{"no clock", func(s *bucket.State) { s.NoClock = true }, 10_000, false},
		{"a changed limit", func(s *bucket.State) { s.Slots[0].Limit = other }, 10_000, false},
		{"held", func(s *bucket.State) { s.Slots[0].Held = 1 }, 10_000, false},
	} {
		old, newer := imageOf(0, 1, 3).State, imageOf(0, 1, 0).State
		newer.RF, newer.Slots[0].Tokens = noon+ms, c.level
		if c.newer != nil {
			c.newer(&newer)
		}
		check.Equal(t, raised(old, newer, noon+ms), c.raised, c.name)
	}
	old, newer := imageOf(0, 2, 0).State, imageOf(0, 1, 9).State
	if raised(old, newer, noon) || raised(imageOf(0, 1, 0).State, imageOf(0, 2, 5).State, noon) {
		t.Error("what a shard gains by merging, or has kept in a split, raises it")
	}
	wide := each("rps", 1)
	wide.Capacity = 100_000
	for level, want := range map[int64]bool{10_000: false, 10_001: true} {
		old, newer := bucket.New([]bucket.Limit{wide}, 0, 1, noon), bucket.New([]bucket.Limit{wide}, 0, 1, noon)
		old.Slots[0].Tokens, newer.Slots[0].Tokens = 0, level
		check.Equal(t, raised(old, newer, noon), want, "%d more of 100 tokens: raised", level)
	}
	old, newer = imageOf(0, 1, 3).State, imageOf(0, 1, 3).State
	if newer.Slots[1].Tokens, old.Slots[1].Tokens = 1000*bucket.Milli, 0; raised(old, newer, noon) {
		t.Error("the write meter raises it")
	}
	if old.Slots[0].Held, newer.Slots[0].Tokens = 1, 10_000; raised(old, newer, noon) {
		t.Error("held tokens raise it")
	}
}

// A request for more than the limits of others ever hold is decided by its own limits.
func TestCostsAboveOthersLimitsUseOwnLimits(t *testing.T) {
	for cost, yields := range map[int64]bool{5: true, 6: false} {
		b := seenAs(perSecond, 10)
		b.Took(b.Seen(0).Image, Planned{Takes: true, since: Unsent}, asks(1, perSecond), nil, noon)
		theirs := bucket.Limit{Name: "rps", Capacity: 5000, Amount: 1000, Period: 1000}
		image := seenAs(theirs, 5).Seen(0).Image
		image.Generation = 2
		b.Refused(image, Planned{Charges: true, since: Unsent}, noon)
		d := b.Decide(asks(cost, perSecond), &Attempt{}, clock(noon))
		if got := d.Want.Costs[0].Limit; d.Yielded != yields || (got == theirs) != yields {
			t.Errorf("%d tokens: yields %v, by %v", cost, d.Yielded, got)
		}
	}
}

// If no shard of a bucket was seen, the levels are estimates.
func TestLevelsOfNothing(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	b.See(imageOf(0, 2, 3), noon, Unsent)
	want := asks(1, perSecond)
	if l := b.Levels(want, noon)[0]; l.Milli != 6000 || !l.Estimated {
		t.Errorf("3 on one of two shards are reported as %+v", l)
	}
	b.Missing(noon, 0)
	if l := b.Levels(want, noon)[0]; l.Milli != 0 || !l.Estimated {
		t.Errorf("without images it reports %+v", l)
	}
}

// The fraction of the next millitoken is reported for a bucket with one shard.
func TestLevelsShowTheRest(t *testing.T) {
	for count, want := range map[int]int64{1: 7, 2: 0} {
		b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
		image := imageOf(0, count, 3)
		image.State.Slots[image.State.Index("rps")].Rest = 7
		b.See(image, noon, Unsent)
		if l := b.Levels(asks(1, perSecond), noon)[0]; l.Rest != want {
			t.Errorf("%d shards: %+v, want a rest of %d", count, l, want)
		}
	}
}

// Shards that have paid together are remembered with their remaining levels, and with the limits in
// force.
func TestPaid(t *testing.T) {
	b, w := seenAs(perSecond, 5, 5), asks(7, perSecond)
	payments := ByLevels([]table.Shard{b.Seen(0).Image, b.Seen(1).Image}, w, noon)
	var writes []item.Write
	for _, p := range payments {
		writes = append(writes, p.Write(w, noon, 30))
	}
	b.Paid(payments, writes, w, noon, noon)
	check.MustEqual(t, len(payments), 2, "pay")
	l := b.Levels(w, noon)[0]
	check.Equal(t, l.Milli, 3000, "left of ten")
	payments[0].Image = imageOf(payments[0].Image.State.Shard, 2, 0)
	b.Paid(payments[:1], writes[:1], w, noon, noon)
	check.Equal(t, b.Levels(w, noon)[0].Milli, 3000, "a write that its image does not allow has brought news")
	b = seenAs(perSecond, 5, 5) // a write that is not allowed does not hide the next one
	late := ByLevels([]table.Shard{b.Seen(0).Image, b.Seen(1).Image}, w, noon)
	late[0].Image.State.Slots = slices.Clone(late[0].Image.State.Slots)
	late[0].Image.State.Slots[late[0].Image.State.Index("rps")].Used += 99_000 // others have taken it all
	if b.Paid(late, writes, w, noon, noon); b.Levels(w, noon)[0].Milli != 8000 {
		t.Errorf("%+v are left behind a write that is not allowed", b.Levels(w, noon))
	}
	theirs := bucket.Limit{Name: "rps", Capacity: 20_000, Amount: 2000, Period: 1000}
	image := seenAs(theirs, 20).Seen(0).Image
	image.Generation = b.Seen(0).Image.Generation + 1
	if !b.Refused(image, Planned{since: Unsent}, noon) {
		t.Error("others replace limits that were not known to be in force")
	}
}

// Levels show the held tokens of a limit and their time, when a quota is whole again, and a limit
// that the bucket does not have yet as full.
func TestLevels(t *testing.T) {
	const edge = 1_700_006_400_000
	quota := bucket.Limit{Name: "q", Capacity: 5000, Period: bucket.QuotaPeriod, Reset: "m0h0@UTC"}
	fresh := bucket.Limit{Name: "x", Capacity: 4000, Amount: 1000, Period: 1000}
	image := shardOf(bucket.New([]bucket.Limit{perSecond, quota}, 0, 1, edge-90_000))
	image.State.HeldUntil = edge - 50_000
	i := image.State.Index("rps")
	image.State.Slots[i].Tokens, image.State.Slots[i].Held = 3000, 2000
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	b.See(image, edge-90_000, Unsent)
	got := b.Levels(asks(1, quota, perSecond, fresh), edge-60_000)
	if q := got[0]; q.Edge != 60_000+bucket.EdgeMargin || q.Milli != 5000 || q.Held != 0 || q.Over != 0 {
		t.Errorf("of the quota %+v", q)
	}
	if r := got[1]; r.Edge != 0 || r.Held != 2000 || r.Over != 10_000 || r.Milli != 8000 {
		t.Errorf("of the rate %+v", r)
	}
	if x := got[2]; x.Milli != 4000 || x.Remaining != 4 || x.Held != 0 || x.Estimated {
		t.Errorf("of the limit that is new %+v", x)
	}
}

// An image of a remaining shard is dropped if it is older than one that came meanwhile.
func TestSurvivorsAreNotTakenBack(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	b.Missing(noon, 0)
	newer, older := imageOf(1, 4, 9), imageOf(1, 4, 2)
	newer.Generation = 2
	b.See(newer, noon, Unsent)
	check.Must(t, check.Err(b.Survives(1, older.Item(), noon)))
	got := b.Seen(1).Image
	check.Equal(t, got.Generation, 2, "generation replaces a newer one")
}

// An empty shard of one limit may still pay for another one, and a shard in debt pays for none.
func TestShardPaysOfOneLimitWithoutTheOther(t *testing.T) {
	other := perSecond
	other.Name = "tps"
	shard := func(k int, rps, tps int64) table.Shard {
		image := shardOf(bucket.New([]bucket.Limit{perSecond, other}, k, 2, noon))
		image.State.Slots[image.State.Index("rps")].Tokens = rps * bucket.Milli
		image.State.Slots[image.State.Index("tps")].Tokens = tps * bucket.Milli
		return image
	}
	w := Want{Costs: table.Costs([]bucket.Limit{perSecond, other}, 3*bucket.Milli, 4*bucket.Milli)}
	for rps, pays := range map[int64]bool{0: true, -1: false} {
		got := ByLevels([]table.Shard{shard(0, 5, 0), shard(1, rps, 5)}, w, noon)
		if (len(got) == 2) != pays {
			t.Errorf("with %d of one limit: %+v", rps, got)
		}
	}
}

// An image of another life of a shard shows nothing about the tokens that others have taken: its
// counter started again.
func TestAnotherLifeTeachesNothing(t *testing.T) {
	for generation, taught := range map[int64]bool{1: true, 2: false} {
		b, image := seenAs(perSecond, 9), imageOf(0, 1, 4)
		image.Generation, image.State.RF = generation, noon+1000
		image.State.Slots[image.State.Index("rps")].Used = 5 * bucket.Milli
		b.See(image, noon+1000, Unsent)
		k := b.lock()
		check.Equal(t, k.shards[0].others.images > 0, taught,
			"in generation %d: %+v", generation, k.shards[0].others)
		b.mu.Unlock()
	}
}

// Stored limits that are read again replace the confirmed ones; limits of calls are kept next to
// each other.
func TestConfirmedLimits(t *testing.T) {
	faster := perSecond
	faster.Amount *= 2
	both := func(read int64) int {
		b := seenAs(perSecond, 5)
		first, second := asks(1, perSecond), asks(1)
		first.Read, second.Read = read, read
		k := b.lock()
		defer b.mu.Unlock()
		s := k.shards[0]
		k.confirm(s.image, first, noon)
		k.confirm(s.image, first, noon)
		check.Equal(t, len(s.confirmed), 1, "the same limits are confirmed times")
		k.confirm(s.image, second, noon)
		return len(s.confirmed)
	}
	b := seenAs(perSecond, 5)
	for _, w := range []Want{asks(1, perSecond), asks(1), asks(1, perSecond), asks(1)} {
		b.Took(b.Seen(0).Image, Planned{since: Unsent}, w, nil, noon)
	}
	check.Equal(t, len(b.facts.shards[0].confirmed), 2, "two calls by turns confirm")
	if calls, stored := both(0), both(5); calls != 2 || stored != 1 {
		t.Errorf("%d of calls and %d of stored limits are confirmed", calls, stored)
	}
}

// A process yields where others have changed or removed a limit, and as long as that is so.
func TestHowLongAYieldLasts(t *testing.T) {
	own, other := []bucket.Limit{perSecond}, []bucket.Limit{perHour20}
	for _, c := range []struct {
		name string
		y    yield
		now  int64
		want bool
	}{
		{"changed", yield{own: own, inForce: other, since: noon}, noon, true},
		{"until a minute later", yield{own: own, inForce: other, since: noon}, noon + yieldFor, false},
		{"the clock set back by less", yield{own: own, inForce: other, since: noon}, noon - yieldFor + 1, true},
		{"by more", yield{own: own, inForce: other, since: noon}, noon - yieldFor, false},
		{"the same", yield{own: own, inForce: own, since: noon}, noon, false},
		{"taken out", yield{own: own, inForce: own, removed: []string{"rps"}, since: noon}, noon, true},
	} {
		check.Equal(t, c.y.lasts(c.now), c.want, c.name)
	}
}

// Requests go out together if their limits, floors and bucket lifetimes are the same.
func TestLikeRequestsGoTogether(t *testing.T) {
	faster := perSecond
	faster.Amount *= 2
	base := asks(1, perSecond)
	leaves, forever := asks(1, perSecond), asks(1, perSecond)
	leaves.Costs[0].Floor = 40
	forever.Lifetime = table.NeverExpires
	for name, c := range map[string]struct {
		other Want
		want  bool
	}{
		"the same": {asks(1, perSecond), true}, "another cost": {asks(5, perSecond), true},
		"another limit": {asks(1, faster), false}, "one more": {asks(1, perSecond, perHour20), false},
		"it leaves more": {leaves, false}, "another life": {forever, false},
	} {
		check.Equal(t, base.GoesWith(c.other), c.want, name)
	}
}

// A level never exceeds the range of numbers, however much is under way.
func TestUnderWaySaturates(t *testing.T) {
	var u underWay
	for range 3 {
		u.add([]table.Cost{{Limit: perSecond, Milli: bucket.Never}})
	}
	check.Equal(t, u.of("rps"), bucket.Never, "under way")
	for range 3 {
		u.remove([]table.Cost{{Limit: perSecond, Milli: bucket.Never}})
	}
	if got := u.of("rps"); got != 0 || len(u) != 0 {
		t.Errorf("%d are under way in the end", got)
	}
}

// If a seen period is over, or nothing was seen, a quota is whole again at its next edge.
func TestTheEdgeThatComesNext(t *testing.T) {
	const edge = 1_700_006_400_000
	quota := bucket.Limit{Name: "q", Capacity: 5000, Period: bucket.QuotaPeriod, Reset: "m0h0@UTC"}
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	if l := b.Levels(asks(1, quota), edge-7000)[0]; l.Edge != 7000+bucket.EdgeMargin {
		t.Errorf("of nothing: after %d ms", l.Edge)
	}
	b.See(shardOf(bucket.New([]bucket.Limit{quota}, 0, 1, edge-90_000)), edge-90_000, Unsent)
	const day = 86_400_000
	for at, want := range map[int64]int64{-7000: 7000 + bucket.EdgeMargin, bucket.EdgeMargin - 1: 1,
		bucket.EdgeMargin: day, 5000: day - 5000 + bucket.EdgeMargin} {
		if l := b.Levels(asks(1, quota), edge+at)[0]; l.Edge != want {
			t.Errorf("%d ms after the edge: whole after %d ms, want %d", at, l.Edge, want)
		}
	}
}

// A charge whose refusal would deny a request depends on the level alone, even if that shows a full
// limit too low; an image without a clock, or without the limits, is mended first.
func TestChargesThatMend(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *table.Shard)
		takes  bool
	}{
		"as it is": {func(*table.Shard) {}, true},
		"empty":    {func(s *table.Shard) { s.State.Slots[0].Tokens = 0 }, false},
		"no clock": {func(s *table.Shard) { s.State.NoClock, s.State.Slots[0].Tokens = true, 0 }, false},
	} {
		b, w := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32}), asks(1, perSecond)
		image := imageOf(0, 1, 5)
		c.change(&image)
		b.See(image, noon, Unsent)
		b.Begin(Choice{Do: Adopt}, w, noon)
		_, p := b.Plan(Choice{Do: Adopt}, []Want{w}, 1, clock(noon))
		if !p.Charges || p.Takes != c.takes {
			t.Errorf("%s: %+v", name, p)
		}
		after, held, err := p.Write.Apply(image.Item())
		mended, odd := table.DecodeShard(after)
		if err != nil || odd != nil || !held || mended.State.NoClock {
			t.Fatalf("%s: held %v, %v, %v, %v", name, held, err, odd, mended.State)
		}
		was, is := image.State.Slots[0].Tokens, mended.State.Slots[0].Tokens
		if is != was && !c.takes || is != was-1000 && c.takes {
			t.Errorf("%s: a level of %d becomes %d", name, was, is)
		}
		b.End(0, w)
	}
}

// A look requests the image of a known shard with a write that does not depend on it.
func TestALookNeedsNoImage(t *testing.T) {
	b, w := seenAs(perSecond, 5), asks(1, perSecond)
	b.Begin(Choice{Do: Look}, w, noon)
	if _, p := b.Plan(Choice{Do: Look}, []Want{w}, 1, clock(noon)); p.Charges || !p.Takes {
		t.Errorf("%+v", p)
	}
}

// After a refused add, a crowd's charge leaves room for the adds of others if there was a recent
// charge, 12 % of a capacity of 10 if full limits may be shown 30 % too low; otherwise it depends
// on the fresh image alone.
func TestChargesInACrowdLeaveRoom(t *testing.T) {
	for ms, want := range map[int64]int64{100: 8800, 30_000: 9000} {
		b, w := seenAs(perSecond, 10), asks(1, perSecond)
		k := b.lock()
		k.shards[0].added = true
		k.shards[0].others = others{taken: map[string]float64{"rps": 10_000}, elapsed: 10_000}
		b.mu.Unlock()
		b.Begin(Choice{Do: Take}, w, noon+ms)
		_, p := b.Plan(Choice{Do: Take}, []Want{w}, 1, clock(noon+ms))
		if !p.Charges || p.adds {
			t.Errorf("after %d ms: %+v", ms, p)
		}
		after, held, err := p.Write.Apply(b.Seen(0).Image.Item())
		if err != nil || !held {
			t.Fatalf("after %d ms: held %v, %v", ms, held, err)
		}
		image, err := table.DecodeShard(after)
		if got := image.State.Slots[image.State.Index("rps")].Tokens; got != want || err != nil {
			t.Errorf("after %d ms: a level of %d, %v, want %d", ms, got, err, want)
		}
	}
}

// A yielding process uses the newest limits that others have set, and reports it once. Limits that
// they have removed cost nothing, if the call's own limits are stored ones.
func TestYieldsFollowTheNewestLimits(t *testing.T) {
	theirs := func(generation, capacity int64, names ...string) table.Shard {
		var limits []bucket.Limit
		for _, n := range names {
			limits = append(limits, bucket.Limit{Name: n, Capacity: capacity, Amount: 1000, Period: 1000})
		}
		return table.Shard{Namespace: "ns", Entity: "acme", Resource: "gpt-4", Generation: generation << 40,
			State: bucket.New(limits, 0, 1, noon)}
	}
	tps := perSecond
	tps.Name = "tps"
	want := asks(1, perSecond, tps)
	b := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32})
	first := theirs(1, 10_000, "rps", "tps")
	b.See(first, noon, Unsent)
	b.Took(first, Planned{Takes: true, since: Unsent}, want, nil, noon)
	capacity := func() int64 { return b.Decide(want, &Attempt{}, clock(noon)).Want.Costs[0].Limit.Capacity }
	if !b.Refused(theirs(3, 30_000, "rps", "tps"), Planned{since: Unsent}, noon) || capacity() != 30_000 {
		t.Errorf("a capacity of %d", capacity())
	}
	b.Refused(theirs(2, 20_000, "rps", "tps"), Planned{since: Unsent}, noon) // older
	check.Equal(t, capacity(), 30_000, "after an older image a capacity of")
	b.Refused(theirs(5, 50_000, "rps", "tps"), Planned{since: Unsent}, noon)
	b.Refused(theirs(4, 40_000, "rps", "tps"), Planned{since: Unsent}, noon)
	check.Equal(t, capacity(), 50_000, "after a newer one, and one between, a capacity of")
	for _, c := range []struct{ generation, capacity int64 }{{3, 50_000}, {4, 40_000}} {
		other := theirs(c.generation, c.capacity, "rps", "tps")
		other.State.Shard, other.State.Shards = 1, 2
		b.Refused(other, Planned{Shard: 1, since: Unsent}, noon)
	}
	check.Equal(t, capacity(), 50_000, "after two older ones of another shard a capacity of")
	b.Refused(theirs(6, 60_000, "rps"), Planned{since: Unsent}, noon)
	if d := b.Decide(want, &Attempt{}, clock(noon)); len(d.Want.Costs) != 2 {
		t.Errorf("limits of the call: decided by %v", d.Want.Costs)
	}
	want.Read = noon - 1
	if d := b.Decide(want, &Attempt{}, clock(noon)); len(d.Want.Costs) != 1 || d.Want.Costs[0].Limit.Capacity != 60_000 {
		t.Errorf("stored limits: decided by %v", d.Want.Costs)
	}
	want.Read = noon + 1
	if d := b.Decide(want, &Attempt{}, clock(noon)); len(d.Want.Costs) != 2 || d.Want.Costs[0].Limit != perSecond {
		t.Errorf("limits that were read since: decided by %v", d.Want.Costs)
	}
}

// under returns an image of a shard in a generation that has given it a limit.
func under(shard, shards int, limit bucket.Limit, generation int64) table.Shard {
	b := imageOf(shard, shards, 3)
	b.Generation = generation << 40
	b.State.Slots[b.State.Index("rps")].Limit = limit
	return b
}

// confirmedBy returns a process that has seen its limits in force on a shard.
func confirmedBy(image table.Shard, w Want) *Bucket {
	b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
	b.See(image, noon, Unsent)
	b.Took(image, Planned{Takes: true, since: Unsent}, w, nil, noon)
	return b
}

// A new shard that others changed after the known ones displaces limits, too. A shard split off
// since has the limits of its parent, which may have changed long before.
func TestANewShardDisplaces(t *testing.T) {
	faster := perSecond
	faster.Amount *= 2
	for _, c := range []struct {
		generation int64
		limit      bucket.Limit
		split      bool
		want       bool
	}{
		{2, faster, false, true}, {2, perSecond, false, false}, {1, faster, false, false}, {0, faster, false, false},
		{2, faster, true, false},
	} {
		w := asks(1, perSecond)
		b := confirmedBy(under(0, 2, perSecond, 1), w)
		image := under(1, 2, c.limit, c.generation)
		if c.split {
			image.Born = table.Began(image.Generation) / 1000
		}
		check.Equal(t, b.Refused(image, Planned{Shard: 1, since: Unsent}, noon), c.want, "%+v: displaced", c)
		d := b.Decide(w, &Attempt{}, clock(noon))
		check.Equal(t, d.Want.Costs[0].Limit == faster, c.want, "%+v: decided by %v", c, d.Want.Costs[0].Limit)
	}
}

// A write that was decided before others replaced its limits does not restore them: its request
// decides again. So does a prefetch in the background.
func TestNoPlanBringsReplacedLimits(t *testing.T) {
	faster := perSecond
	faster.Amount *= 2
	w, theirs := asks(1, perSecond), asks(1, faster)
	b := confirmedBy(under(0, 1, perSecond, 1), w)
	group := []Want{theirs, w, theirs}
	for _, want := range group {
		b.Begin(Choice{Do: Take}, want, noon)
	}
	if !b.Refused(under(0, 1, faster, 2), Planned{since: Unsent}, noon) {
		t.Fatal("others have replaced nothing")
	}
	if n, p := b.Plan(Choice{Do: Take}, group, 3, clock(noon)); n != 1 || !p.Takes || !p.Replaced {
		t.Errorf("%d of the group are planned for, want the one before the old limits", n)
	}
	b.End(0, theirs)
	b.Begin(Choice{Do: Take}, w, noon)
	if n, p := b.Plan(Choice{Do: Take}, []Want{w}, 1, clock(noon)); n != 0 || p.Write != nil || !p.Replaced ||
		!b.Seen(0).Idle {
		t.Errorf("a plan under the old limits: for %d, %+v, idle %v", n, p.Write, b.Seen(0).Idle)
	}
}

// The first image of a shard shows nothing about limits that are as old as its generation, or older
// than the generation of a shard with the process's own.
func TestAShardSeenLateDisplacesNothing(t *testing.T) {
	old := perSecond
	old.Amount *= 2
	w := asks(1, perSecond)
	b, split := confirmedBy(under(0, 2, perSecond, 2), w), under(0, 2, perSecond, 6)
	b.See(split, noon, Unsent)
	b.Took(split, Planned{Takes: true, since: Unsent}, w, nil, noon)
	if b.Refused(under(1, 2, old, 3), Planned{Shard: 1, since: Unsent}, noon) { // split at 3, with its earlier limits
		t.Error("displaced")
	}
	if d := b.Decide(w, &Attempt{}, clock(noon)); d.Want.Costs[0].Limit != perSecond {
		t.Errorf("decided by %v", d.Want.Costs[0].Limit)
	}

	theirs := asks(1, old) // a process of the old release: it yields, and continues to yield
	b = confirmedBy(under(0, 2, old, 1), theirs)
	b.Refused(under(0, 2, perSecond, 2), Planned{since: Unsent}, noon)
	b.Refused(split, Planned{since: Unsent}, noon)
	b.Refused(under(1, 2, old, 3), Planned{Shard: 1, since: Unsent}, noon)
	if d := b.Decide(theirs, &Attempt{}, clock(noon)); d.Want.Costs[0].Limit != perSecond {
		t.Errorf("the old release uses %v again", d.Want.Costs[0].Limit)
	}
}

// A shard that merges begins a generation with its earlier limits: that shows nothing about limits
// that others have changed meanwhile.
func TestAShardThatMergesDisplacesNothing(t *testing.T) {
	old := perSecond
	old.Amount *= 2
	b, w := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32}), asks(1, perSecond)
	b.See(under(1, 4, old, 1), noon, Unsent)
	zero := under(0, 2, perSecond, 2)
	b.See(zero, noon, Unsent)
	b.Took(zero, Planned{Takes: true, since: Unsent}, w, nil, noon)
	for i, c := range []struct {
		image     table.Shard
		displaced bool
	}{
		{under(1, 2, old, 3), false}, // it has merged with shard 3
		{under(1, 2, perSecond, 4), false},
		{under(1, 2, old, 5), true}, // others have changed it back
	} {
		check.Equal(t, b.Refused(c.image, Planned{Shard: 1, since: Unsent}, noon), c.displaced,
			"image %d: displaced", i)
		if d := b.Decide(w, &Attempt{}, clock(noon)); (d.Want.Costs[0].Limit == old) != c.displaced {
			t.Errorf("image %d: decided by %v", i, d.Want.Costs[0].Limit)
		}
	}
	b.Refused(under(0, 1, perSecond, 6), Planned{since: Unsent}, noon) // it has merged with shard 1
	if d := b.Decide(w, &Attempt{}, clock(noon)); d.Want.Costs[0].Limit != old {
		t.Errorf("uses %v, although others have changed it on a shard", d.Want.Costs[0].Limit)
	}
}

// A limit of the bucket that does not apply to the request denies nothing, in debt or not.
func TestLimitsOfOthersDenyNothing(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32})
	image := shardOf(bucket.New([]bucket.Limit{perHour20, perSecond}, 0, 1, noon))
	image.State.Slots[image.State.Index("rph")].Tokens = -5000
	b.See(image, noon, Unsent)
	for _, cost := range []int64{0, 10} {
		d := b.Decide(asks(cost, perSecond), &Attempt{}, clock(noon))
		check.Equal(t, d.Do, Take, "%d tokens: %+v", cost, d.Choice)
	}
}

// Of two choices, the earlier one is taken: a denial that ends before another, or ends at all.
func TestTheSoonerOfTwoDenials(t *testing.T) {
	never := Choice{Do: Never, at: noon, Limit: "rps"}
	early, late := Choice{Do: Deny, at: noon + 1, Limit: "rps"}, Choice{Do: Deny, at: noon + 2, Limit: "rps"}
	for _, c := range []struct{ a, b, want Choice }{
		{early, late, early}, {late, early, early}, {never, late, late}, {late, never, late}, {Choice{}, never, never},
	} {
		if got := sooner(c.a, c.b); got.Do != c.want.Do || got.at != c.want.at {
			t.Errorf("of %+v and %+v: %+v", c.a, c.b, got)
		}
	}
}

// An image is recent while the refill since is less than a part of every requested capacity: 20 %
// of 10 tokens, 1 per second, is 2 s.
func TestRecent(t *testing.T) {
	for ms, want := range map[int64]bool{0: true, 2000: true, 2001: false} {
		s := &seen{image: imageOf(0, 1, 5)}
		check.Equal(t, s.recent(asks(1, perSecond), noon+ms, 20), want, "after %d ms", ms)
		if !s.recent(asks(0, perSecond), noon+ms, 20) || !s.recent(asks(1, perHour20), noon+ms, 20) {
			t.Errorf("after %d ms: what nothing is taken from counts", ms)
		}
	}
}

// A shard that was never seen is not a home.
func TestAShardThatWasNotSeenIsNoHome(t *testing.T) {
	d := decider{facts: factsOf(2), want: asks(1, perSecond), now: noon}
	if d.halfFull(nil) || d.halfFull(&seen{absent: true}) || !d.halfFull(&seen{image: imageOf(0, 2, 5)}) {
		t.Error("an unseen shard is half full, or a seen one is not")
	}
}

// A waiting request that is not admitted is denied, and the bucket continues.
func TestRefusal(t *testing.T) {
	b := seenAs(perSecond, 4)
	for range 2 {
		if d := b.Refusal(asks(7, perSecond), noon+1, noon); d.Limit != "rps" || d.After < 1 || len(d.Levels) != 1 {
			t.Errorf("%+v", d)
		}
	}
	// Its own tokens are taken and not yet given back, so the queue seems to have room: for this
	// request it is full.
	d := b.Refusal(asks(7, perSecond), noon+60_000, noon)
	if !d.Full || d.Limit != "rps" {
		t.Errorf("of the queue: %+v", d)
	}
	if l := d.Levels[0]; l.After != 3000 { // 7 of 4, one a second: the time for its costs, not until it may ask
		t.Errorf("of the limit: %+v, of the queue %+v", l, d)
	}
}

// A shard that was never seen has nothing under way, and nothing held.
func TestAShardThatWasNeverSeen(t *testing.T) {
	b := seenAs(perSecond, 5)
	if got := b.Seen(7); !got.Idle || got.Absent || got.Serial != 0 || got.Image.Entity != "" {
		t.Errorf("%+v", got)
	}
	check.Equal(t, b.Left(7, "rps", clock(noon))+b.Left(0, "rps", clock(noon)), 0, "held")
	check.Equal(t, NewBucket(&Settings{}).Reusable(asks(1, perSecond), noon), 0, "slots serve others for ms")
}

// A created bucket takes the costs, and stores its parent; if shards remain, shard 0 is restored
// with their count and takes nothing.
func TestCreate(t *testing.T) {
	for _, count := range []int{1, 4} {
		b, w := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32}), asks(3, perSecond)
		w.Parent, w.Cascade = "org", true
		b.Missing(noon, 0)
		if count > 1 {
			check.Must(t, check.Err(b.Survives(1, imageOf(1, count, 2).Item(), noon)))
		}
		p := b.Create(w, Now{Ms: noon, Random: 7})
		it, held, err := p.Write.Apply(nil)
		if err != nil || !held || !p.Creates || p.Takes != (count == 1) || p.since != Unsent {
			t.Fatalf("%d shards: %+v, %v", count, p, err)
		}
		image, err := table.DecodeShard(it)
		want := map[int]int64{1: 7000, 4: 0}[count]
		if level := image.State.Slots[image.State.Index("rps")].Tokens; err != nil || level != want {
			t.Errorf("%d shards: it has %d, want %d, %v", count, level, want, err)
		}
		if image.State.Shards != count || image.Parent != "org" || !image.Cascade {
			t.Errorf("%d shards: %+v", count, image)
		}
		b.See(image, noon, Unsent) // no request is locked out
	}
}

// A partly stored limit cannot be divided, so its shard count is not mended.
func TestPartialLimitsAreNotMended(t *testing.T) {
	for partial, mends := range map[bool]bool{false: true, true: false} {
		b := NewBucket(&Settings{DenyFor: 60_000, MaxShards: 32})
		image := imageOf(0, 64, 0) // of shares without a token
		if partial {
			image.Partial = []table.PartialLimit{{Name: "x"}}
		}
		b.See(image, noon, Unsent)
		k := b.lock()
		check.Equal(t, k.repair() != nil, mends, "in part %v: repairs", partial)
		b.mu.Unlock()
	}
}

// If a charge would be refused, a plain add is sent, which leaves room for the adds of others; if
// that was refused, a charge; and after one has held, an add again.
func TestAddsInACrowd(t *testing.T) {
	b, w := seenAs(perSecond, 10), asks(1, perSecond)
	plan := func() Planned {
		b.Begin(Choice{Do: Take}, w, noon+4000)
		_, p := b.Plan(Choice{Do: Take}, []Want{w}, 1, clock(noon+4000))
		b.End(0, w)
		return p
	}
	k := b.lock()
	k.shards[0].others = others{taken: map[string]float64{"rps": 10_000}, elapsed: 10_000}
	b.mu.Unlock()
	p := plan()
	if !p.adds || p.Charges || !p.Takes {
		t.Fatalf("first %+v, want an add", p)
	}
	b.Refused(b.Seen(0).Image, p, noon+4000)
	k = b.lock()
	k.shards[0].others = others{taken: map[string]float64{"rps": 10_000}, elapsed: 10_000}
	b.mu.Unlock()
	if p = plan(); p.adds || !p.Charges {
		t.Errorf("after its refusal %+v, want a charge", p)
	}
	b.Took(b.Seen(0).Image, Planned{since: Unsent}, w, nil, noon)
	if k = b.lock(); k.shards[0].added {
		t.Error("an answer that holds is taken for a refused add")
	}
	b.mu.Unlock()
}

// An image from a call that was sent before a shard was found missing does not count as the answer
// to a later call: a missing shard is news too.
func TestMissingIsNews(t *testing.T) {
	b := seenAs(perSecond, 5)
	was := b.Seen(0).Serial
	if d := b.Decide(asks(7, perSecond), &Attempt{}, clock(noon)); d.Do != Deny {
		t.Errorf("7 of 5: %+v", d.Choice)
	}
	if b.Missing(noon, 0); b.Seen(0).Serial == was {
		t.Error("the serial number stays")
	}
	if d := b.Decide(asks(7, perSecond), &Attempt{}, clock(noon)); d.Do != Take {
		t.Errorf("7 of 5 that are not there any more: %+v", d.Choice)
	}
}

// A full shard is crowded if others have taken more than the slack since its image, as far as
// observed.
func TestCrowded(t *testing.T) {
	for _, c := range []struct {
		name    string
		elapsed float64 // for how long others were observed, ms
		ms      int64
		slack   int64 // percent
		want    bool
	}{
		{"1 token a second took 2 of 10 in 2 s", 5000, 2000, 19, true},
		{"which a slack of 20 % lets pass", 5000, 2000, 20, false},
		{"after 9 s, what was seen in 5 s", 5000, 9000, 49, true},
		{"and no more", 5000, 9000, 51, false},
	} {
		s := &seen{image: imageOf(0, 1, 10), at: noon}
		s.others.taken, s.others.elapsed = map[string]float64{"rps": c.elapsed}, c.elapsed
		check.Equal(t, s.crowded(asks(1, perSecond), noon+c.ms, c.slack), c.want, c.name)
	}
}
