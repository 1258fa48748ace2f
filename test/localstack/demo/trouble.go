package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

const (
	// malformedMark is a text that only the malformed record contains.
	malformedMark = "demo-malformed-record"
	// crashBatch is the least number of records in a batch whose invocation is crashed, and
	// crashAfter how many of its writes are let through before.
	crashBatch, crashAfter = 10, 2
	// crashDelay is how long after that the process is killed: by then the first writes are done,
	// and the others are held back twice as long.
	crashDelay = 50 * time.Millisecond
	// twiceBatch is the least number of records in a batch that is delivered twice.
	twiceBatch = 10
	// againAfter is how much later a batch is delivered again.
	againAfter = 3 * time.Second
	// outage is the least time for which the clients cannot reach the table; it lasts until one of
	// them has noticed.
	outage = 400 * time.Millisecond
)

// trouble injects faults and counts them. It is safe for concurrent use.
type trouble struct {
	mu         sync.Mutex
	duplicates func() int // the aggregator's records delivered twice so far; nil: none
	crashing   bool       // an invocation to crash is under way
	writes     int        // writes seen meanwhile
	killed     int        // processes killed in the middle of a batch
	late       int        // batches delivered again later
	malformed  int        // malformed records put into batches
	outages    int        // times the clients could not reach the table
	archived2x int        // batches of the archiver delivered twice
	begin      int64      // of the run, epoch ms
	incidents  []incident // in order
	hits       [2]int     // of throttles and lost answers, as far as they are incidents

	throttles, storm, lostAcquires, lostSettlements *fault.Rule
}

// invocation requests a crash in the middle of one large batch.
func (t *trouble) invocation(_ int, payload []byte) runtimeapi.Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.killed == 0 && t.repeated() && bytes.Count(payload, []byte(`"eventName"`)) >= crashBatch {
		t.crashing, t.writes = true, 0
	}
	return runtimeapi.Fault{}
}

// watch kills the host's processes in the middle of the batch to crash, when its first writes are
// done, others are under way, and no outcome is reported.
func (t *trouble) watch(p *fault.Proxy, host *runtimeapi.Host, m *eventsource.Mapping) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.duplicates = func() int { return m.Stats().Duplicates }
	p.Add(&fault.Rule{Operation: "UpdateItem", Fault: fault.Delayed(2 * crashDelay), Match: func(fault.Call) bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.crashing {
			return false
		}
		t.writes++
		if t.writes == crashAfter+1 {
			time.AfterFunc(crashDelay, func() { t.crash(host) })
		}
		return t.writes > crashAfter
	}})
}

func (t *trouble) crash(host *runtimeapi.Host) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.crashing = false
	t.killed += host.KillBusy()
	t.note(aggregatorKilled)
}

// repeated reports whether a batch was delivered twice. A batch that was cut for another reason was
// not; then another one is chosen.
func (t *trouble) repeated() bool { return t.duplicates != nil && t.duplicates() > 0 }

// batch adds a malformed record to one batch and delivers others twice: one immediately, one later
// with other batches in between.
func (t *trouble) batch(b eventsource.Batch) eventsource.Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(b.Records) < twiceBatch:
	case !t.repeated():
		t.note(batchRepeated)
		return eventsource.Trouble{Again: []time.Duration{0}}
	case t.malformed == 0:
		t.malformed++
		t.note(malformedSent)
		return eventsource.Trouble{Extra: []eventsource.Record{malformedRecord()}, ExtraAt: len(b.Records) / 2}
	case t.late == 0:
		t.late++
		t.note(batchRepeated)
		return eventsource.Trouble{Again: []time.Duration{againAfter}}
	}
	return eventsource.Trouble{}
}

// archiveBatch delivers the archiver's first batch twice.
func (t *trouble) archiveBatch(b eventsource.Batch) eventsource.Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.archived2x > 0 {
		return eventsource.Trouble{}
	}
	t.archived2x++
	t.note(batchRepeated)
	return eventsource.Trouble{Again: []time.Duration{0}}
}

// malformedRecord returns a change of a bucket whose level is not a number.
func malformedRecord() eventsource.Record {
	key := layout.BucketKey("demo", malformedMark, "gpt-large", 0)
	return eventsource.Malformed("MODIFY", key.PK, key.SK, fmt.Sprintf(`%q:{"N":"soon"},%q:{"N":"many"}`,
		layout.AttrRF, table.LimitPrefix+"rpm_"+table.FieldTokens), now())
}

