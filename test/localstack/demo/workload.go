package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
)

const (
	// playTime is how long requests are sent, playRate how many per second.
	playTime = 30 * time.Second
	playRate = 200
	// seed makes the generated workload, and how a trace is spread over the
	// tenants, the same in every run.
	seed = 20240601
	// failing is the share of granted calls that fail and are rolled back.
	failing = 0.06
	// reserve is how much a cautious caller acquires on top of the prompt, for an answer of unknown
	// length; it gives the rest back.
	reserve = 400
)

// level is where the limits of a tenant come from.
type level int

const (
	perCall       level = iota // given with every call
	system                     // default of the namespace
	byResource                 // default of the resource
	entityDefault              // the entity's, for all resources
	byEntity                   // the entity's, for the resource; never expires
)

// tenant is one entity on one resource, and its share of the requests.
type tenant struct {
	entity, resource string
	limits           []limiter.Limit
	level            level
	weight           float64
	cautious         bool // reserves tokens for the answer and gives the rest back
}

func perMinute(rpm, tpm int64) []limiter.Limit {
	return []limiter.Limit{limiter.PerMinute("rpm", rpm), limiter.PerMinute("tpm", tpm)}
}

// The tenants. The hot one has half of the traffic, which makes it split, and more requests than
// all its shards allow. The greedy ones want far more than one shard allows.
const (
	hotEntity, hotResource = "chat-frontend", "gpt-large"
	stormEntity            = "batch-2"
	// hotWCU is the initial write meter of the hot bucket, in writes per second. DynamoDB accepts
	// 1000 per partition; a laptop does not reach that on one item together with everything else,
	// so this bucket has a lower limit.
	hotWCU = 25
)

var (
	systemLimits   = perMinute(1000, 1_000_000)
	resourceLimits = perMinute(300, 400_000)
	hotLimits      = []limiter.Limit{limiter.PerMinute("rpm", 900).WithCapacity(100),
		limiter.PerMinute("tpm", 4_000_000)}
	greedyLimits = []limiter.Limit{limiter.PerMinute("rpm", 120).WithCapacity(20), limiter.PerMinute("tpm", 60_000)}
)

var tenants = []tenant{
	{hotEntity, hotResource, hotLimits, byEntity, 0.50, false},
	{"tenant-a", "gpt-large", perMinute(600, 600_000), byEntity, 0.06, true},
	{"tenant-b", "gpt-large", perMinute(600, 600_000), byEntity, 0.06, false},
	{"tenant-c", "gpt-large", perMinute(900, 1_000_000), entityDefault, 0.06, true},
	{"tenant-d", "gpt-large", resourceLimits, byResource, 0.03, false},
	{"tenant-e", "gpt-large", resourceLimits, byResource, 0.03, true},
	{"tenant-f", "gpt-small", systemLimits, system, 0.04, false},
	{"batch-1", "gpt-small", perMinute(600, 800_000), perCall, 0.03, true},
	{stormEntity, "gpt-small", perMinute(600, 800_000), perCall, 0.03, false},
	{"greedy-1", "gpt-large", resourceLimits, byResource, 0.08, false},
	{"greedy-2", "gpt-small", greedyLimits, perCall, 0.08, true},
}

// request is a tenant's call of a model.
type request struct {
	at       time.Duration // after the start
	tenant   *tenant
	calls    int64         // requests acquired; zero: one
	estimate int64         // tokens acquired before the call
	settle   int64         // additional tokens after the call, or if negative, given back
	fails    bool          // the call fails: everything is given back
	hold     time.Duration // how long the call takes
}

// call returns the request as a client's call.
func (r request) call() clients.Call {
	c := clients.Call{Hold: r.hold, Fails: r.fails, Rules: r.tenant.limits, Request: limiter.Request{
		Entity: r.tenant.entity, Resource: r.tenant.resource, Costs: limiter.Costs{"rpm": max(r.calls, 1)}}}
	if r.tenant.level == perCall {
		c.Limits = r.tenant.limits
	}
	if r.estimate > 0 {
		c.Costs["tpm"] = r.estimate
		c.Settle = limiter.Costs{"tpm": r.estimate + r.settle}
	}
	return c
}

// byWeight draws tenants.
func byWeight() loadcheck.Chance {
	var weights []float64
	for _, t := range tenants {
		weights = append(weights, t.weight)
	}
	return loadcheck.Weighted(weights...)
}

// anyRequest draws everything about a request but its time and size.
func anyRequest(who loadcheck.Chance, rng *rand.Rand) request {
	return request{
		tenant: &tenants[who.Draw(rng)],
		fails:  rng.Float64() < failing,
		hold:   time.Duration(5+rng.IntN(35)) * time.Millisecond,
	}
}

// generate makes the workload that is played without a trace: requests come at
// random, playRate per second on average, and have the sizes of real
// conversations: prompts of about 600 tokens (half of them between 290 and
// 1250), answers of about 130 (half of them between 70 and 240).
func generate() []request {
	rng := rand.New(rand.NewPCG(seed, 0))
	who := byWeight()
	var out []request
	for at := time.Duration(0); at < playTime; at += time.Duration(rng.ExpFloat64() / playRate * float64(time.Second)) {
		r := anyRequest(who, rng)
		prompt, answer := size(rng, 600, 1.1), size(rng, 130, 0.9)
		r.at, r.estimate, r.settle = at, prompt, answer
		if r.tenant.cautious {
			r.estimate, r.settle = prompt+reserve, answer-reserve
		}
		out = append(out, r)
	}
	return out
}

// size draws a number of tokens from a log-normal distribution, 1 to 14,000.
func size(rng *rand.Rand, median, sigma float64) int64 {
	return int64(min(max(median*math.Exp(sigma*rng.NormFloat64()), 1), 14_000))
}

// workload returns the requests to play, from a trace file if it names one, and a sentence about them.
func workload(trace string) ([]request, string, error) {
	if trace == "" {
		r := generate()
		return r, fmt.Sprintf("%d generated requests in %v, seed %d", len(r), playTime, seed), nil
	}
	rows, err := readTrace(trace)
	if err != nil {
		return nil, "", err
	}
	r := replay(rows)
	return r.requests, fmt.Sprintf(
		"%d requests in %v, from %d of the %d rows of the trace %s, %.3g times as fast as recorded",
		len(r.requests), playTime, r.rows, len(rows), trace, r.speedup), nil
}
