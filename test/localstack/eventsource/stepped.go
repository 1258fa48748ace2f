package eventsource

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

// Stepped is a mapping of one stream shard that takes its records and the time as arguments,
// instead of polling and waiting: so hours of a stream take only as long as the function does.
// Trouble is for [Mapping]; here a failure is an error.
type Stepped struct {
	StreamARN string
	Invoker   Invoker

	lane lane
}

// NewStepped returns a mapping with the settings.
func NewStepped(s Settings, streamARN string, i Invoker) (*Stepped, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("event source mapping: %w", err)
	}
	return &Stepped{StreamARN: streamARN, Invoker: i, lane: lane{settings: s}}, nil
}

// Play takes in records that arrived at an instant, epoch ms, and delivers the due batches. The end
// of a tumbling window is due when a record of a later one arrives, or a second after it.
func (p *Stepped) Play(ctx context.Context, now int64, records ...Record) error {
	p.lane.add(now, records...)
	for {
		step := p.lane.next(now)
		if len(step.drops) > 0 {
			return fmt.Errorf("records given up: %s", step.drops[0].condition)
		}
		if step.invoke == nil {
			return nil
		}
		w := step.invoke
		result, err := p.Invoker.Invoke(ctx, p.lane.payload(w, p.StreamARN, shardName(0, 0)))
		if err != nil {
			return err
		}
		o, state, carries := p.outcome(w, result)
		if o.failed || p.lane.settings.Tumbling > 0 && !carries {
			return fmt.Errorf("function failed: %s %.300s", result.ErrorType, result.Payload)
		}
		p.lane.carry(w, o, state)
		p.lane.done(o, now)
	}
}

// outcome reads the function's answer. One that acknowledges everything and carries a
// state of hundreds of kilobytes is cut, not read as JSON: the function reads the state.
func (p *Stepped) outcome(w *work, r runtimeapi.Result) (o outcome, state json.RawMessage, carries bool) {
	const all = `{"batchItemFailures":[],"state":`
	if rest, ok := bytes.CutPrefix(r.Payload, []byte(all)); ok && r.FunctionError == "" && len(rest) > 0 {
		return success(w.records), rest[:len(rest)-1], true
	}
	o = judge(w.records, r.Payload, r.FunctionError != "", p.lane.settings.Report)
	state, carries = stateOf(r.Payload)
	return o, state, carries
}
