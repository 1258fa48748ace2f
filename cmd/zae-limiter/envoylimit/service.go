package envoylimit

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// Acquirer takes tokens; *limiter.Limiter is one.
type Acquirer interface {
	Acquire(context.Context, limiter.Request) (*limiter.Lease, error)
}

// Service answers Envoy's rate limit service v3. It is safe for concurrent use. Make it with [New],
// and serve it with [Service.Register].
type Service struct {
	ratelimit.UnimplementedRateLimitServiceServer
	limiter  Acquirer
	config   atomic.Pointer[Config]
	decided  func(context.Context, Decision)
	unstored *lru.Cache[bucket, time.Time] // buckets without stored limits, with the time until which that holds
}

type bucket struct{ entity, resource string }

// The service remembers that a bucket has no stored limit, for so many buckets and so long: a read
// takes longer than a grant from prefetched tokens.
const (
	maxUnstored = 10_000
	unstoredFor = 10 * time.Second
)

// Options are the settings of a service. The zero value of each is its default.
type Options struct {
	// Decided is called after every decision of the limiter, for logs and metrics: an answer to
	// Envoy does not say why a decision failed. It must be quick. It may be nil.
	Decided func(context.Context, Decision)
}

// Decision is the result for one descriptor.
type Decision struct {
	// Rule is the rule as the configuration has it, "edge|path=/api/*|user", so their number is
	// bounded. For a limit that came with the request it is "edge|override".
	Rule             string
	Entity, Resource string
	Hits             int64 // 0: only a look
	Over             bool  // also in shadow mode
	Shadow           bool
	Err              error // why there was no decision; nil: there was one
}

// New returns a service that takes tokens from a limiter by a configuration. It panics if one of
// them is nil.
func New(l Acquirer, c *Config, o Options) *Service {
	if l == nil || c == nil {
		panic("bug: envoylimit needs a limiter and a configuration")
	}
	unstored, err := lru.New[bucket, time.Time](maxUnstored)
	if err != nil {
		panic("bug: " + err.Error()) // the size is a constant
	}
	s := &Service{limiter: l, decided: o.Decided, unstored: unstored}
	s.config.Store(c)
	return s
}

// SetConfig makes the service use another configuration. Requests in flight keep theirs.
func (s *Service) SetConfig(c *Config) { s.config.Store(c) }

// inParallel is how many descriptors of one request are decided at once.
const inParallel = 16

// ShouldRateLimit decides about a request. Descriptors are charged separately and in parallel: a
// denied one takes nothing, and the others keep the hits that they took. The request is OVER_LIMIT
// if one descriptor is.
//
// A descriptor without a matching rule is OK, and so is every descriptor of an unknown domain. An
// empty domain, no descriptors, negative hits and an override without a unit are INVALID_ARGUMENT,
// and nothing is taken. If a descriptor has no decision and none is over its limit, the request
// fails: with UNAVAILABLE if a retry may help, with CANCELED or DEADLINE_EXCEEDED if the client
// gave up, otherwise with INTERNAL. Then Envoy's failure_mode_deny decides. The limiter's policy
// for a table that does not answer comes before that.
//
// It blocks as long as the limiter does, bounded by ctx.
func (s *Service) ShouldRateLimit(ctx context.Context, r *ratelimit.RateLimitRequest) (
	*ratelimit.RateLimitResponse, error) {
	decisions, err := s.config.Load().decide(r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	outcomes := make([]outcome, len(decisions))
	var parallel errgroup.Group
	parallel.SetLimit(inParallel)
	for i, d := range decisions {
		switch {
		case !d.takes():
			outcomes[i].code = granted
		case len(decisions) == 1:
			outcomes[i] = s.take(ctx, d)
		default:
			parallel.Go(func() error {
				outcomes[i] = s.take(ctx, d)
				return nil
			})
		}
	}
	_ = parallel.Wait() // no function returns an error
	out, err := answer(decisions, outcomes)
	if err != nil {
		return nil, failure(ctx, err)
	}
	return out, nil
}

// take takes the hits of one descriptor, and reports the result to Decided.
func (s *Service) take(ctx context.Context, d decision) outcome {
	out := s.outcomeOf(ctx, d)
	if s.decided != nil {
		s.decided(ctx, Decision{Rule: d.rule.path, Entity: d.entity, Resource: d.resource, Hits: d.hits,
			Over: out.code == over, Shadow: d.rule.shadow, Err: out.err})
	}
	return out
}

func (s *Service) outcomeOf(ctx context.Context, d decision) outcome {
	lease, err := s.acquire(ctx, d)
	denied, isDenied := errors.AsType[*limiter.LimitError](err)
	switch {
	case isDenied:
		out := outcome{code: over, status: tightest(denied.Statuses)}
		if !denied.Never() {
			out.wait = denied.RetryAfter
		}
		return out
	case d.hits > 0 && errors.Is(err, limiter.ErrTooLarge): // never granted; a look returns the limit
		d.hits = 0
		return outcome{code: over, status: s.outcomeOf(ctx, d).status}
	case errors.Is(err, limiter.ErrDisabled):
		return outcome{code: over}
	case err != nil:
		return outcome{code: unknown, err: err}
	}
	out := outcome{code: granted, status: tightest(lease.Status())}
	if t := out.status; d.hits == 0 && t != nil && t.Remaining < 1 && !t.Soft {
		if out.code = over; !isNever(t.RefillAfter) {
			out.wait = t.RefillAfter
		}
	}
	return out
}

// acquire takes the hits. Their limit is the one that came with the request, else the one stored
// for the bucket, else the rule's.
func (s *Service) acquire(ctx context.Context, d decision) (*limiter.Lease, error) {
	r := limiter.Request{Entity: d.entity, Resource: d.resource, Costs: limiter.Costs{LimitName: d.hits},
		Class: d.rule.class}
	b, now := bucket{d.entity, d.resource}, time.Now()
	if until, _ := s.unstored.Get(b); !d.override && !now.Before(until) {
		lease, err := s.limiter.Acquire(ctx, r)
		if !errors.Is(err, limiter.ErrNoLimits) {
			return lease, err
		}
		s.unstored.Add(b, now.Add(unstoredFor))
	}
	r.Limits = []limiter.Limit{d.rule.limit}
	return s.limiter.Acquire(ctx, r)
}

// failure returns the error for a request without a decision.
func failure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, limiter.ErrUnavailable), errors.Is(err, limiter.ErrUnknown):
		return status.Error(codes.Unavailable, "rate limiter unavailable")
	}
	return status.Error(codes.Internal, "internal error")
}
