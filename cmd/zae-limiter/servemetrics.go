package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/envoylimit"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// metrics counts what serve does, for Prometheus. It has no entity or resource: there may be millions. It is
// safe for concurrent use.
type metrics struct {
	mu      sync.Mutex
	counts  map[string]map[string]int64 // by name, then by labels as they are written
	seconds [len(bounds) + 1]int64      // acquires by how long they took; the last is longer than all bounds
	sum     time.Duration
}

// bounds are the upper bounds of the histogram.
var bounds = [...]time.Duration{100 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond,
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second}

// helps are the names of the counters, in the order in which they are written.
var helps = []struct{ name, help string }{
	{"zae_limiter_hits_total", "Hits by rule: within the limit, over it, over it in shadow mode, or without a decision."},
	{"zae_limiter_events_total", "What the limiter did, by kind and outcome."},
	{"zae_limiter_writes_total", "Writes to the table."},
	{"zae_limiter_rules_read_total", "Changed rules, by whether they are in force or were refused."},
}

func newMetrics() *metrics {
	m := &metrics{counts: map[string]map[string]int64{}}
	for _, h := range helps {
		m.counts[h.name] = map[string]int64{}
	}
	m.add("zae_limiter_writes_total", "", 0)
	return m
}

func (m *metrics) add(name, labels string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[name][labels] += n
}

// decision counts the hits of a descriptor.
func (m *metrics) decision(d envoylimit.Decision) {
	outcome := "within"
	switch {
	case d.Err != nil:
		outcome = "undecided"
	case d.Over && d.Shadow:
		outcome = "shadow"
	case d.Over:
		outcome = "over"
	}
	m.add("zae_limiter_hits_total", labels("rule", d.Rule, "outcome", outcome), d.Hits)
}

// event counts an event of the limiter. The service asks for stored limits first: that there are none is no
// event of its own.
func (m *metrics) event(e limiter.Event) {
	if errors.Is(e.Err, limiter.ErrNoLimits) {
		return
	}
	m.add("zae_limiter_events_total", labels("kind", e.Kind.String(), "outcome", e.Outcome()), 1)
	m.add("zae_limiter_writes_total", "", int64(e.Writes))
	if e.Kind == limiter.EventAcquire {
		m.took(e.Elapsed)
	}
}

func (m *metrics) took(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, _ := slices.BinarySearch(bounds[:], d)
	m.seconds[i]++
	m.sum += d
}

// config counts rules that have changed.
func (m *metrics) config(err error) {
	result := "in force"
	if err != nil {
		result = "refused"
	}
	m.add("zae_limiter_rules_read_total", labels("result", result), 1)
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labels returns names and values by turns as Prometheus writes them.
func labels(pairs ...string) string {
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, pairs[i]+`="`+escapeLabel.Replace(strings.ToValidUTF8(pairs[i+1], "?"))+`"`)
	}
	return "{" + strings.Join(out, ",") + "}"
}

// text returns all in the text format.
func (m *metrics) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, h := range helps {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s counter\n", h.name, h.help, h.name)
		for _, l := range slices.Sorted(maps.Keys(m.counts[h.name])) {
			fmt.Fprintf(&b, "%s%s %d\n", h.name, l, m.counts[h.name][l])
		}
	}
	const name = "zae_limiter_acquire_seconds"
	fmt.Fprintf(&b, "# HELP %s How long the limiter took to decide.\n# TYPE %s histogram\n", name, name)
	total := int64(0)
	for i, n := range m.seconds {
		total += n
		bound := "+Inf"
		if i < len(bounds) {
			bound = fmt.Sprint(bounds[i].Seconds())
		}
		fmt.Fprintf(&b, "%s_bucket{le=%q} %d\n", name, bound, total)
	}
	fmt.Fprintf(&b, "%s_sum %v\n%s_count %d\n", name, m.sum.Seconds(), name, total)
	return b.String()
}
