package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/test/localstack/esm"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

const (
	// malformedMark is a text that only the malformed record has.
	malformedMark = "demo-malformed-record"
	// crashBatch is how many records a batch has at least whose invocation is
	// crashed, and crashAfter how many of its writes are done by then.
	crashBatch, crashAfter = 30, 3
	// twiceBatch is how many records a batch has at least that comes twice.
	twiceBatch = 30
)

// trouble injects what goes wrong on purpose, and knows afterwards what did. It
// is safe for concurrent use.
type trouble struct {
	mu         sync.Mutex
	host       *runtimeapi.Host
	crashing   bool // an invocation to be crashed is under way
	writes     int  // writes seen meanwhile
	killed     int  // processes killed in the middle of a batch
	twice      int  // batches delivered twice
	late       int  // batches delivered again later
	malformed  int  // malformed records put into batches
	archived2x int  // batches of the archiver delivered twice

	throttles, storm, lostAcquires, lostSettlements *fault.Rule
}

// invocation asks for a crash in the middle of one large batch.
func (t *trouble) invocation(_ int, payload []byte) runtimeapi.Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.killed == 0 && t.twice > 0 && bytes.Count(payload, []byte(`"eventName"`)) >= crashBatch {
		t.crashing, t.writes = true, 0
	}
	return runtimeapi.Fault{}
}

// watch kills the host's process at a write of the invocation to be crashed.
// Some writes are done then, one is on its way, and the others are not.
func (t *trouble) watch(p *fault.Proxy, host *runtimeapi.Host) {
	t.host = host
	p.Add(&fault.Rule{Operation: "UpdateItem", Match: func(fault.Call) bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.crashing {
			if t.writes++; t.writes > crashAfter {
				t.crashing = false
				t.killed += t.host.KillBusy()
			}
		}
		return false
	}})
}

// batch puts a malformed record into one batch and lets two others come twice:
// one at once, one later with other batches in between.
func (t *trouble) batch(b esm.Batch) esm.Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(b.Records) < twiceBatch:
	case t.twice == 0:
		t.twice++
		return esm.Trouble{Twice: true}
	case t.malformed == 0:
		t.malformed++
		return esm.Trouble{Extra: []esm.Record{malformedRecord()}, ExtraAt: len(b.Records) / 2}
	case t.late == 0:
		t.late++
		return esm.Trouble{AgainAfter: 3 * time.Second}
	}
	return esm.Trouble{}
}

// archiveBatch lets the archiver's first batch come twice.
func (t *trouble) archiveBatch(esm.Batch) esm.Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.archived2x > 0 {
		return esm.Trouble{}
	}
	t.archived2x++
	return esm.Trouble{Twice: true}
}

// malformedRecord is a change of a bucket whose level is no number.
func malformedRecord() esm.Record {
	key := table.BucketKey("demo", malformedMark, "gpt-large", 0)
	text := func(s string) map[string]string { return map[string]string{"S": s} }
	image := map[string]any{
		table.AttrPK: text(key.PK), table.AttrSK: text(key.SK), table.AttrRF: map[string]string{"N": "soon"},
		table.LimitPrefix + "rpm_" + table.FieldTokens: map[string]string{"N": "many"},
	}
	body, err := json.Marshal(map[string]any{
		"eventID": malformedMark, "eventName": "MODIFY", "eventSource": "aws:dynamodb", "eventVersion": "1.1",
		"dynamodb": map[string]any{
			"ApproximateCreationDateTime": time.Now().Unix(),
			"Keys":                        map[string]any{table.AttrPK: text(key.PK), table.AttrSK: text(key.SK)},
			"NewImage":                    image, "OldImage": image, "StreamViewType": "NEW_AND_OLD_IMAGES",
		},
	})
	if err != nil {
		panic("bug: " + err.Error())
	}
	return esm.RawRecord(string(body), now())
}

// disturb makes the clients' way to the table unreliable: a few throttles, a
// storm of them on one entity, and answers that are lost after the write was
// done.
func (t *trouble) disturb(p *fault.Proxy) {
	acquires := func(c fault.Call) bool { return compares(c.Body) }
	settles := func(c fault.Call) bool { return !compares(c.Body) }
	t.storm = &fault.Rule{
		Operation: "UpdateItem", Contains: "BUCKET#" + stormEntity, Skip: 20, Times: 40,
		Fault: fault.ThroughputExceeded(fault.ReasonKeyRange),
	}
	t.throttles = &fault.Rule{Operation: "UpdateItem", Skip: 300, Times: 5, Fault: fault.Throttled(fault.ReasonKeyRange)}
	t.lostAcquires = &fault.Rule{Operation: "UpdateItem", Match: acquires, Skip: 500, Times: 3, Fault: fault.AppliedThenReset()}
	t.lostSettlements = &fault.Rule{Operation: "UpdateItem", Match: settles, Skip: 500, Times: 2, Fault: fault.AppliedThenError()}
	p.Add(t.storm, t.throttles, t.lostAcquires, t.lostSettlements)
}

// compares tells an acquire, whose condition compares levels, from a settlement,
// whose condition does not.
func compares(body []byte) bool {
	return bytes.Contains(body, []byte(">=")) || bytes.Contains(body, []byte(`\u003e=`))
}

// report says what was injected, and what should have been and was not.
func (t *trouble) report(s *rig) (line string, missing []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	aggregating := s.aggregating.Stats()
	lost := t.lostAcquires.Hits() + t.lostSettlements.Hits()
	throttled := t.throttles.Hits() + t.storm.Hits()
	line = fmt.Sprintf("crashes=%d delivered_twice=%d duplicate_records=%d malformed=%d throttles=%d lost_answers=%d",
		s.aggregator.Stats().Crashes, t.twice+t.late+t.archived2x, aggregating.Duplicates+s.archiving.Stats().Duplicates,
		t.malformed, throttled, lost)
	for _, m := range []struct {
		happened bool
		what     string
	}{
		{t.killed > 0 && s.aggregator.Stats().Crashes > 0, "no aggregator crashed in the middle of a batch"},
		{t.twice > 0 && aggregating.Duplicates >= twiceBatch, "no batch was delivered twice"},
		{t.malformed > 0 && aggregating.Injected > 0, "no malformed record was in a batch"},
		{throttled > 0, "no client was throttled"},
		{lost > 0, "no answer was lost"},
	} {
		if !m.happened {
			missing = append(missing, m.what)
		}
	}
	return line, missing
}
