package eventsource

import "slices"

// lane is the state of one lane: waiting records, and the batch under way. It is pure: it never
// invokes, and the time is an argument, in epoch ms.
//
// The driver loops: add new records, call next, perform its step, call done.
type lane struct {
	settings Settings
	waiting  []arrival // in stream order, not yet in a batch
	size     int       // payload bytes of waiting
	work     []*work   // parts of the batch under way, first one first
	late     []*work   // copies to deliver again

	window tumblingWindow // the open tumbling window

	added   int // records received
	settled int // of these, processed or given up
}

type arrival struct {
	record Record
	at     int64 // epoch ms
}

// work is a batch or the rest of one.
type work struct {
	records   []Record
	retries   int   // retries used
	invokes   int   // invocations so far, including the invocations of the batch from which it was cut
	notBefore int64 // epoch ms
	copy      bool  // a duplicate: its records are already settled
	started   bool  // its first invocation was announced to the driver
	final     bool  // ends the tumbling window, without records

	trouble Trouble
	whole   []Record // the batch as first delivered, for duplicates; nil except in the last part
}

// step is the next step of a lane.
type step struct {
	invoke *work     // deliver this; nil: nothing to deliver
	until  int64     // if invoke is nil: call next again at this time; 0: when a record arrives
	drops  []GivenUp // given up, independently of the rest of the step
}

// The conditions of an invocation record on AWS.
const (
	retriesExhausted  = "RetryAttemptsExhausted"
	recordAgeExceeded = "RecordAgeExceeded"
)

// maxPayload is the greatest size of a batch as an event, including the state of its tumbling
// window.
const maxPayload = 6 << 20

func (l *lane) add(now int64, records ...Record) {
	for _, r := range records {
		l.waiting = append(l.waiting, arrival{r, now})
		l.size += len(r.Body) + 1
	}
	l.added += len(records)
}

// copies reports whether duplicates remain to be delivered.
func (l *lane) copies() bool {
	return len(l.late) > 0 || len(l.work) > 0 && l.work[0].copy
}

func (l *lane) next(now int64) step {
	var s step
	for {
		if len(l.work) == 0 && !l.takeLate(now) {
			until, ready := l.final(now)
			if !ready {
				var batch int64
				batch, ready = l.form(now)
				until = sooner(until, batch)
			}
			if !ready {
				for _, w := range l.late {
					until = sooner(until, w.notBefore)
				}
				s.until = until
				return s
			}
		}
		front := l.work[0]
		s.drops = append(s.drops, l.dropOld(front, now)...)
		switch {
		case len(front.records) == 0 && !front.final:
			l.pop()
		case front.notBefore > now:
			s.until = front.notBefore
			return s
		default:
			l.enter(front)
			s.invoke = front
			return s
		}
	}
}

// form makes a batch of the waiting records when it is time.
func (l *lane) form(now int64) (until int64, ready bool) {
	if len(l.waiting) == 0 {
		return 0, false
	}
	n, full := l.fit()
	if due := l.waiting[0].at + l.settings.Window.Milliseconds(); !full && now < due {
		return due, false
	}
	w := &work{}
	for _, a := range l.waiting[:n] {
		w.records = append(w.records, a.record)
		l.size -= len(a.record.Body) + 1
	}
	l.waiting = l.waiting[n:]
	l.work = append(l.work, w)
	return 0, true
}

// fit counts the waiting records that fit in one batch, and reports whether it is full. A record
// above 6 MB cannot exist on AWS, and is sent alone.
func (l *lane) fit() (n int, full bool) {
	size := len(payloadOpen) + len(payloadClose)
	if l.settings.Tumbling > 0 {
		size += maxEnvelope + len(l.window.state)
	}
	for n < len(l.waiting) {
		size += len(l.waiting[n].record.Body) + 1
		if n == l.settings.BatchSize || n > 0 && size > maxPayload {
			return n, true
		}
		if n > 0 && l.settings.Tumbling > 0 && l.windowOf(l.waiting[n].record) != l.windowOf(l.waiting[0].record) {
			return n, true // of a later window
		}
		n++
	}
	return n, n == l.settings.BatchSize
}

