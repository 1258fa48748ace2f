package eventsource

import (
	"context"
	"encoding/json"
	"time"
)

// take filters the records of one read and adds them to their lanes together, so that they can be
// delivered together.
func (m *Mapping) take(_ context.Context, payload []byte) (answer []byte, err error) {
	var event struct{ Records []json.RawMessage }
	if err := json.Unmarshal(payload, &event); err != nil {
		return nil, err
	}
	var passed []Record
	for _, body := range event.Records {
		if m.filter.Pass(body) {
			passed = append(passed, newRecord(body))
		}
	}
	woken := map[*worker]bool{}
	m.update(func() {
		m.stats.Records += len(event.Records)
		m.stats.Filtered += len(event.Records) - len(passed)
		now := m.cfg.Now()
		for _, r := range passed {
			w := m.lanes[pick(r.partition, m.cfg.Shards)*m.cfg.Settings.Factor+pick(r.item, m.cfg.Settings.Factor)]
			w.lane.add(now, r)
			woken[w] = true
		}
	})
	for w := range woken {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return []byte("{}"), nil
}

// drive performs the steps of the worker's lane, until ctx ends.
func (m *Mapping) drive(ctx context.Context, w *worker) {
	for ctx.Err() == nil {
		var s step
		m.update(func() {
			s = w.lane.next(m.cfg.Now())
			m.giveUp(s.drops)
		})
		if s.invoke != nil {
			m.deliver(ctx, w, s.invoke)
			continue
		}
		m.sleep(ctx, w, s.until)
	}
}

func (m *Mapping) sleep(ctx context.Context, w *worker, until int64) {
	var timer <-chan time.Time
	if until != 0 {
		timer = time.After(max(time.Duration(until-m.cfg.Now())*time.Millisecond, time.Millisecond))
	}
	select {
	case <-ctx.Done():
	case <-w.wake:
	case <-timer:
	}
}

// deliver invokes the function once and processes the result.
func (m *Mapping) deliver(ctx context.Context, w *worker, part *work) {
	var trouble Trouble
	if !part.started {
		trouble = m.begin(part)
	}
	m.mu.Lock()
	payload := w.lane.payload(part, m.cfg.StreamARN, w.name())
	m.mu.Unlock()
	result, err := m.cfg.Invoke(ctx, payload)
	if ctx.Err() != nil {
		return
	}
	failed := err != nil || result.FunctionError != "" || trouble.LoseAnswer
	o := judge(part.records, result.Payload, failed, m.cfg.Settings.Report)
	state, carries := stateOf(result.Payload)
	if m.cfg.Settings.Tumbling > 0 && !carries {
		o = wholeBatchFailed
	}
	m.update(func() {
		m.stats.Invocations++
		if o.failed {
			m.stats.Failures++
		}
		if part.copy {
			m.stats.Duplicates += o.done
		}
		w.lane.carry(part, o, state)
		before := w.lane.settled
		r := w.lane.done(o, m.cfg.Now())
		m.stats.Processed += w.lane.settled - before - m.giveUp(r.drops)
		m.stats.Bisections += r.cuts
		m.stats.Retries += r.retries
	})
}

// begin requests the trouble of a new batch and applies it.
func (m *Mapping) begin(part *work) Trouble {
	var number int
	m.update(func() {
		m.stats.Batches++
		number = m.stats.Batches
	})
	var trouble Trouble
	if m.cfg.Inject != nil {
		trouble = m.cfg.Inject(Batch{Number: number, Records: part.records})
	}
	m.update(func() {
		part.start(trouble)
		m.stats.Injected += len(trouble.Extra)
		m.stats.Largest = max(m.stats.Largest, len(part.records))
	})
	return trouble
}
