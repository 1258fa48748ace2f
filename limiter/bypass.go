package limiter

import "github.com/zeroae/zae-limiter-go/internal/decide"

// An entity may be bypassed on a resource: everything is granted, and nothing is taken or
// counted. The entities that it cascades to are charged all the same, unless they are
// bypassed themselves.

// besides puts the leases on the levels that were charged where they belong, beside those
// that are bypassed.
func (l *Limiter) besides(wants []decide.Want, charged []*Lease, cause error) *Lease {
	leases := make([]*Lease, len(wants))
	for i, w := range wants {
		if w.Bypass {
			leases[i] = &Lease{limiter: l, name: w.Name, cause: cause}
		} else {
			leases[i], charged = charged[0], charged[1:]
		}
	}
	leases[0].above = leases[1:]
	return leases[0]
}

func isBypassed(w decide.Want) bool { return w.Bypass }
