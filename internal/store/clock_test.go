package store

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// epoch is the first reading of a test's wall clock.
var epoch = time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)

// TestAnswerBoundsTheClock tests how one answer bounds the local clock.
func TestAnswerBoundsTheClock(t *testing.T) {
	at := func(d time.Duration) reading { return reading{epoch.Add(d).UnixNano(), 0} }
	for _, c := range []struct {
		name           string
		sent, received time.Duration // local time minus the server's time
		want           time.Duration
	}{
		{"agrees", 100 * time.Millisecond, 110 * time.Millisecond, 0},
		{"the server's second was nearly over", 999 * time.Millisecond, 1050 * time.Millisecond, 0},
		{"the second changed during the call", -20 * time.Millisecond, 5 * time.Millisecond, 0},
		{"a slow answer bounds little", -time.Hour, time.Hour, 0},
		{"ahead by an hour", time.Hour, time.Hour + 10*time.Millisecond, time.Second - time.Hour},
		{"behind by an hour", -time.Hour - 10*time.Millisecond, -time.Hour, time.Hour},
		{"just ahead", 1001 * time.Millisecond, 1010 * time.Millisecond, -time.Millisecond},
		{"just behind", -10 * time.Millisecond, -time.Millisecond, time.Millisecond},
	} {
		check.Equal(t, offsets(epoch, at(c.sent), at(c.received)).nearest(0), c.want, "%s: offset", c.name)
	}
}

// machine is a computer whose clock can be off, and can be set.
type machine struct {
	mono time.Duration
	off  time.Duration // by how much the wall clock is off
	*Clock
	changes []ClockChange
}

func newMachine(off time.Duration) *machine {
	m := &machine{off: off, Clock: &Clock{}}
	m.read = func() reading { return reading{epoch.Add(m.mono + m.off).UnixNano(), int64(m.mono)} }
	m.Watch(func(c ClockChange) { m.changes = append(m.changes, c) })
	return m
}

// call makes one call. Its answer has the true time, or one ahead of it.
func (m *machine) call(ahead time.Duration) {
	sent := m.reading()
	m.mono += 5 * time.Millisecond
	server := epoch.Add(m.mono + ahead).Truncate(time.Second)
	m.mono += 5 * time.Millisecond
	m.heard(server, sent)
}

// wrong returns how far the corrected clock is off.
func (m *machine) wrong() time.Duration { return m.off + m.Offset() }

func (m *machine) calls(n int, every time.Duration) {
	for range n {
		m.mono += every
		m.call(0)
	}
}

// The first answer corrects a clock that is far off. No later answer makes the correction worse,
// and after many it is close.
func TestClockIsCorrected(t *testing.T) {
	for _, off := range []time.Duration{0, 300 * time.Millisecond, -300 * time.Millisecond, 61 * time.Second,
		-61 * time.Second, 23 * time.Hour, -23 * time.Hour} {
		m := newMachine(off)
		m.call(0)
		first := m.wrong().Abs()
		if first > time.Second+10*time.Millisecond {
			t.Errorf("off by %v: still %v after one answer", off, m.wrong())
		}
		rng := rand.New(rand.NewPCG(1, 1))
		for range 500 {
			m.mono += time.Duration(rng.Int64N(int64(3 * time.Second)))
			m.call(0)
			if now := m.wrong().Abs(); now > first {
				t.Fatalf("off by %v: %v after one answer, %v later", off, first, now)
			} else {
				first = now
			}
		}
		if len(m.changes) > 20 {
			t.Errorf("off by %v: %d changes, want few", off, len(m.changes))
		}
	}
}

func TestOneAnswerChangesNoClockThatAgrees(t *testing.T) {
	for _, off := range []time.Duration{0, time.Hour} {
		m := newMachine(off)
		m.calls(10, 700*time.Millisecond)
		before := m.Offset()
		changes := len(m.changes)
		for _, ahead := range []time.Duration{50 * time.Second, -time.Hour, 3 * time.Second} {
			m.call(ahead)
			m.call(ahead + 5*time.Second) // each contradicts the others too
			m.call(ahead)
			check.Equal(t, m.Offset(), before, "off by %v, an answer ahead by %v", off, ahead)
			m.calls(1, 700*time.Millisecond)
		}
		for range 2 * doubts { // a wrong answer now and then, always the same
			m.call(50 * time.Second)
			m.calls(1, 700*time.Millisecond)
		}
		for range doubts { // two in a row are not enough
			m.call(50 * time.Second)
			m.call(50 * time.Second)
			m.calls(1, 700*time.Millisecond)
		}
		check.Equal(t, len(m.changes), changes, "changes %v", m.changes[changes:])
	}
}