// dropOld removes records past the maximum age from the front.
func (l *lane) dropOld(w *work, now int64) []GivenUp {
	if l.settings.MaxAge < 0 || w.copy || w.final {
		return nil
	}
	n := 0
	for n < len(w.records) && w.records[n].Created+l.settings.MaxAge.Milliseconds() < now {
		n++
	}
	if n == 0 {
		return nil
	}
	d := GivenUp{Records: w.records[:n], Condition: recordAgeExceeded, Invokes: w.invokes}
	w.records = w.records[n:]
	l.settle(w, d.Records)
	return []GivenUp{d}
}

// reaction is the decision of done.
type reaction struct {
	drops   []GivenUp
	cuts    int // 1: the batch was cut, without using a retry
	retries int // 1: the same records again, using one retry
}

// done processes the outcome of the invocation that next returned.
func (l *lane) done(o outcome, now int64) reaction {
	w := l.work[0]
	w.invokes++
	l.settle(w, w.records[:o.done])
	if !o.failed {
		l.pop()
		l.duplicate(w, now)
		return reaction{}
	}
	rest := w.records[o.done:]
	switch {
	case l.settings.Bisect && o.whole && len(rest) > 1:
		half := (len(rest) + 1) / 2
		l.replace(part(w, rest[:half]), last(w, rest[half:]))
		return reaction{cuts: 1}
	case l.settings.Bisect && !o.whole && o.done > 0:
		l.replace(last(w, rest))
		return reaction{cuts: 1}
	}
	w.records = rest
	return l.retry(w, now)
}

// retry uses one retry of w, or gives it up if none is left.
func (l *lane) retry(w *work, now int64) reaction {
	// Processing of a shard pauses until the end of its window is processed.
	if l.settings.MaxRetries >= 0 && w.retries >= l.settings.MaxRetries && !w.final {
		for _, rest := range l.work { // records that were given up are not delivered again
			rest.trouble = Trouble{}
		}
		l.settle(w, w.records)
		l.pop()
		return reaction{drops: []GivenUp{{Records: w.records, Condition: retriesExhausted, Invokes: w.invokes}}}
	}
	w.retries++
	w.notBefore = now + l.settings.retryDelay(w.retries)
	return reaction{retries: 1}
}

// part returns a part of a cut batch.
func part(w *work, records []Record) *work {
	return &work{records: records, retries: w.retries, invokes: w.invokes, copy: w.copy, started: true}
}

// last returns the last part of a cut batch: when it is processed, the whole batch is.
func last(w *work, records []Record) *work {
	out := part(w, records)
	out.trouble, out.whole = w.trouble, w.whole
	return out
}

func (l *lane) replace(parts ...*work) {
	l.work = append(parts, l.work[1:]...)
}

func (l *lane) pop() { l.work = l.work[1:] }

// settle counts records as done, except injected ones and copies.
func (l *lane) settle(w *work, records []Record) {
	if w.copy {
		return
	}
	for _, r := range records {
		if !r.injected {
			l.settled++
		}
	}
}

// duplicate schedules the copies that the trouble of a batch requests, after the whole batch is
// processed.
func (l *lane) duplicate(w *work, now int64) {
	for _, after := range w.trouble.Again {
		l.late = append(l.late, &work{records: w.whole, copy: true, started: true, notBefore: now + after.Milliseconds()})
	}
}

// takeLate makes a due copy the batch under way.
func (l *lane) takeLate(now int64) bool {
	i := slices.IndexFunc(l.late, func(w *work) bool { return w.notBefore <= now })
	if i >= 0 {
		l.work = []*work{l.late[i]}
		l.late = slices.Delete(l.late, i, i+1)
	}
	return i >= 0
}

// sooner returns the earlier of two instants; 0 is never.
func sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// start applies the trouble of a batch before its first invocation.
func (w *work) start(t Trouble) {
	w.started, w.trouble = true, t
	extra := slices.Clone(t.Extra)
	for i := range extra {
		extra[i].injected = true
	}
	w.records = slices.Insert(slices.Clone(w.records), min(t.ExtraAt, len(w.records)), extra...)
	w.whole = w.records
}
