package decide

import (
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A denial writes nothing. This process counts its denials here, and the next write on any shard adds them to the
// item. Where all writes are refused, as once a quota is spent, a look adds them instead: it holds whatever the
// shard has. If tokens have come back meanwhile, such a look is a write more. Slots come back at any time, so looks
// at them add nothing.

// reportAfter is how long, in ms, denials wait for a write that holds before a look adds them.
const reportAfter = 10_000

// denials are denials of this process that are not in an item yet.
type denials struct {
	n     int64
	since int64 // of the first of them, by Now.Mono
}

// Denied counts a denied request of the bucket.
func (b *Bucket) Denied(mono int64) {
	k := b.lock()
	defer b.mu.Unlock()
	if k.denials.n == 0 {
		k.denials.since = mono
	}
	k.denials.n++
}

// due reports whether a look adds the denials.
func (d denials) due(now Now) bool { return d.n > 0 && now.Mono-d.since >= reportAfter }

// onlyReports reports whether a write is a look that adds denials. Like a look that is refused, it brings an image
// and nothing else.
func (p *Planned) onlyReports() bool { return !p.Takes && !p.Charges && !p.Creates }

// reportDenials adds all denials to a write that changes an existing item.
func (k *facts) reportDenials(p *Planned) {
	if u, ok := p.Write.(item.Update); ok && k.denials.n > 0 {
		p.Write, p.denials = table.CountDenials(u, k.denials.n), k.denials
		k.denials = denials{}
	}
}

// restoreDenials takes back the denials of a write that does not hold. If its outcome is unknown they are lost: they
// must not be counted twice.
func (k *facts) restoreDenials(p *Planned, unknown bool) {
	if n := p.denials.n; n > 0 && !unknown {
		k.denials.n, k.denials.since = k.denials.n+n, p.denials.since
	}
	p.denials = denials{}
}
