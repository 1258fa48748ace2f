package envoylimit

import (
	"fmt"
	"slices"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// decision is what to do for one descriptor of a request. The zero decision grants it: no rule
// matches.
type decision struct {
	rule     *rule // nil: none matches
	entity   string
	resource string
	hits     int64 // 0: only look
	override bool  // the limit came with the request
}

// takes reports whether the decision needs the limiter.
func (d decision) takes() bool { return d.rule != nil && !d.rule.unlimited }

// decide returns a decision for each descriptor of a request, or an error if the request is
// invalid.
func (c *Config) decide(r *ratelimit.RateLimitRequest) ([]decision, error) {
	if r.GetDomain() == "" {
		return nil, fmt.Errorf("domain is empty, want the domain of a configuration")
	}
	if len(r.GetDescriptors()) == 0 {
		return nil, fmt.Errorf("descriptors are empty, want at least one")
	}
	out := make([]decision, len(r.GetDescriptors()))
	top := c.domains[r.GetDomain()]
	for i, d := range r.GetDescriptors() {
		if d.GetIsNegativeHits() {
			return nil, fmt.Errorf("descriptors[%d].is_negative_hits is true: nothing can be given back", i)
		}
		if top == nil || len(d.GetEntries()) == 0 {
			continue
		}
		var err error
		if out[i], err = top.decide(r.GetDomain(), d); err != nil {
			return nil, fmt.Errorf("descriptors[%d].%w", i, err)
		}
		out[i].hits = hits(r, d)
	}
	replace(out)
	return out, nil
}

func (n *node) decide(domain string, d *common.RateLimitDescriptor) (out decision, err error) {
	entries := make([]entry, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		entries[i] = entry{e.GetKey(), e.GetValue()}
	}
	if limit := d.GetLimit(); limit != nil {
		if out.rule, err = overridden(domain, limit); err != nil {
			return out, err
		}
		out.override = true
	} else if out.rule, entries = n.find(entries); !out.takes() {
		return out, nil
	}
	out.entity, out.resource = bucketOf(domain, entries)
	return out, nil
}

// overridden returns the rule of a descriptor that brings its own limit.
func overridden(domain string, limit *common.RateLimitDescriptor_RateLimitOverride) (*rule, error) {
	unit := ratelimit.RateLimitResponse_RateLimit_Unit(limit.GetUnit())
	period, ok := periods[unit]
	if !ok {
		return nil, fmt.Errorf("limit.unit is %v, want SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", limit.GetUnit())
	}
	multiplier, most := uint32(1), uint32(longest/period)
	if m := limit.GetUnitMultiplier(); m != nil {
		if multiplier = m.GetValue(); multiplier < 1 || multiplier > most {
			return nil, fmt.Errorf("limit.unit_multiplier is %d, want 1 to %d", multiplier, most)
		}
	}
	r := &rule{path: domain + "|override"}
	r.set(limit.GetRequestsPerUnit(), unit, multiplier)
	return r, nil
}

// hits returns how many hits a descriptor takes. In the protocol, a request with zero hits looks like
// one without the field, so both take one hit. A descriptor with zero hits takes none.
func hits(r *ratelimit.RateLimitRequest, d *common.RateLimitDescriptor) int64 {
	if h := d.GetHitsAddend(); h != nil {
		return int64(min(h.GetValue(), limiter.MaxTokens))
	}
	return max(1, int64(r.GetHitsAddend()))
}

// replace removes the decisions whose rule is replaced by another rule of the request.
func replace(all []decision) {
	var names []string
	for _, d := range all {
		if d.rule != nil {
			names = append(names, d.rule.replaces...)
		}
	}
	for i, d := range all {
		if d.rule != nil && slices.Contains(names, d.rule.name) {
			all[i] = decision{}
		}
	}
}