// Repeated answers that contradict the correction change it: the first answer was wrong, or the
// clock is being slewed.
func TestRepeatedAnswersChangeTheCorrection(t *testing.T) {
	m := newMachine(0)
	m.call(50 * time.Second)
	if (m.wrong() - 50*time.Second).Abs() > time.Second+10*time.Millisecond {
		t.Fatalf("offset %v after the first answer", m.Offset())
	}
	m.calls(2, time.Second)
	if m.Offset() == 0 {
		t.Error("two answers have changed the correction")
	}
	m.calls(1, time.Second)
	check.Equal(t, m.Offset(), 0, "offset after three answers that confirm the clock")
	last := m.changes[len(m.changes)-1]
	if len(m.changes) != 2 || last.Before == 0 || last.After != 0 || last.Set {
		t.Errorf("changes %v", m.changes)
	}
}

// When a clock is set, its correction no longer counts.
func TestCorrectionIsDroppedWhenTheClockIsSet(t *testing.T) {
	for _, off := range []time.Duration{50 * time.Second, -50 * time.Second} {
		m := newMachine(off)
		m.calls(5, time.Second)
		if m.Offset() == 0 {
			t.Fatal("not corrected")
		}
		m.off = 0 // the clock was set
		m.mono += 10 * time.Millisecond
		check.Equal(t, m.Offset(), 0, "offset with a right clock")
		last := m.changes[len(m.changes)-1]
		if last.After != 0 || last.Before == 0 || !last.Set {
			t.Errorf("the watcher saw %+v", last)
		}
		m.off = time.Minute // and is set again during a call
		m.Offset()
		sent := m.reading()
		m.off = 0
		m.Offset()
		m.heard(epoch.Add(m.mono).Truncate(time.Second), sent)
		check.Equal(t, m.Offset(), 0, "offset from a call during which the clock was set")
		m.off = time.Hour // the next answer counts at once
		m.call(0)
		if m.wrong().Abs() > time.Second+10*time.Millisecond {
			t.Errorf("off by %v after an answer", m.wrong())
		}
	}
}

// A clock that is slewed, or read rarely, was not set.
func TestSlewedClockKeepsItsCorrection(t *testing.T) {
	m := newMachine(time.Hour)
	m.call(0)
	before := m.Offset()
	for range 200 {
		m.mono += 10 * time.Second
		m.off -= 5 * time.Millisecond // 500 ppm
		check.MustEqual(t, m.Offset(), before)
	}
	m.mono += 24 * time.Hour
	m.off -= 40 * time.Second
	check.Equal(t, m.Offset(), before, "after a day")
}

// A correction of more than a day is not made, but reported.
func TestCorrectionIsBounded(t *testing.T) {
	for _, known := range []bool{false, true} {
		m := newMachine(0)
		if known {
			m.call(time.Hour)
		}
		before := m.Offset()
		for range 2 * doubts {
			m.call(-25 * time.Hour)
			m.mono += time.Second
		}
		check.Equal(t, m.Offset(), before)
		last := m.changes[len(m.changes)-1]
		if last.Before != before || last.After != before || (last.Reported+25*time.Hour).Abs() > 2*time.Second {
			t.Errorf("the watcher saw %+v", last)
		}
	}
}

// The machine's two clocks agree.
func TestTheMachinesClocksAgree(t *testing.T) {
	var c Clock
	a := c.reading()
	if b := c.reading(); b.setSince(a) || b.mono < a.mono {
		t.Errorf("readings %v and %v", a, b)
	}
}

// An answer that agrees with an offset, even the first, asks for no change. Another answer asks for
// the nearest offset that agrees, even if it is not believed.
func TestAnswersAskForTheNearestOffset(t *testing.T) {
	const s = time.Second
	doubted := correction{offset: 2 * s, known: true, doubts: doubts - 1, doubt: span{4 * s, 5 * s}}
	for _, c := range []struct {
		was        correction
		said       span
		offset, to time.Duration
	}{
		{correction{}, span{-s, s}, 0, 0},
		{correction{}, span{2 * s, 3 * s}, 2 * s, 2 * s},
		{correction{}, span{-3 * s, -2 * s}, -2 * s, -2 * s},
		{correction{}, span{25 * 3600 * s, 25*3600*s + s}, 0, 25 * 3600 * s},
		{correction{offset: 2 * s, known: true}, span{s, 3 * s}, 2 * s, 0},
		{correction{offset: 2 * s, known: true}, span{4 * s, 5 * s}, 2 * s, 0}, // the first contradiction
		{doubted, span{4 * s, 6 * s}, 4 * s, 4 * s},
		{doubted, span{6 * s, 7 * s}, 2 * s, 0},
	} {
		next, to := c.was.hear(c.said)
		if next.offset != c.offset || to != c.to || !next.known {
			t.Errorf("%+v hears %v: %+v, asked for %v, want %v and %v", c.was, c.said, next, to, c.offset, c.to)
		}
	}
}