// disturb makes the clients' connection to the table unreliable: a few throttles, a storm of them
// on one entity, and answers lost after the write was done.
func (t *trouble) disturb(p *fault.Proxy) {
	acquires := func(c fault.Call) bool { return compares(c.Body) }
	settles := func(c fault.Call) bool { return !compares(c.Body) }
	t.storm = &fault.Rule{
		Operation: "UpdateItem", Contains: "BUCKET#" + stormEntity, Skip: 5, Times: 20,
		Fault: fault.ThroughputExceeded(fault.ReasonKeyRange),
	}
	t.throttles = &fault.Rule{Operation: "UpdateItem", Skip: 100, Times: 5, Fault: fault.Throttled(fault.ReasonKeyRange)}
	t.lostAcquires = &fault.Rule{Operation: "UpdateItem", Match: acquires, Skip: 150, Times: 3,
		Fault: fault.AppliedThenReset()}
	t.lostSettlements = &fault.Rule{Operation: "UpdateItem", Match: settles, Skip: 150, Times: 2,
		Fault: fault.AppliedThenError()}
	p.Add(t.storm, t.throttles, t.lostAcquires, t.lostSettlements)
}

// interrupt disconnects the clients from the table until a request has had no decision, or ctx
// ends: calls under way get no answer, new ones no connection.
func (t *trouble) interrupt(ctx context.Context, p *fault.Proxy, undecided func() int) error {
	t.mu.Lock()
	t.note(tableAway)
	t.mu.Unlock()
	before := undecided()
	p.Down()
	for ctx.Err() == nil {
		if time.Sleep(outage); undecided() > before {
			break
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outages++
	return p.Up()
}

// compares distinguishes an acquire, whose condition compares levels, from a settlement, whose
// condition does not.
func compares(body []byte) bool {
	return bytes.Contains(body, []byte(">=")) || bytes.Contains(body, []byte(`\u003e=`))
}

// The kinds of faults.
const (
	writesThrottled  = "writes throttled"
	answersLost      = "answers lost"
	batchRepeated    = "batch repeated"
	aggregatorKilled = "aggregator killed"
	malformedSent    = "malformed record"
	tableAway        = "table out of reach"
)

// note records a fault. The lock is held.
func (t *trouble) note(kind string) {
	t.incidents = append(t.incidents, incident{since(t.begin, now()), kind})
}

// sample records the faults that have affected clients since the last call.
func (t *trouble) sample() {
	t.mu.Lock()
	defer t.mu.Unlock()
	hits := [2]int{t.throttles.Hits() + t.storm.Hits(), t.lostAcquires.Hits() + t.lostSettlements.Hits()}
	for i, kind := range []string{writesThrottled, answersLost} {
		if hits[i] > t.hits[i] {
			t.note(kind)
		}
	}
	t.hits = hits
}

// seen returns the incidents so far.
func (t *trouble) seen() []incident {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.incidents)
}

// report names the injected faults, and those that should have been injected but were not.
func (t *trouble) report(s *rig) (line string, missing []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	aggregating := s.aggregating.Stats()
	lost := t.lostAcquires.Hits() + t.lostSettlements.Hits()
	throttled := t.throttles.Hits() + t.storm.Hits()
	line = fmt.Sprintf("crashes=%d records_delivered_twice=%d malformed=%d throttles=%d lost_answers=%d outages=%d",
		s.aggregator.Stats().Crashes, aggregating.Duplicates+s.archiving.Stats().Duplicates,
		t.malformed, throttled, lost, t.outages)
	for _, m := range []struct {
		happened bool
		what     string
	}{
		{t.killed > 0 && s.aggregator.Stats().Crashes > 0, "no aggregator crashed in the middle of a batch"},
		{aggregating.Duplicates > 0, "no batch was delivered twice"},
		{t.malformed > 0 && aggregating.Injected > 0, "no malformed record was in a batch"},
		{throttled > 0, "no client was throttled"},
		{lost > 0, "no answer was lost"},
		{t.outages > 0, "the table was never out of reach"},
	} {
		if !m.happened {
			missing = append(missing, m.what)
		}
	}
	return line, missing
}
