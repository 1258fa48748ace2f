package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
)

// story is the content of the page about a run. Instants are seconds since its begin, amounts are
// tokens.
type story struct {
	Date      string // when it began
	About     string // the workload
	Planned   int    // requests of it
	LeftOut   int    // of these, because the machine was too slow
	Why       []string
	Rush      float64 // until then requests came at full rate
	Seconds   float64 // it took
	Counts    []figure
	Tenants   []grants
	Worst     worst
	Hot       []sum // requests for the hot bucket
	Shards    []step
	Life      []figure
	Incidents []incident
	Costs     []figure
	Busy      busy
	Calls     []calls
}

// figure is a number with its name.
type figure struct{ What, Value string }

// grants is how much one limit of one tenant admitted, and its allowance.
type grants struct {
	Entity, Resource, Limit string
	Admitted, Allowed       float64
}

// worst is the limit that came nearest to too much.
type worst struct {
	Entity, Resource, Limit string
	Excess                  float64 // admitted beyond the limit, in the worst of all windows
	Capacity                float64
	Levels                  []point // of all shards together
}

type point struct{ At, Value float64 }

// step is how many shards the hot bucket has from an instant on.
type step struct {
	At            float64
	Shards, Count int
}

// incident is a fault that was injected.
type incident struct {
	At      float64
	What    string // its kind
	Times   int    // at once
	Records int    // of the batch that it happened to; 0: it happened to none
}

type faults struct {
	What           string
	Times, Records int
	At             []float64 // when they came, several may have come at once
}

// byKind groups the incidents until an instant, in the order of each kind's first.
func byKind(all []incident, until float64) (out []faults) {
	for _, in := range all {
		if in.At > until {
			continue
		}
		i := slices.IndexFunc(out, func(f faults) bool { return f.What == in.What })
		if i < 0 {
			i, out = len(out), append(out, faults{What: in.What})
		}
		out[i].Times += in.Times
		out[i].Records += in.Records
		out[i].At = append(out[i].At, in.At)
	}
	return out
}

// calls is how often an operation of the table was called.
type calls struct {
	Operation          string
	Clients, Functions int
}

// story makes the story of the run.
func (d *demo) story(why []string) story {
	r, begin := d.result, d.begin.UnixMilli()
	since := func(ms int64) float64 { return max(0, float64(ms-begin)/1000) }
	rule, _ := d.book.rule(r.worst.Account)
	out := story{
		Date: d.begin.UTC().Format("2006-01-02 15:04 UTC"), About: d.about, Why: why,
		Planned: r.planned, LeftOut: r.leftOut,
		Rush: since(d.calmed), Seconds: since(now()),
		Tenants: d.book.grants(d.calmed, d.busied),
		Worst: worst{
			Entity: r.worst.Entity, Resource: r.worst.Resource, Limit: r.worst.Limit,
			Excess: float64(r.worst.Excess) / bucket.Milli, Capacity: float64(rule.Capacity),
		},
		Busy:  r.busy,
		Calls: callsOf(d.rig.clients.Usage(), d.rig.Proxy.Usage()),
	}
	for _, m := range d.rig.watcher.history(r.worst.Entity, r.worst.Resource) {
		out.Worst.Levels = append(out.Worst.Levels, point{since(m.at), float64(m.levels[r.worst.Limit]) / bucket.Milli})
	}
	for _, m := range d.rig.watcher.history(hotEntity, hotResource) {
		out.Shards = append(out.Shards, step{since(m.at), m.shards, m.count})
	}
	out.Hot = d.book.sums(loadcheck.Account{Entity: hotEntity, Resource: hotResource, Limit: hotLimit}, begin, now())
	for _, i := range d.rig.trouble.seen() {
		out.Incidents = append(out.Incidents, incident{since(i.at), i.kind, i.times, i.records})
	}
	c := r.counts
	out.Counts = []figure{
		{"acquired", fmt.Sprint(c.acquired)}, {"denied", fmt.Sprint(c.denied)}, {"unavailable", fmt.Sprint(c.unavailable)},
		{"unknown", fmt.Sprint(c.unknown)}, {"adjusted", fmt.Sprint(c.adjusted)}, {"rolled back", fmt.Sprint(c.rolledBack)},
	}
	out.Life = []figure{
		{"most shards", fmt.Sprint(r.hot.most)}, {"splits", fmt.Sprint(r.hot.splits)}, {"merges", fmt.Sprint(r.hot.merges)},
		{"at the end", fmt.Sprint(r.hot.end)},
	}
	out.Costs = []figure{
		{"write units of a warm acquire", fmt.Sprintf("%.2f", r.warm.writes)},
		{"read units of a warm acquire", fmt.Sprintf("%.2f", r.warm.reads)},
		{"writes of the aggregator per 1,000 records", fmt.Sprintf("%.0f", r.writesPer)},
	}
	return out
}

// callsOf sets the calls of the clients and of the functions side by side.
func callsOf(clients, functions map[string]fault.Usage) []calls {
	names := maps.Clone(clients)
	maps.Copy(names, functions)
	var out []calls
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, calls{name, clients[name].Calls, functions[name].Calls})
	}
	return out
}

// grants returns how much every limit admitted, tenant by tenant, and how much it allowed from its
// first request until the end of the phase of this request: its capacity, the refill meanwhile, and
// the give-backs. A phase ends at each of the instants, epoch ms.
func (l *book) grants(phases ...int64) []grants {
	var out []grants
	for _, a := range l.Accounts() {
		rule, ok := l.rule(a)
		events := l.Page(a).Events
		if !ok || len(events) == 0 {
			continue
		}
		first := slices.MinFunc(events, func(a, b loadcheck.Event) int { return cmp.Compare(a.Sent, b.Sent) }).Sent
		end := int64(math.MaxInt64)
		if i := slices.IndexFunc(phases, func(at int64) bool { return at >= first }); i >= 0 {
			end = phases[i]
		}
		var taken, back, last int64
		for _, e := range events {
			if e.Sent > end {
				continue
			}
			last = max(last, e.Answered)
			if e.Kind == loadcheck.Return {
				back += e.Tokens
			} else {
				taken += e.Tokens
			}
		}
		refill := float64(rule.Amount) * float64(last-first) / float64(rule.Period)
		allowed := float64(rule.Capacity) + refill + float64(back)
		out = append(out, grants{a.Entity, a.Resource, a.Limit, float64(taken), allowed})
	}
	return out
}
