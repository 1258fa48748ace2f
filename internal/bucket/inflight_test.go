package bucket

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// The example of the doc comment: 10 slots, epochs of 30 s. 4 are taken in epoch 1, at 40 s, by a
// process that dies. They are free from epoch 3 on.
func TestSlotsOfDeadProcessesExpire(t *testing.T) {
	fly := Limit{Name: "fly", Capacity: 10 * Milli, Period: 30_000, InFlight: true}
	s := New([]Limit{fly}, 0, 1, 40_000)
	s = s.Take([]int64{4 * Milli, 0})
	for _, tt := range []struct{ at, level, wait int64 }{
		{40_000, 6, 51_000}, {90_999, 6, 1}, {91_000, 10, 0}, {1_000_000, 10, 0},
	} {
		at := s.At(tt.at)
		check.Equal(t, at.Slots[0].Tokens, tt.level*Milli, "at %d ms: millislots are free", tt.at)
		check.Equal(t, at.Wait(0, 7*Milli), tt.wait, "at %d ms: 7 are free after ms", tt.at)
		if level, _ := s.LevelAt(0, tt.at); level != tt.level*Milli {
			t.Errorf("at %d ms: LevelAt is %d, want %d", tt.at, level, tt.level*Milli)
		}
	}
	if v := s.Decide([]int64{11 * Milli, 0}, 40_000); v.Granted || v.At != Never {
		t.Errorf("11 of 10 slots: %+v", v)
	}
	moved := s.At(70_000)
	if moved = moved.Take([]int64{3 * Milli, 0}); moved.Slots[0].Tokens != 3*Milli {
		t.Errorf("%d are free after 4 in epoch 1 and 3 in epoch 2", moved.Slots[0].Tokens)
	}
	check.Equal(t, moved.Wait(0, 7*Milli), 21_000, "ms until 7 are free, when the 4 expire")
	check.Equal(t, moved.Wait(0, 8*Milli), 51_000, "ms until 8 are free, when the 3 expire too")
}

// Given-back slots are subtracted from the current epoch first, then from the one before: with 4 in
// epoch 1 and 3 in epoch 2, giving back 5 leaves 2 in epoch 1.
func TestGivenBackSlotsCountForTheLatestEpochs(t *testing.T) {
	fly := Limit{Name: "fly", Capacity: 10 * Milli, Period: 30_000, InFlight: true}
	s := New([]Limit{fly}, 0, 1, 40_000).Take([]int64{4 * Milli, 0}).At(70_000).Take([]int64{3 * Milli, 0})
	for _, c := range []struct{ back, now, before, free int64 }{
		{2, 1, 4, 5}, {3, 0, 4, 6}, {5, 0, 2, 8}, {7, 0, 0, 10}, {9, 0, 0, 10},
	} {
		got := s.Take([]int64{-c.back * Milli, 0}).At(70_000).Slots[0]
		if now, before := got.Taken.Of(2), got.Taken.Of(1); now != c.now*Milli || before != c.before*Milli ||
			got.Tokens != c.free*Milli {
			t.Errorf("%d given back: %d and %d are left, %d free", c.back, now, before, got.Tokens)
		}
	}
}

// Slots in use stay in use when the limit changes, as long as they would have without the change.
func TestSlotsInUseSurviveAChange(t *testing.T) {
	fly := Limit{Name: "fly", Capacity: 10 * Milli, Period: 30_000, InFlight: true}
	for _, tt := range []struct{ capacity, period int64 }{
		{10, 30_000}, {4, 30_000}, {10, 5_000}, {12, 300_000}, {3, 7_000},
	} {
		s := New([]Limit{fly}, 0, 1, 601_000).Take([]int64{4 * Milli, 0}).At(631_000)
		s = s.Take([]int64{Milli, 0})
		want := Limit{Name: "fly", Capacity: tt.capacity * Milli, Period: tt.period, InFlight: true}
		got, changed := s.Adopt(want)
		if sl := got.Slots[0]; changed != (want != fly) || sl.Tokens != (tt.capacity-5)*Milli {
			t.Errorf("%v: %d are free after a change with 5 at work", want, sl.Tokens)
		}
		dead := fly.EndOf(fly.EpochAt(631_000)) + fly.Period // the end of the slot taken last
		if sl := got.At(dead - fly.Period).Slots[0]; sl.Tokens > (tt.capacity-5)*Milli {
			t.Errorf("%v: %d are free when all 5 may still be at work", want, sl.Tokens)
		}
		if sl := got.At(dead).Slots[0]; sl.Tokens > (tt.capacity-1)*Milli {
			t.Errorf("%v: %d are free at %d ms, when 1 may still be at work", want, sl.Tokens, dead)
		}
		if sl := got.At(dead + 4*MaxEpoch).Slots[0]; sl.Tokens != want.Capacity {
			t.Errorf("%v: %d are free in the end", want, sl.Tokens)
		}
	}
	rate := Limit{Name: "fly", Capacity: 7 * Milli, Amount: Milli, Period: 1000}
	s, _ := New([]Limit{fly}, 0, 1, 601_000).Take([]int64{4 * Milli, 0}).Adopt(rate)
	if sl := s.Slots[0]; sl.Tokens != 7*Milli || sl.Taken != (Taken{}) || sl.End != 0 {
		t.Errorf("as a rate it is %+v", sl)
	}
	if s, _ = s.Adopt(fly); s.Slots[0].Tokens != 10*Milli || s.Slots[0].End != 630_000 {
		t.Errorf("as slots again it is %+v", s.Slots[0])
	}
}

