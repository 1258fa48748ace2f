package envoylimit

import (
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// Config is the configuration of a service: the rules of every domain, as [ReadFolder] read them.
// It is immutable, and safe for concurrent use.
type Config struct {
	domains map[string]*node
	files   []file // the source
}

// node is a descriptor of the configuration, with its nested descriptors. The root of a domain's
// descriptors is the domain.
type node struct {
	values    map[entry]*node // by key and value; the value is empty for a key alone
	wildcards []wildcard      // in the order of the file
	rule      *rule           // nil: no limit
	shares    string          // replaces the value in the name of a bucket; empty: nothing does
	file      string          // for messages
	line      int
}

// entry is a key and a value, of a request or of the configuration.
type entry struct{ key, value string }

// wildcard is a value that ends in *.
type wildcard struct {
	key, prefix string
	node        *node
}

// rule is a rate limit of the configuration.
type rule struct {
	path      string // for metrics: the domain, keys and values as in the file
	name      string
	replaces  []string
	unlimited bool
	shadow    bool
	class     string                                 // class of the requests; they leave its floor in a stored limit
	limit     limiter.Limit                          // zero if unlimited
	said      *ratelimit.RateLimitResponse_RateLimit // the limit in answers
}

// LimitName is the name of the limit that hits are taken from, also in stored limits.
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

// find returns the rule for a descriptor, or nil. It follows the entries from the top, and returns
// the rule of the last one: a descriptor with more or fewer entries does not match. Of the nodes
// for an entry it takes the same key and value first, then the first wildcard, then the key alone.
// It also returns the entries that name the bucket.
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
