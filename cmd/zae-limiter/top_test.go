package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Between two looks, 10 s apart, "a" has used 100 of the 600 that two buckets refill of rpm in that time, and a
// third of a quota; "b" was denied 50 times and has used nothing; the bucket of "c" is new.
func TestTopOfTwoLooks(t *testing.T) {
	rpm, spend := limiter.PerMinute("rpm", 1800), limiter.Quota("spend", 90, limiter.Monthly(1, "UTC"))
	look := func(used, left, denied, entities int64) map[admin.Scope]watchedBucket {
		out := map[admin.Scope]watchedBucket{}
		for _, resource := range []string{"gpt-4", "gpt-5"} {
			out[admin.Scope{Entity: "a", Resource: resource}] = watchedBucket{admin.Bucket{Levels: []admin.Level{
				{Limit: rpm, Used: used, Remaining: 1800}, {Limit: spend, Used: 90 - left, Remaining: left}}}, "a"}
		}
		out[admin.Scope{Entity: "b"}] = watchedBucket{admin.Bucket{Denied: denied, Levels: []admin.Level{
			{Limit: rpm, Used: 9}}}, "b"}
		if entities > 2 {
			out[admin.Scope{Entity: "c"}] = watchedBucket{admin.Bucket{Denied: 1, Levels: []admin.Level{
				{Limit: rpm, Used: 30}}}, "c"}
		}
		return out
	}
	got := topOf(look(7, 60, 4, 2), look(57, 60, 54, 3), 10*time.Second)
	want := []consumer{
		{"a", "spend", 0, 100 * (1 - 120./180), 0},
		{"b", "rpm", 0, 0, 5},
		{"c", "rpm", 3, 10, .1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	quotaWhole := topOf(look(7, 90, 4, 2), look(57, 90, 4, 2), 10*time.Second)
	if c := quotaWhole[0]; c.Limit != "rpm" || c.UsedPerSecond != 10 || c.UsedPercent != 100*10/60. {
		t.Errorf("%+v", c)
	}
	again := topOf(look(57, 60, 54, 2), look(7, 60, 4, 2), time.Second)
	if again[0].UsedPerSecond < 0 || again[1].DeniedPerSecond != 0 {
		t.Errorf("buckets that have begun anew: %+v", again)
	}
}

// What is printed is readable in 80 columns, whatever others call themselves.
func TestTopFits80Columns(t *testing.T) {
	all := []consumer{{strings.Repeat("é\x1b[2J", 30), strings.Repeat("l", 64), 123456.7, 99.9, 1e5},
		{"b", "rpm", 0, 0, 0}}
	text := topAnswer(all, 10).text
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 || strings.Contains(line, "\x1b") {
			t.Errorf("%d letters: %q", n, line)
		}
	}
	check.Equal(t, strings.Count(text, "\n"), 6, "%s", text)
}

// Rounds are printed until there were as many as asked for; JSON is one round.
func TestTopCommand(t *testing.T) {
	s := newShell(t)
	l := s.table.Limiter(nil)
	req := limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 1},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 3)}}
	for range 5 {
		_, _ = l.Acquire(t.Context(), req)
	}
	out, _ := s.run(0, "top", "--every", "1ms", "--rounds", "2")
	if strings.Count(out, "USED MOST") != 2 || strings.Count(out, "DENIED/S") != 4 {
		t.Errorf("%s", out)
	}
	for _, by := range []string{"entity", "resource", "namespace"} {
		if got := prints[top](s, "top --every 1ms --rounds 1 --by "+by); got.Used == nil || got.Denied == nil {
			t.Errorf("%+v", got)
		}
	}
}

// Ctrl-C is how top ends, without an error.
func TestTopEndsByItsInterrupt(t *testing.T) {
	s := newShell(t)
	ctx, stop := context.WithCancel(t.Context())
	var errs strings.Builder
	a := &app{out: &firstWrite{do: func(string) { stop() }}, errs: &errs, memory: s.memory}
	code := a.run(ctx, []string{"top", "--every", "1ms"})
	check.Equal(t, code, done, "ended in")
	check.Equal(t, errs.String(), "", "it complained")
}
