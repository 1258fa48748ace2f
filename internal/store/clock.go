package store

import (
	"errors"
	"net/http"
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	// mostCorrection is the largest correction that is applied. A clock that is off by more needs a
	// person.
	mostCorrection = 24 * time.Hour
	// doubts is the number of successive answers that must contradict a correction, and agree with
	// each other, before it changes: a single one may be wrong.
	doubts = 3
	// stepOver is the difference that must build up between the wall clock and the monotonic one,
	// between two readings, before the wall clock counts as set. A thousandth of the time between
	// them is allowed in addition. A clock that is being slewed stays below that.
	stepOver = 500 * time.Millisecond
)

// Clock measures how far the local clock is off DynamoDB's, using only DynamoDB's own answers. The
// first answer is accepted at once. After that, the correction changes only when three successive
// answers contradict it and agree with each other; then it moves as little as they require. If the
// local clock is set, the correction is dropped, and the next answer counts as the first.
//
// The zero Clock has no correction. It is safe for concurrent use.
type Clock struct {
	read func() reading // nil: the machine's clocks

	mu    sync.Mutex
	facts clockFacts // accessed only through lock
}

// lock locks the clock. The caller unlocks mu.
func (c *Clock) lock() *clockFacts {
	c.mu.Lock()
	return &c.facts
}

// clockFacts is the state of a clock. A function that has it holds the clock's lock.
type clockFacts struct {
	known correction
	last  reading
	watch func(ClockChange)
}

// ClockChange is a change of the correction, or a requested change that is too large to apply: then
// After equals Before.
type ClockChange struct {
	Before, After time.Duration // the correction of the local clock
	Reported      time.Duration // the correction that the answers require
	Set           bool          // the local clock was set; the change was not caused by an answer
}

// Watch makes f be called for every change from now on, on the goroutine that reads the offset, or
// that receives the answer that causes the change.
func (c *Clock) Watch(f func(ClockChange)) {
	k := c.lock()
	defer c.mu.Unlock()
	k.watch = f
}

// Offset returns the correction of the local clock: zero while it agrees with DynamoDB to the
// second, the resolution of a Date header.
func (c *Clock) Offset() time.Duration {
	now := c.reading()
	k := c.lock()
	before := k.known.offset
	k.notice(now)
	after, watch := k.known.offset, k.watch
	c.mu.Unlock()
	if watch != nil && after != before {
		watch(ClockChange{Before: before, After: after, Set: true})
	}
	return after
}

// heard processes an answer: DynamoDB's clock showed server, rounded down to the second, some time
// between sent and now.
func (c *Clock) heard(server time.Time, sent reading) {
	now := c.reading()
	k := c.lock()
	before := k.known.offset
	change := ClockChange{Before: before, Set: k.notice(now)}
	if !now.setSince(sent) {
		k.known, change.Reported = k.known.hear(offsets(server, sent, now))
	}
	change.After = k.known.offset
	watch := k.watch
	c.mu.Unlock()
	if watch != nil && (change.After != before || change.Reported != 0) {
		watch(change)
	}
}

// notice drops the correction if the local clock was set since it was last read, and reports
// whether it was.
func (k *clockFacts) notice(now reading) (set bool) {
	if set = k.last != (reading{}) && now.setSince(k.last); set {
		k.known = correction{}
	}
	k.last = now
	return set
}

// reading is the time of two clocks of the machine: wall, which can be set, in ns since the epoch,
// and mono, which only moves forward, in ns since some instant.
type reading struct{ wall, mono int64 }

var started = time.Now()

func (c *Clock) reading() reading {
	if c.read != nil {
		return c.read()
	}
	now := time.Now()
	return reading{now.UnixNano(), int64(now.Sub(started))}
}

// setSince reports whether the wall clock was set between two readings.
func (r reading) setSince(old reading) bool {
	passed := r.mono - old.mono
	ran := r.wall - old.wall - passed
	return time.Duration(ran).Abs() > stepOver+time.Duration(passed/1000)
}

// span is a range of offsets.
type span struct{ lo, hi time.Duration }

// offsets returns the offsets with which the local clock agrees with an answer.
func offsets(server time.Time, sent, received reading) span {
	at := server.UnixNano()
	return span{time.Duration(at - received.wall), time.Duration(at + int64(time.Second) - sent.wall)}
}

func (s span) has(d time.Duration) bool { return s.lo <= d && d <= s.hi }

// nearest returns the offset in the span closest to d, or zero if the span contains zero: clocks
// that agree need no correction.
func (s span) nearest(d time.Duration) time.Duration {
	if s.has(0) {
		return 0
	}
	return min(max(d, s.lo), s.hi)
}

// and returns the intersection of two spans; ok is false if it is empty.
func (s span) and(o span) (both span, ok bool) {
	both = span{max(s.lo, o.lo), min(s.hi, o.hi)}
	return both, both.lo <= both.hi
}

// correction is an offset, with the answers that contradict it.
type correction struct {
	offset time.Duration
	known  bool // set by an answer
	doubts int  // successive answers that contradict it
	doubt  span // their common part
}

// hear returns the correction after one more answer. asked is the offset that the answers require,
// if it differs, whether or not it is applied.
func (c correction) hear(said span) (next correction, asked time.Duration) {
	if !c.known {
		return c.move(said)
	}
	if said.has(c.offset) {
		c.doubts = 0
		return c, 0
	}
	both, agree := said, false
	if c.doubts > 0 {
		both, agree = said.and(c.doubt)
	}
	if !agree {
		c.doubts, both = 0, said
	}
	c.doubts++
	c.doubt = both
	if c.doubts < doubts {
		return c, 0
	}
	return c.move(both)
}

func (c correction) move(to span) (next correction, asked time.Duration) {
	next = correction{offset: c.offset, known: true}
	at := to.nearest(c.offset)
	if at == c.offset {
		return next, 0
	}
	if at.Abs() <= mostCorrection {
		next.offset = at
	}
	return next, at
}

// listen processes the answer to a request if it is DynamoDB's own. Such an answer has a request id
// and the checksum of its body, does not come from a cache, and has a code if it is an error. A
// proxy's answer has none of these.
func (c *Clock) listen(meta middleware.Metadata, err error, sent reading) {
	r, _ := awsmiddleware.GetRawResponse(meta).(*smithyhttp.Response)
	if err != nil {
		failed, ok := errors.AsType[*smithyhttp.ResponseError](err)
		if _, coded := errors.AsType[smithy.APIError](err); !ok || !coded {
			return
		}
		r = failed.Response
	}
	if r == nil || r.Response == nil {
		return
	}
	h := r.Header
	if h.Get("X-Amzn-Requestid") == "" || h.Get("X-Amz-Crc32") == "" || h.Get("Age") != "" {
		return
	}
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		c.heard(at, sent)
	}
}
