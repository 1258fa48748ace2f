package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

// halfFailing is an entity whose snapshots cannot be written for a while, so that its batches fail
// in part. lossy is an entity whose clients lose answers.
const halfFailing, lossy = "half-failing", "lossy"

// trouble disturbs the deliveries of one function: each kind happens some times for certain, and
// more at random. It is safe for concurrent use.
type trouble struct {
	mu     sync.Mutex
	random *rand.Rand
	paused bool
	held   bool // tumbling windows do not end

	extra []eventsource.Record // added to the second batch, so that it can be cut
	hard  string               // the sequence number of a record whose batch fails until it has failed alone
}

func newTrouble(seed uint64) *trouble { return &trouble{random: rand.New(rand.NewPCG(seed, 7))} }

// pause stops all trouble until it is called with false.
func (tr *trouble) pause(on bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.paused = on
}

// hold keeps tumbling windows open until it is called with false, or the mapping stops.
func (tr *trouble) hold(on bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.held = on
}

func (tr *trouble) oneIn(n int) bool { return tr.random.IntN(n) == 0 }

// batch repeats batches, at once or later with others in between, and loses answers. The first
// batch comes twice. The second one fails until it is cut to single records.
func (tr *trouble) batch(b eventsource.Batch) eventsource.Trouble {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var out eventsource.Trouble
	if tr.paused {
		return out
	}
	switch {
	case b.Number == 1:
		out.Again = []time.Duration{0}
	case b.Number == 2:
		out.LoseAnswer, out.Extra, out.ExtraAt = true, tr.extra, len(b.Records)
		tr.hard = b.Records[0].Sequence
	case tr.oneIn(6):
		out.Again = []time.Duration{0}
	case tr.oneIn(6):
		out.Again = []time.Duration{time.Duration(20+tr.random.IntN(200)) * time.Millisecond}
	}
	out.LoseAnswer = out.LoseAnswer || tr.oneIn(8)
	return out
}

// invocation kills processes in the middle of a batch, or when everything is done but unanswered.
// It kills those with the hard record until it has come alone.
func (tr *trouble) invocation(_ int, payload []byte) runtimeapi.Fault {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	switch {
	case tr.held && bytes.Contains(payload, []byte(`"isFinalInvokeForWindow":true`)):
		return runtimeapi.Fault{Delay: patience} // it ends with the mapping
	case tr.paused:
		return runtimeapi.Fault{}
	case tr.hard != "" && bytes.Contains(payload, []byte(`"`+tr.hard+`"`)):
		if bytes.Count(payload, []byte(`"eventName"`)) == 1 {
			tr.hard = ""
		}
		return runtimeapi.Fault{KillAtResponse: true}
	case tr.oneIn(8):
		return runtimeapi.Fault{KillAfter: time.Duration(1+tr.random.IntN(12)) * time.Millisecond}
	case tr.oneIn(10):
		return runtimeapi.Fault{KillAtResponse: true}
	}
	return runtimeapi.Fault{}
}

// configure sets both hooks, and unlimited retries: other tests cover records that are given up,
// which are not counted.
func (tr *trouble) configure(host *runtimeapi.Config, mapping *eventsource.Config) {
	host.Inject, mapping.Inject = tr.invocation, tr.batch
	mapping.Settings.MaxRetries = -1
}

// disturb makes the functions' connection to the table unreliable.
func disturb(p *fault.Proxy) *fault.Rule {
	half := &fault.Rule{Operation: "UpdateItem", Match: func(c fault.Call) bool {
		return bytes.Contains(c.Body, []byte("#USAGE#")) && bytes.Contains(c.Body, []byte(halfFailing))
	}, Times: 30, Fault: fault.Failed()}
	p.Add(half)
	for _, f := range []fault.Fault{
		fault.Throttled(fault.ReasonKeyRange), fault.ThroughputExceeded(fault.ReasonTableLimit), fault.Refused(),
		fault.Failed(),
		fault.AppliedThenReset(), fault.AppliedThenError(), fault.AppliedThenHalf(),
	} {
		p.Add(&fault.Rule{Probability: 0.02, Fault: f})
	}
	p.Add(&fault.Rule{Operation: "UpdateItem", Probability: 0.02, Fault: fault.Conflict()})
	p.Add(&fault.Rule{Operation: "TransactWriteItems", Probability: 0.1, Fault: fault.TransactionConflict(2, 0)})
	return half
}

// disturbClients makes the clients' connection to the table unreliable. Only one entity loses
// answers, so that the books of the others stay exact.
func disturbClients(p *fault.Proxy) {
	p.Add(
		&fault.Rule{Operation: "UpdateItem", Contains: "BUCKET#" + lossy, Skip: 1, Times: 2,
			Fault: fault.AppliedThenReset()},
		&fault.Rule{Operation: "UpdateItem", Contains: "BUCKET#" + lossy, Skip: 4, Times: 2,
			Fault: fault.AppliedThenError()},
		&fault.Rule{Operation: "UpdateItem", Probability: 0.01, Fault: fault.Throttled(fault.ReasonKeyRange)},
		&fault.Rule{Operation: "UpdateItem", Probability: 0.01, Fault: fault.Conflict()},
	)
}

// malformedMark is a text that only malformed records have.
const malformedMark = "e2e-malformed-record"

// malformedBucket is a record of a bucket whose level is not a number.
func malformedBucket() eventsource.Record {
	key := layout.BucketKey("x", malformedMark, "gpt", 0)
	return eventsource.Malformed("MODIFY", key.PK, key.SK, fmt.Sprintf(`%q:{"N":"soon"},%q:{"N":"many"}`,
		layout.AttrRF, table.LimitPrefix+"rpm_"+table.FieldTokens), now())
}

// malformedAudit is an undecodable record of an expired audit event.
func malformedAudit() eventsource.Record {
	key := ledger.Audit{Namespace: "x", Subject: malformedMark, ID: "1"}.Key()
	return eventsource.Malformed("REMOVE", key.PK, key.SK, `"details":{"N":"none"}`, now())
}