// The same for slots of the epoch before: 4 taken at 601 s, with epochs of 30 s, are in use until
// 660 s at most, and not longer if the epochs become shorter.
func TestOlderSlotsSurviveAChange(t *testing.T) {
	fly := Limit{Name: "fly", Capacity: 10 * Milli, Period: 30_000, InFlight: true}
	s := New([]Limit{fly}, 0, 1, 601_000).Take([]int64{4 * Milli, 0}).At(632_000)
	for _, period := range []int64{1000, 5000, 7000, 30_000, 300_000} {
		short := fly
		short.Period = period
		got, _ := s.Adopt(short)
		for _, at := range []int64{632_000, 645_000, 660_000} {
			check.Equal(t, got.At(at).Slots[0].Tokens, 6*Milli, "epochs of %d ms: free at %d", period, at)
		}
		check.Equal(t, got.At(661_000 + 2*period).Slots[0].Tokens, 10*Milli, "epochs of %d ms: free in the end", period)
	}
}

// Requests that alternate between epochs of 30 s and 60 s do not keep dead slots taken forever: 4
// taken at 605 s and 1 taken at 635 s are free by 720 s.
func TestAlternatingEpochsFreeSlots(t *testing.T) {
	half := Limit{Name: "fly", Capacity: 10 * Milli, Period: 30_000, InFlight: true}
	whole := half
	whole.Period *= 2
	s := New([]Limit{half}, 0, 1, 605_000).Take([]int64{4 * Milli, 0}).At(635_000).Take([]int64{Milli, 0})
	for now := int64(635_000); now <= 730_000; now += 5000 {
		for _, l := range []Limit{whole, half} {
			s, _ = s.At(now).Adopt(l)
			free := s.Slots[0].Tokens / Milli
			if now <= 660_000 && free != 5 || now <= 690_000 && free > 9 || now > 721_000 && free != 10 {
				t.Errorf("%d are free at %d ms", free, now)
			}
		}
	}
}

// An epoch that no sound clock has begun is dropped. Slots in use count from now on.
func TestAstrayEpochsAreDropped(t *testing.T) {
	fly := Limit{Name: "fly", Capacity: 10 * Milli, Period: 30_000, InFlight: true}
	s := New([]Limit{fly}, 0, 1, 1e12).Take([]int64{4 * Milli, 0})
	if at := s.At(40_000).Slots[0]; at.Tokens != 6*Milli || at.Epoch() != 1 || at.Taken.Of(1) != 4*Milli {
		t.Errorf("it is %+v", at)
	}
	if at := s.At(1e12 - 60_000).Slots[0]; at.Epoch() != fly.EpochAt(1e12) {
		t.Errorf("a clock a minute ahead was treated as broken: %+v", at)
	}
}

// The earliest end of a period counts. Slots, and quotas without an edge, have none.
func TestPeriodEnd(t *testing.T) {
	quota := func(end int64) Slot { return Slot{Limit: Limit{Name: "q", Reset: "0 0 * * *"}, End: end} }
	slots := Slot{Limit: Limit{Name: "fly", Period: 30_000, InFlight: true}, End: 5}
	rate := Slot{Limit: Limit{Name: "rpm", Amount: 1, Period: 60_000}}
	for _, c := range []struct {
		slots []Slot
		want  int64
	}{
		{nil, 0},
		{[]Slot{rate, slots}, 0},
		{[]Slot{quota(Never)}, 0},
		{[]Slot{quota(30)}, 30},
		{[]Slot{slots, quota(40), rate, quota(30), quota(Never), quota(50)}, 30},
	} {
		check.Equal(t, (State{Slots: c.slots}).PeriodEnd(), c.want, "%+v", c.slots)
	}
}

// Slots of an epoch of 30 s that ends at 60 s can be moved from 61 s on. They are lost a second
// before the next epoch ends, because clocks may differ by that.
func TestSlotsMoveBeforeTheyAreLost(t *testing.T) {
	fly := Limit{Name: "fly", Capacity: Milli, Period: 30_000, InFlight: true}
	if end := fly.EndOf(1); end != 60_000 || fly.Epoch(end) != 1 {
		t.Errorf("epoch 1 ends at %d, in epoch %d", end, fly.Epoch(end))
	}
	if moves, lost := fly.MovesAt(60_000), fly.LostAt(60_000); moves != 60_000+EdgeMargin || lost != 90_000-EdgeMargin {
		t.Errorf("they move from %d on and are lost at %d", moves, lost)
	}
}

