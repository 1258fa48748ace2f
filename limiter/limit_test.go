package limiter

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

func TestLimitConstructors(t *testing.T) {
	for _, c := range []struct {
		got  Limit
		want Limit
		text string
	}{
		{PerSecond("a", 5), Limit{Name: "a", Capacity: 5, Refill: 5, Period: time.Second}, "a: 5 per 1s, capacity 5"},
		{PerMinute("b", 5), Limit{Name: "b", Capacity: 5, Refill: 5, Period: time.Minute}, "b: 5 per 1m0s, capacity 5"},
		{PerHour("c", 5), Limit{Name: "c", Capacity: 5, Refill: 5, Period: time.Hour}, "c: 5 per 1h0m0s, capacity 5"},
		{PerDay("d", 5), Limit{Name: "d", Capacity: 5, Refill: 5, Period: 24 * time.Hour}, "d: 5 per 24h0m0s, capacity 5"},
		{PerDay("e", 5).WithCapacity(50), lim("e", 50, 5, 24*time.Hour), "e: 5 per 24h0m0s, capacity 50"},
		{Blocked("f"), lim("f", 1, 1, blockedPeriod), "f: blocked"},
		{Unlimited("g"), PerSecond("g", MaxTokens), "g: unlimited"},
		{Quota("h", 5, Daily("")), Limit{Name: "h", Capacity: 5, Reset: Daily("")}, "h: 5 each " + Daily("").String()},
		{Quota("spend.day", USD(500), Daily("")), Limit{Name: "spend.day", Capacity: 500_000_000, Reset: Daily("")},
			"spend.day: $500 each " + Daily("").String()},
		{PerSecond("i", 5).AsSoft(), Limit{Name: "i", Capacity: 5, Refill: 5, Period: time.Second, Soft: true},
			"i: 5 per 1s, capacity 5, soft"},
		{PerSecond("j", 5).WithFloor("batch", 40).WithAhead(time.Second), Limit{Name: "j", Capacity: 5, Refill: 5,
			Period: time.Second, Floors: "batch=40", Ahead: time.Second}, "j: 5 per 1s, capacity 5, floors batch=40, ahead 1s"},
	} {
		if c.got != c.want || c.got.String() != c.text {
			t.Errorf("%v, want %v", c.got, c.want)
		}
		if public(c.got.stored()) != c.got {
			t.Errorf("%v comes back as %v", c.got, public(c.got.stored()))
		}
	}
}

// Floors are in order of the names of their classes, however they were given, and the last one of a
// class counts.
func TestFloorsAreInOrder(t *testing.T) {
	for _, classes := range [][]string{{"a", "a-b", "a.b", "b"}, {"b", "a.b", "a-b", "a"}, {"a-b", "b", "a", "a.b"}} {
		l := PerMinute("rpm", 5).WithFloor("a-b", 99)
		for _, c := range classes {
			l = l.WithFloor(c, 10*len(c))
		}
		if want := "a=10,a-b=30,a.b=30,b=10"; l.Floors != want {
			t.Errorf("%q: %q, want %q", classes, l.Floors, want)
		}
	}
}

func TestPolicyNames(t *testing.T) {
	for p, want := range map[Policy]string{PolicyDefault: "default", PolicyBlock: "block", PolicyAllow: "allow",
		PolicyLocal: "local", 7: "Policy(7)"} {
		if p.String() != want {
			t.Errorf("%q, want %q", p.String(), want)
		}
	}
}

// The number is spelled out for users; what is stored has the same.
func TestMaxLimitsEqualsTheStoredBound(t *testing.T) {
	if MaxLimits != bucket.MaxLimits {
		t.Errorf("MaxLimits is %d, a bucket has %d", MaxLimits, bucket.MaxLimits)
	}
}

// lim is a rate.
func lim(name string, capacity, refill int64, period time.Duration) Limit {
	return Limit{Name: name, Capacity: capacity, Refill: refill, Period: period}
}

// What the numbers of a limit may be, up to the last one. Who is refused is told what is accepted.
func TestBoundsOfLimits(t *testing.T) {
	const decade = 10 * 366 * 24 * time.Hour
	accepted := map[string]string{
		"Capacity": "1 to 1000000000000000 tokens", "Refill": "1 to 1000000000000000 tokens",
		"Period": "a whole number of seconds from 1s to 87840h0m0s",
		"Ahead":  "10ms to 10m, for a rate that is not soft; or zero",
		"Floors": "8 classes at most, by name, with 0 to 99 percent",
	}
	name64 := strings.Repeat("n", 64)
	for _, c := range []struct {
		limit Limit
		bad   string // the field that is told; empty: none
	}{
		{lim("a", 1, 1, time.Second), ""}, {lim(name64, MaxTokens, MaxTokens, decade), ""},
		{lim("Z9_.-", 1, 1, time.Minute), ""},
		{lim("a", 0, 1, time.Second), "Capacity"}, {lim("a", MaxTokens+1, 1, time.Second), "Capacity"},
		{lim("a", 1, 0, time.Second), "Refill"}, {lim("a", 1, MaxTokens+1, time.Second), "Refill"},
		{lim("a", 1, 1, 0), "Period"}, {lim("a", 1, 1, time.Second-1), "Period"}, {lim("a", 1, 1, time.Second+1), "Period"},
		{lim("a", 1, 1, decade+time.Second), "Period"},
		{lim("", 1, 1, time.Second), "Name"}, {lim(name64+"n", 1, 1, time.Second), "Name"},
		{lim("9", 1, 1, time.Second), "Name"},
		{lim("@", 1, 1, time.Second), "Name"}, {lim("[", 1, 1, time.Second), "Name"}, {lim("`", 1, 1, time.Second), "Name"},
		{lim("{", 1, 1, time.Second), "Name"}, {lim("a/", 1, 1, time.Second), "Name"},
		{lim("a:", 1, 1, time.Second), "Name"},
		{lim("wcu", 1, 1, time.Second), "Name"}, {lim("a0", 1, 1, time.Second), ""}, {lim("z", 1, 1, time.Second), ""},
		{lim("A", 1, 1, time.Second), ""},
		{PerMinute("a", 1).WithAhead(10 * time.Millisecond), ""}, {PerMinute("a", 1).WithAhead(10 * time.Minute), ""},
		{PerMinute("a", 1).WithAhead(9 * time.Millisecond), "Ahead"}, {PerMinute("a", 1).WithAhead(-time.Second), "Ahead"},
		{PerMinute("a", 1).WithAhead(10*time.Minute + time.Millisecond), "Ahead"},
		{PerMinute("a", 1).WithAhead(20*time.Millisecond + 1), "Ahead"},
		{PerMinute("a", 1).AsSoft().WithAhead(time.Second), "Ahead"},
		{Quota("a", 1, Daily("")).WithAhead(time.Second), "Ahead"},
		{InFlight("a", 1, time.Minute).WithAhead(time.Second), "Ahead"}, {PerMinute("a", 1).WithFloor("b", 99), ""},
		{PerMinute("a", 1).WithFloor("b", 100), "Floors"}, {PerMinute("a", 1).WithFloor("b", -1), "Floors"},
	} {
		err := c.limit.Validate()
		if c.bad == "" && err != nil || c.bad != "" && (!errors.Is(err, ErrInvalid) ||
			!strings.Contains(err.Error(), c.bad) || !strings.Contains(err.Error(), accepted[c.bad])) {
			t.Errorf("%+v: %v, want its %q to be told, and %q", c.limit, err, c.bad, accepted[c.bad])
		}
	}
}
