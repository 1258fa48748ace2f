package decide

import (
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A denial writes nothing. What this process denies is counted here, and told to the table by the next write on
// any shard. Where all writes are refused, as once a quota is spent, a look tells it instead: that holds whatever
// the shard has. If what was denied has come back meanwhile, such a look is a write more. Slots come back at any
// time, so looks at them do not tell.

// tellAfter is how long, in ms, denials wait for a write that holds before a look tells them.
const tellAfter = 10_000

// denials are what this process has denied and not told.
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

// due reports whether a look is to tell the denials.
func (d denials) due(now Now) bool { return d.n > 0 && now.Mono-d.since >= tellAfter }

// tellsOnly reports whether a write is a look that only tells denials. It brings an image and nothing else, as a
// look that is refused.
func (p *Planned) tellsOnly() bool { return !p.Takes && !p.Charges && !p.Creates }

// tell has a write tell all denials, if it changes an item that is there.
func (k *facts) tell(p *Planned) {
	if u, ok := p.Write.(item.Update); ok && k.denials.n > 0 {
		p.Write, p.denials = table.Tell(u, k.denials.n), k.denials
		k.denials = denials{}
	}
}

// untold takes denials back that a write was to tell which does not hold. If nobody knows whether it does,
// they are lost: they must not be counted twice.
func (k *facts) untold(p *Planned, unknown bool) {
	if n := p.denials.n; n > 0 && !unknown {
		k.denials.n, k.denials.since = k.denials.n+n, p.denials.since
	}
	p.denials = denials{}
}
