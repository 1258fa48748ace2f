package main

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// heard is what an answer of DynamoDB shows: that its clock is ahead by lo to hi, which are a
// second apart at least.
type heard struct{ lo, hi time.Duration }

func (h heard) by(c *clocks) {
	date := time.UnixMilli(1_700_000_000_000)
	c.hear(date.UTC().Format(http.TimeFormat), date.Add(time.Second-h.hi), date.Add(-h.lo))
}

// The seconds that DynamoDB's answers name narrow down how far its clock is ahead, until a clock
// is set: then it is as far ahead as it ever was.
func TestClocksApart(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		about string
		heard []heard
		want  time.Duration
	}{
		{"one answer", []heard{{700 * ms, 1800 * ms}}, 1800 * ms},
		{"a second that ends earlier", []heard{{700 * ms, 1800 * ms}, {-10 * ms, 1100 * ms}}, 1100 * ms},
		{"one that ends later", []heard{{-10 * ms, 1100 * ms}, {700 * ms, 1800 * ms}}, 1100 * ms},
		{"one that says no more", []heard{{100 * ms, 1100 * ms}, {0, 1200 * ms}, {-900 * ms, 101 * ms}}, 101 * ms},
		{"set back by a little", []heard{{100 * ms, 1100 * ms}, {0, 1200 * ms}, {-901 * ms, 99 * ms}}, 1100 * ms},
		{"seconds that touch", []heard{{0, 1000 * ms}, {1000 * ms, 2000 * ms}}, 1000 * ms},
		{"seconds that touch, backwards", []heard{{1000 * ms, 2000 * ms}, {0, 1000 * ms}}, 1000 * ms},
		{"set forward", []heard{{0, 1000 * ms}, {5000 * ms, 6000 * ms}, {4500 * ms, 5500 * ms}}, 5500 * ms},
		{"set forward by a little", []heard{{0, 1000 * ms}, {700 * ms, 1800 * ms}, {1001 * ms, 2001 * ms}}, 2001 * ms},
		{"set back", []heard{{5000 * ms, 6000 * ms}, {0, 1000 * ms}, {-500 * ms, 500 * ms}}, 6000 * ms},
		{"set back by some", []heard{{0, 1000 * ms}, {500 * ms, 1500 * ms}, {-600 * ms, 400 * ms}}, 1000 * ms},
		{"set back twice", []heard{{5000 * ms, 6000 * ms}, {2000 * ms, 3000 * ms}, {0, 1000 * ms}, {0, 1000 * ms}},
			6000 * ms},
		{"behind", []heard{{-3000 * ms, -2000 * ms}}, 0},
	} {
		one := newClocks(1)
		one.begin()
		for _, h := range c.heard {
			h.by(one)
		}
		if most, ok := one.apart(); !ok || most != c.want {
			t.Errorf("%s: %v, %v, want %v", c.about, most, ok, c.want)
		}
	}
}

// What limiters correct their clocks by counts from the first request on, all that they had.
func TestCorrectedClocksApart(t *testing.T) {
	const ms = time.Millisecond
	c := newClocks(2)
	if _, ok := c.apart(); ok {
		t.Error("nothing was heard, and it is known")
	}
	c.hear("yesterday", time.Now(), time.Now())
	if _, ok := c.apart(); ok {
		t.Error("a date that is none was heard")
	}
	c.corrected(0, -900*ms)
	limiters := &fleet{clocks: c}
	for i, by := range []time.Duration{300 * ms, 700 * ms} {
		limiters.observe(t.Context(), i, limiter.Event{Kind: limiter.EventClock, Clock: limiter.ClockInfo{After: by}})
	}
	limiters.observe(t.Context(), 0, limiter.Event{Kind: limiter.EventAcquire})
	c.begin()
	heard{100 * ms, 1100 * ms}.by(c)
	if most, _ := c.apart(); most != 800*ms {
		t.Errorf("corrected by 300 and 700 ms, 1100 ms ahead: %v, want 800ms", most)
	}
	for _, step := range []struct{ by, want time.Duration }{
		{1900 * ms, 1600 * ms}, {200 * ms, 1700 * ms}, {500 * ms, 1700 * ms},
	} {
		c.corrected(0, step.by)
		if most, ok := c.apart(); !ok || most != step.want {
			t.Errorf("corrected by %v: %v, %v, want %v", step.by, most, ok, step.want)
		}
	}
	behind := newClocks(1)
	behind.corrected(0, -time.Second)
	behind.begin()
	heard{-2 * time.Second, -time.Second}.by(behind)
	if most, ok := behind.apart(); !ok || most != 0 {
		t.Errorf("both behind by a second: %v, %v, want 0s", most, ok)
	}
	c.here = true
	heard{5000 * ms, 6000 * ms}.by(c)
	if most, ok := c.apart(); !ok || most != 1700*ms {
		t.Errorf("on one machine: %v, %v, want 1.7s", most, ok)
	}
}

// answers is an HTTP client that takes 300 ms.
type answers struct {
	header http.Header
	err    error
}

func (a answers) Do(*http.Request) (*http.Response, error) {
	time.Sleep(300 * time.Millisecond)
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{Header: a.header}, nil
}

// Only the date of an answer that DynamoDB has just made tells of its clock.
func TestOnlyFreshAnswersShowTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			about  string
			answer answers
			want   bool
		}{
			{"of DynamoDB", answers{header: http.Header{"X-Amzn-Requestid": {"1"}}}, true},
			{"of somebody between", answers{header: http.Header{}}, false},
			{"of a cache", answers{header: http.Header{"X-Amzn-Requestid": {"1"}, "Age": {"1"}}}, false},
			{"of a cache between", answers{header: http.Header{"Age": {"1"}}}, false},
			{"none", answers{err: errors.New("lost")}, false},
		} {
			clocks := newClocks(1)
			if c.answer.header != nil {
				c.answer.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
			}
			answer, err := listen{c.answer, clocks}.Do(nil)
			if !errors.Is(err, c.answer.err) || (answer == nil) != (err != nil) {
				t.Errorf("%s: %v, %v", c.about, answer, err)
			}
			if most, ok := clocks.apart(); ok != c.want || ok && most != time.Second {
				t.Errorf("%s: %v, %v", c.about, most, ok)
			}
			time.Sleep(700 * time.Millisecond) // to the next whole second
		}
	})
}
