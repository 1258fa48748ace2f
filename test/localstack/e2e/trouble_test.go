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

// halfFailing is an entity whose snapshots cannot be written for a while, so
// that the batches it is in fail in part; lossy is one whose clients lose
// answers.
const halfFailing, lossy = "half-failing", "lossy"

// trouble is what happens to the deliveries of one function: of each kind some for
// certain, and more at random. It is safe for concurrent use.
type trouble struct {
	mu     sync.Mutex
	random *rand.Rand
	paused bool
	held   bool // tumbling windows do not end

	beside []eventsource.Record // what the second batch gets, so that there is something to cut
	hard   string               // the sequence number of a record whose batch fails until it has failed alone
}

func newTrouble(seed uint64) *trouble { return &trouble{random: rand.New(rand.NewPCG(seed, 7))} }

// pause lets nothing happen until it is called with false.
func (tr *trouble) pause(on bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.paused = on
}

// hold lets no tumbling window end until it is called with false, or the mapping stops.
func (tr *trouble) hold(on bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.held = on
}

func (tr *trouble) oneIn(n int) bool { return tr.random.IntN(n) == 0 }

// batch lets batches come twice, at once or later with others in between, and
// lets their answers get lost. The first comes twice, the second fails until it is cut to
// single records.
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
		out.LoseAnswer, out.Extra, out.ExtraAt = true, tr.beside, len(b.Records)
		tr.hard = b.Records[0].Sequence
	case tr.oneIn(6):
		out.Again = []time.Duration{0}
	case tr.oneIn(6):
		out.Again = []time.Duration{time.Duration(20+tr.random.IntN(200)) * time.Millisecond}
	}
	out.LoseAnswer = out.LoseAnswer || tr.oneIn(8)
	return out
}

// invocation kills processes in the middle of a batch, or when all is done and
// nobody knows; those of the hard record each time until it has come alone.
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

// configure sets both hooks, and retries without end: what is given up is not
// counted, which other tests are about.
func (tr *trouble) configure(host *runtimeapi.Config, mapping *eventsource.Config) {
	host.Inject, mapping.Inject = tr.invocation, tr.batch
	mapping.Settings.MaxRetries = -1
}

// disturb makes the functions' way to the table unreliable.
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

// disturbClients makes the clients' way to the table unreliable. Answers are
// lost for one entity only, so that the books of the others stay exact.
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

// malformedBucket is a record of a bucket whose level is no number.
func malformedBucket() eventsource.Record {
	key := layout.BucketKey("x", malformedMark, "gpt", 0)
	return eventsource.Malformed("MODIFY", key.PK, key.SK, fmt.Sprintf(`%q:{"N":"soon"},%q:{"N":"many"}`,
		layout.AttrRF, table.LimitPrefix+"rpm_"+table.FieldTokens), now())
}

// malformedAudit is a record of an expired audit event that nobody can read.
func malformedAudit() eventsource.Record {
	key := ledger.Audit{Namespace: "x", Subject: malformedMark, ID: "1"}.Key()
	return eventsource.Malformed("REMOVE", key.PK, key.SK, `"details":{"N":"none"}`, now())
}
