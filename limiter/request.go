package limiter

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// Costs are how many tokens a request takes from each limit, by limit name.
type Costs map[string]int64

// Policy decides what a caller gets if there is no decision, because DynamoDB could not be reached,
// did not answer, or kept throttling the call. It does not apply to anything that DynamoDB has
// answered, such as [ErrUnreadable].
type Policy int

const (
	// PolicyDefault defers to the next level: from the call to the stored system configuration,
	// then to Options, then to PolicyBlock.
	PolicyDefault Policy = iota
	// PolicyBlock returns the error (fail closed).
	PolicyBlock
	// PolicyAllow returns a lease that has taken nothing (fail open); see Lease.Charged.
	PolicyAllow
	// PolicyLocal grants from buckets in this process. They start full and hold Options.LocalShare
	// percent of each limit, but at least one token; parents have them too. Costs that they do not
	// cover are denied, with a *LimitError that also wraps the error of the missing decision. So
	// while no process reaches the table, ten processes with shares of 10 percent together grant
	// the limit. The table is never charged for these grants.
	//
	// A process keeps up to Options.MaxBuckets of them, and forgets only full ones, so none comes
	// back fuller than it was. If there is no room, other buckets are denied. They start full each
	// time a process starts.
	//
	// It needs limits: the call's own, or stored ones that this process has read at some time.
	// Without limits, for a cost above its share, and for slots, it acts as PolicyBlock. It cannot
	// be stored, because other clients do not know it. A stored policy overrides Options, so if
	// there is one, ask for PolicyLocal in the Request.
	PolicyLocal
)

// policies lists the accepted policies, for messages.
const policies = "PolicyDefault, PolicyBlock, PolicyAllow or PolicyLocal"

// String returns the policy in one lower-case word, the stored form if it can be stored.
func (p Policy) String() string {
	switch word, ok := validate.PolicyWord(p); {
	case p == PolicyDefault:
		return "default"
	case ok:
		return word
	case p == PolicyLocal:
		return "local"
	}
	return fmt.Sprintf("Policy(%d)", int(p))
}

// Request is one attempt to take tokens.
type Request struct {
	// Entity is the caller that is limited: an API key, a tenant.
	Entity string
	// Resource is the thing that it uses: a model, an endpoint.
	Resource string
	// Costs are the tokens to take, 0 to MaxTokens each. Every name must be one of the limits in
	// force. A limit in force without a cost here costs zero, but still denies while it is in debt.
	Costs Costs
	// Class is the priority of the request: the name of a class for which limits have floors, see
	// [Limit.WithFloor]. A request without a class leaves nothing to others. Your code decides the
	// class; do not take it from your clients.
	Class string
	// Limits, if not nil, are in force for this call instead of the stored configuration with its
	// raises, and are written into the bucket. If another process then sends different limits, as
	// two releases do during a rollout, this process uses those for a minute, as long as they have
	// room for the costs.
	Limits []Limit
	// OnUnavailable overrides the stored policy.
	OnUnavailable Policy
	// Also lists what the request takes from other entities or resources in the same decision: from
	// a user and from a global limit, from a tenant and from an address, from two models. All of it
	// is taken, or nothing. At most 15 parts; no bucket may be charged twice, neither as a part nor
	// as a parent that a part cascades to. Class and OnUnavailable apply to all parts.
	Also []Part
}

// Part is what a request takes from one more entity and resource, see [Request.Also]. [Request]
// describes the fields.
type Part struct {
	Entity, Resource string
	Costs            Costs
	Limits           []Limit
}

// also returns the part in Also that names n, nil if there is none.
func (r Request) also(n decide.Name) *Part {
	for i := range r.Also {
		if r.Also[i].name() == n {
			return &r.Also[i]
		}
	}
	return nil
}

// maxParts is how many parts a request has at most.
const maxParts = 16

func (r Request) name() decide.Name { return decide.Name{Entity: r.Entity, Resource: r.Resource} }

func (p Part) name() decide.Name { return decide.Name{Entity: p.Entity, Resource: p.Resource} }

// validate checks everything that can be checked without configuration, except for each limit; see
// portion.
func (r Request) validate() error {
	if err := validate.Entity("Entity", r.Entity); err != nil {
		return err
	}
	if err := validate.Resource("Resource", r.Resource); err != nil {
		return err
	}
	if len(r.Costs) == 0 {
		return validate.Invalid("Costs", validate.Plain("empty"), "at least one limit name with its cost")
	}
	for name, n := range r.Costs {
		if err := validate.LimitName("Costs key", name); err != nil {
			return err
		}
		if n < 0 || n > MaxTokens {
			return validate.Invalid(fmt.Sprintf("Costs[%q]", name), n, fmt.Sprintf("0 to %d tokens", int64(MaxTokens)))
		}
	}
	if r.OnUnavailable < PolicyDefault || r.OnUnavailable > PolicyLocal {
		return validate.Invalid("OnUnavailable", int(r.OnUnavailable), policies)
	}
	if r.Limits != nil && len(r.Limits) == 0 {
		return validate.Invalid("Limits", validate.Plain("empty"),
			"nil for the stored configuration, or at least one limit")
	}
	if r.Class != "" && !bucket.IsClass(r.Class) {
		return validate.Invalid("Class", r.Class, "empty, or 1 to 32 letters, digits, '_', '.' or '-'")
	}
	return nil
}

// Hashed returns a name for an entity that is identified by a secret, such as an API key. The
// secret itself is never stored. The name is "sha256:" and the first 128 bits of the secret's
// SHA-256 in hexadecimal: 39 bytes that every client accepts. Use it for secrets that nobody can
// guess: short ones can be found by trial.
func Hashed(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return "sha256:" + hex.EncodeToString(sum[:16])
}

func isSlots(c table.Cost) bool { return c.Limit.Returns() }

func hasLimit(limits []bucket.Limit, name string) bool {
	return slices.ContainsFunc(limits, func(l bucket.Limit) bool { return l.Name == name })
}
