package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
)

// story is the content of the page and of the picture about a run. Instants are seconds since the
// start, amounts are tokens.
type story struct {
	Date      string // when it began
	About     string // the workload
	Planned   int    // requests of it
	LeftOut   int    // of these, left out because the machine was too slow
	Why       []string
	Rush      float64 // requests came at full rate until then
	Seconds   float64 // duration of the run
	Tenants   []grants
	Hot       []sum // requests for the hot bucket
	Shards    []step
	Incidents []incident
}

// Sent is how many requests of the workload were sent.
func (s story) Sent() int { return s.Planned - s.LeftOut }

// grants is how much one limit of one tenant admitted, and its allowance.
type grants struct {
	Entity, Resource, Limit string
	Admitted, Allowed       float64
}

// Tenant names the tenant, and Percent is the admitted part of its allowance.
func (g grants) Tenant() string   { return g.Entity + " on " + g.Resource }
func (g grants) Percent() float64 { return 100 * g.Admitted / max(g.Allowed, 1) }

// step is the hot bucket's number of shards from an instant on.
type step struct {
	At     float64
	Shards int
}

// incident is an injected fault.
type incident struct {
	At   float64
	What string // its kind
}

// faults are the incidents of one kind.
type faults struct {
	What string
	At   []float64
}

// byKind groups the incidents until an instant, in the order of each kind's first incident.
func byKind(all []incident, until float64) (out []faults) {
	for _, in := range all {
		if in.At > until {
			continue
		}
		i := slices.IndexFunc(out, func(f faults) bool { return f.What == in.What })
		if i < 0 {
			i, out = len(out), append(out, faults{What: in.What})
		}
		out[i].At = append(out[i].At, in.At)
	}
	return out
}

// story makes the story of the run.
func (d *demo) story(why []string) story {
	begin := d.begin.UnixMilli()
	hot := loadcheck.Account{Entity: hotEntity, Resource: hotResource, Limit: hotLimit}
	return story{
		Date: d.begin.UTC().Format("2006-01-02 15:04 UTC"), About: d.about, Why: why,
		Planned: d.result.planned, LeftOut: d.result.leftOut, Rush: since(begin, d.calmed), Seconds: since(begin, now()),
		Tenants: grantsOf(d.book, d.calmed, d.busied),
		Hot:     sumsOf(d.book.Page(hot), d.book.Asked(hot), begin, now()),
		Shards:  d.rig.watcher.hot().steps, Incidents: d.rig.trouble.seen(),
	}
}

// since returns the time from begin to an instant, both in epoch ms, in seconds.
func since(begin, at int64) float64 { return max(0, float64(at-begin)/1000) }

// grantsOf returns how much every limit admitted, tenant by tenant, and how much it allowed from
// its first request until the last answer in that phase. Phases end at the given instants, epoch ms.
func grantsOf(l *clients.Book, phases ...int64) []grants {
	var out []grants
	for _, a := range l.Accounts() {
		p := l.Page(a)
		if len(p.Seen) == 0 || len(p.Events) == 0 {
			continue
		}
		first := slices.MinFunc(p.Events, func(a, b loadcheck.Event) int { return cmp.Compare(a.Sent, b.Sent) }).Sent
		end, last := int64(math.MaxInt64), int64(0)
		if i := slices.IndexFunc(phases, func(at int64) bool { return at >= first }); i >= 0 {
			end = phases[i]
		}
		for _, e := range p.Events {
			if e.Answered <= end {
				last = max(last, e.Answered)
			}
		}
		s := sumAt(p, first, last)
		out = append(out, grants{a.Entity, a.Resource, a.Limit, s.Admitted, s.Allowed})
	}
	return out
}
