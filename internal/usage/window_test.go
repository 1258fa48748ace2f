package usage

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

func at(s string) int64 {
	t, err := time.Parse("2006-01-02T15:04:05.000Z", s)
	if err != nil {
		panic(err)
	}
	return t.UnixMilli()
}

func TestWindowStartAndPart(t *testing.T) {
	for _, c := range []struct {
		w           Window
		ms          int64
		start, part string
	}{
		{Hourly, 1_700_000_000_123, "2023-11-14T22:00:00.000Z", "2023-11-14T22:00:00Z"},
		{Daily, 1_700_000_000_123, "2023-11-14T00:00:00.000Z", "2023-11-14"},
		{Monthly, 1_700_000_000_123, "2023-11-01T00:00:00.000Z", "2023-11"},
		{Hourly, at("2024-01-01T00:00:00.000Z"), "2024-01-01T00:00:00.000Z", "2024-01-01T00:00:00Z"},
		{Hourly, at("2023-12-31T23:59:59.999Z"), "2023-12-31T23:00:00.000Z", "2023-12-31T23:00:00Z"},
		{Daily, at("2024-02-29T23:59:59.999Z"), "2024-02-29T00:00:00.000Z", "2024-02-29"},
		{Monthly, at("2024-02-29T23:59:59.999Z"), "2024-02-01T00:00:00.000Z", "2024-02"},
		{Hourly, at("1969-12-31T23:59:59.999Z"), "1969-12-31T23:00:00.000Z", "1969-12-31T23:00:00Z"},
		{Daily, at("1969-12-31T00:00:00.000Z"), "1969-12-31T00:00:00.000Z", "1969-12-31"},
		{Monthly, at("2024-03-01T00:00:00.000Z"), "2024-03-01T00:00:00.000Z", "2024-03"},
	} {
		if got := c.w.Start(c.ms); got != at(c.start) || c.w.Part(got) != c.part {
			t.Errorf("%s of %d: %d %s, want %s %s", c.w, c.ms, got, c.w.Part(got), c.start, c.part)
		}
	}
}

func TestParseWindow(t *testing.T) {
	for _, name := range []string{"hourly", "daily", "monthly"} {
		if w, err := ParseWindow(name); err != nil || string(w) != name {
			t.Errorf("%s: %v, %v", name, w, err)
		}
	}
	for _, name := range []string{"", "Hourly", "weekly", " daily"} {
		if w, err := ParseWindow(name); err == nil {
			t.Errorf("%q accepted as %v", name, w)
		}
	}
}

func TestWindowEnd(t *testing.T) {
	for _, c := range []struct {
		w          Window
		start, end string
	}{
		{Hourly, "2023-12-31T23:00:00.000Z", "2024-01-01T00:00:00.000Z"},
		{Daily, "2024-02-29T00:00:00.000Z", "2024-03-01T00:00:00.000Z"},
		{Monthly, "2024-02-01T00:00:00.000Z", "2024-03-01T00:00:00.000Z"},
		{Monthly, "2023-12-01T00:00:00.000Z", "2024-01-01T00:00:00.000Z"},
	} {
		if got := c.w.End(at(c.start)); got != at(c.end) || c.w.Start(got-1) != at(c.start) || c.w.Start(got) != got {
			t.Errorf("%s from %s ends at %d, want %s", c.w, c.start, got, c.end)
		}
	}
}

// A snapshot outlives its window, and the longer one around it, by the configured days. If it
// expired earlier, later counts in its window would start from zero.
func TestSnapshotOutlivesItsWindow(t *testing.T) {
	const day = 86_400
	for _, c := range []struct {
		w, until        Window
		created, now    string
		days, wantAfter int64  // seconds
		after           string // the start of the days
	}{
		{Hourly, Hourly, "2024-01-15T10:00:00.000Z", "2024-01-15T10:00:01.000Z", 1, day, "2024-01-15T11:00:00.000Z"},
		{Hourly, Daily, "2024-01-15T10:00:00.000Z", "2024-01-15T10:00:01.000Z", 1, day, "2024-01-16T00:00:00.000Z"},
		{Daily, Monthly, "2024-01-15T00:00:00.000Z", "2024-01-15T10:00:01.000Z", 1, day, "2024-02-01T00:00:00.000Z"},
		{Daily, Daily, "2024-01-15T00:00:00.000Z", "2024-01-15T00:00:01.000Z", 1, day, "2024-01-16T00:00:00.000Z"},
		{Monthly, Monthly, "2024-01-01T00:00:00.000Z", "2024-01-01T00:00:01.000Z", 7, 7 * day, "2024-02-01T00:00:00.000Z"},
		{Hourly, Hourly, "2024-01-15T10:00:00.000Z", "2024-01-16T09:00:00.000Z", 1, day, "2024-01-16T09:00:00.000Z"},
	} {
		start := c.w.Start(at(c.created))
		if got, want := Expiry(at(c.now), start, c.until, int(c.days)), at(c.after)/1000+c.wantAfter; got != want {
			t.Errorf("%s at %s: expires at %d, want %d", c.w, c.now, got, want)
		}
	}
}

// The shortest configured window is counted, and the others are sums, in whatever order they are
// configured.
func TestKindsOfWindowsByLength(t *testing.T) {
	for _, c := range []struct{ named, want []Window }{
		{[]Window{Monthly, Hourly}, []Window{Hourly, Monthly}}, {[]Window{Daily}, []Window{Daily}},
		{[]Window{Monthly, Daily, Hourly}, []Window{Hourly, Daily, Monthly}}, {nil, nil},
	} {
		check.Slices(t, Kinds(c.named), c.want, "%v", c.named)
	}
}