// Epochs before 1970 are numbered too, and each has its counter.
func TestEpochsBefore1970(t *testing.T) {
	fly := Limit{Name: "fly", Capacity: Milli, Period: 30_000, InFlight: true}
	for at, want := range map[int64]int64{-60_001: -3, -60_000: -2, -30_001: -2, -30_000: -1, -1: -1, 0: 0, 1: 0,
		29_999: 0, 30_000: 1} {
		check.Equal(t, fly.EpochAt(at+EdgeMargin), want, "%d ms are in epoch", at)
	}
	for epoch, want := range map[int64]int{-4: 2, -3: 0, -2: 1, -1: 2, 0: 0, 1: 1, 2: 2, 3: 0} {
		check.Equal(t, EpochSlot(epoch), want, "epoch %d is counted at", epoch)
	}
}

// Emptied counts all slots of the shard in the current epoch, however many were taken before. They
// are free when that epoch and the next one are over. Only shard 0 has slots.
func TestEmptiedSlots(t *testing.T) {
	fly := Limit{Name: "fly", Capacity: 10 * Milli, Period: 30_000, InFlight: true}
	s := New([]Limit{fly}, 0, 1, 40_000).Take([]int64{4 * Milli, 0}).At(70_000).Take([]int64{3 * Milli, 0})
	got := s.Emptied().Slots[0]
	if got.Tokens != 0 || got.Taken.Of(2) != 10*Milli || got.Taken.Of(1) != 0 {
		t.Errorf("%+v, want all ten taken in epoch 2", got)
	}
	s.Slots[0] = got
	check.Equal(t, s.Wait(0, Milli), 51_000, "ms until one is free")
	got.Tokens = 77
	if got = got.Levelled(s); got.Tokens != 0 {
		t.Errorf("its level is %d by what was taken", got.Tokens)
	}
	s.Shard, s.Shards = 1, 2
	if got = s.Emptied().Slots[0]; got.Taken != (Taken{}) || got.Tokens != 0 {
		t.Errorf("on shard 1 it is %+v", got)
	}
}

// An epoch is astray if it is further ahead than any sound clock.
func TestEpochsBeyondSoundClocksAreAstray(t *testing.T) {
	const far = 3*MaxEpoch + MaxSkew
	sl := Slot{Limit: Limit{Name: "fly", Capacity: Milli, Period: 30_000, InFlight: true}, End: 1e12}
	if sl.Astray(1e12-far) || !sl.Astray(1e12-far-1) {
		t.Errorf("%v at the bound, %v beyond", sl.Astray(1e12-far), sl.Astray(1e12-far-1))
	}
	if sl.InFlight = false; sl.Astray(0) {
		t.Error("a limit without slots is astray")
	}
}

// Of ten slots, one was taken in epoch 0 and three in epoch 1. Six are free at 40 s, the seventh at
// 60 s, and all at 90 s, each plus the margin for clocks.
func TestSlotsAreFreeWhenTheirEpochIsOver(t *testing.T) {
	s := New([]Limit{{Name: "fly", Capacity: 10 * Milli, Period: 30_000, InFlight: true}}, 0, 1, 40_000)
	sl := &s.Slots[s.Index("fly")]
	sl.Taken[EpochSlot(0)], sl.Taken[EpochSlot(1)] = Milli, 3*Milli
	*sl = sl.Levelled(s)
	for need, want := range map[int64]int64{
		0: 0, 6 * Milli: 0,
		7 * Milli: 60_000 + EdgeMargin - 40_000, 10 * Milli: 90_000 + EdgeMargin - 40_000, 10*Milli + 1: Never,
	} {
		check.Equal(t, s.untilFreed(s.Index("fly"), 40_000, need), want, "ms until %d are free", need)
	}
	check.Equal(t, s.untilFreed(s.Index("fly"), 200_000, 7*Milli), 0, "long after that: after ms")
	sl.Taken[EpochSlot(1)] = 30 * Milli
	*sl = sl.Levelled(s)
	check.Equal(t, s.untilFreed(s.Index("fly"), 40_000, 0), 0, "ms until 0 are free, with more taken than there are")
}

// If no slots are in use, a change begins in the epoch of its instant, whatever epoch the slots
// had.
func TestIdleSlotsChangeAtOnce(t *testing.T) {
	s := New([]Limit{{Name: "fly", Capacity: 10 * Milli, Period: 60_000, InFlight: true}}, 0, 1, 70_000)
	want := Limit{Name: "fly", Capacity: 5 * Milli, Period: 10_000, InFlight: true}
	got, _ := s.Adopt(want)
	if sl := got.Slots[got.Index("fly")]; sl.Epoch() != want.EpochAt(70_000) || sl.Tokens != 5*Milli {
		t.Errorf("%+v, want epoch %d", sl, want.EpochAt(70_000))
	}
}
