package envoylimit

import (
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// Config is the configuration of a service: the rules of every domain, read by [ReadFolder]. It
// does not change, and is safe for concurrent use.
type Config struct {
	domains map[string]*node
	files   []file // that it was read from
}

// node is a descriptor of the configuration, with its nested ones. A domain is the node above its
// descriptors.
type node struct {
	values    map[entry]*node // by key and value, which is empty for a key alone
	wildcards []wildcard      // in the order in which they are written
	rule      *rule           // nil: no limit
	shares    string          // what stands for the value in the name of a bucket; empty: the value does
	file      string          // where it is written
	line      int
}

// entry is an entry of a descriptor, and a key with its value in the configuration.
type entry struct{ key, value string }

// wildcard is a value that ends in *.
type wildcard struct {
	key, prefix string
	node        *node
}

// rule is a rate limit of the configuration.
type rule struct {
	path      string // of metrics: the domain, and the keys and values as they are written
	name      string
	replaces  []string
	unlimited bool
	shadow    bool
	class     string                                 // of its requests, which leave the floor of it in a stored limit
	limit     limiter.Limit                          // zero if unlimited
	said      *ratelimit.RateLimitResponse_RateLimit // the limit as answers have it
}

// LimitName is the name of the limit that hits are taken from. Stored limits have this name too.
const LimitName = "requests"

// periods are the lengths of the units.
var periods = map[ratelimit.RateLimitResponse_RateLimit_Unit]time.Duration{
	ratelimit.RateLimitResponse_RateLimit_SECOND: time.Second,
	ratelimit.RateLimitResponse_RateLimit_MINUTE: time.Minute,
	ratelimit.RateLimitResponse_RateLimit_HOUR:   time.Hour,
	ratelimit.RateLimitResponse_RateLimit_DAY:    24 * time.Hour,
	ratelimit.RateLimitResponse_RateLimit_WEEK:   7 * 24 * time.Hour,
	ratelimit.RateLimitResponse_RateLimit_MONTH:  30 * 24 * time.Hour,
	ratelimit.RateLimitResponse_RateLimit_YEAR:   365 * 24 * time.Hour,
}

// set sets the limit of a rule: so many requests in a period. They can be taken at once, and come
// back evenly over the period. Zero requests block.
func (r *rule) set(requests uint32, unit ratelimit.RateLimitResponse_RateLimit_Unit, multiplier uint32) {
	r.said = &ratelimit.RateLimitResponse_RateLimit{Name: r.name, RequestsPerUnit: requests, Unit: unit}
	if multiplier != 1 {
		r.said.UnitMultiplier = wrapperspb.UInt32(multiplier)
	}
	r.limit = limiter.Limit{Name: LimitName, Capacity: int64(requests), Refill: int64(requests),
		Period: periods[unit] * time.Duration(multiplier)}
	if requests == 0 {
		r.limit = limiter.Blocked(LimitName)
	}
}

// find returns the rule for a descriptor, nil if there is none. Its entries are followed from the
// top, and the last one has the rule: a descriptor with more or fewer entries does not match. An
// entry matches the same key and value first, then the first wildcard, then the key alone. It
// returns the values that name the bucket, too.
func (n *node) find(entries []entry) (*rule, []entry) {
	named := make([]entry, len(entries))
	for i, e := range entries {
		if n = n.next(e); n == nil {
			return nil, nil
		}
		named[i] = e
		if n.shares != "" {
			named[i].value = n.shares
		}
	}
	return n.rule, named
}

func (n *node) next(e entry) *node {
	if next := n.values[e]; next != nil && e.value != "" {
		return next
	}
	for _, w := range n.wildcards {
		if w.key == e.key && strings.HasPrefix(e.value, w.prefix) {
			return w.node
		}
	}
	return n.values[entry{key: e.key}]
}
