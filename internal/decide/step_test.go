package decide

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// story runs the steps of one bucket by hand, on an item like in DynamoDB.
type story struct {
	*testing.T
	b    *Bucket
	it   item.Item
	ms   int64 // since noon
	asks map[*Waiter]bool
}

// newStory returns a bucket that was seen with these tokens, of ten a second.
func newStory(t *testing.T, tokens int64) *story {
	b := seenAs(perSecond, tokens)
	return &story{T: t, b: b, it: b.Seen(0).Image.Item(), asks: map[*Waiter]bool{}}
}

func (s *story) now() Now {
	return Now{Ms: noon + s.ms, Mono: s.ms, At: time.UnixMilli(noon + s.ms), Trip: 4, Late: 6 * msec}
}

// ask makes a request for tokens.
func (s *story) ask(tokens int64) (*Waiter, Effects) {
	w := &Waiter{Want: asks(tokens, perSecond)}
	var e Effects
	s.b.Ask(w, true, s.now, &e)
	return w, e
}

// others makes another process, with an image of the item, take tokens.
func (s *story) others(tokens int64) {
	s.Helper()
	other := newStory(s.T, 0)
	other.it = s.it
	image, _ := table.DecodeShard(s.it)
	other.b.See(image, noon, Unsent)
	_, theirs := other.ask(tokens)
	other.advance(theirs.Calls[0], 1)
	other.write(theirs.Calls[0], true)
	s.it = other.it
}

// sent returns a request for tokens whose write is under way.
func (s *story) sent(tokens int64) (*Waiter, *Call) {
	s.Helper()
	w, e := s.ask(tokens)
	s.advance(e.Calls[0], 1)
	return w, e.Calls[0]
}

// advance plans the write of a call, and checks how many requests ride with it; zero: it has
// landed.
func (s *story) advance(c *Call, riders int) Effects {
	s.Helper()
	var e Effects
	s.b.Advance(c, s.now, &e)
	if got := len(c.riders); (c.Next == Send) != (riders > 0) || riders > 0 && got != riders {
		s.Fatalf("%d ride, next %d, want %d", got, c.Next, riders)
	}
	return e
}

// write sends the write of a call, which holds or is refused.
func (s *story) write(c *Call, holds bool) Effects {
	s.Helper()
	it, held, err := c.Write.Apply(s.it)
	if err != nil || held != holds {
		s.Fatalf("held %v, %v", held, err)
	}
	if held {
		s.it = it
	}
	image, err := table.DecodeShard(s.it)
	if err != nil {
		s.Fatal(err)
	}
	var e Effects
	if !held {
		s.b.Returned(c, false)
	}
	s.b.Done(c, Outcome{Held: held, Image: &image}, s.now, &e)
	return e
}

// answers checks the results of waiters.
func (s *story) answers(e Effects, want map[*Waiter]Result) {
	s.Helper()
	if len(e.Answered) != len(want) {
		s.Errorf("%d are answered, want %d", len(e.Answered), len(want))
	}
	for w, r := range want {
		if !slices.Contains(e.Answered, w) || w.Answer.Result != r {
			s.Errorf("answer %+v, want %d", w.Answer, r)
		}
	}
}

// atRest checks that nothing is under way.
func (s *story) atRest() {
	s.Helper()
	if !s.b.Seen(0).Idle || len(s.b.OnTheirWay()) > 0 {
		s.Errorf("idle %v, %v on their way", s.b.Seen(0).Idle, s.b.OnTheirWay())
	}
}

// The first request has a call; two that come meanwhile wait behind it, and go out together in the
// next one, as far as the image covers them: of 10 tokens 4 are taken, then 3, and 4 are denied.
func TestStoryOfAGroup(t *testing.T) {
	s := newStory(t, 10)
	first, c := s.sent(4)
	second, queued := s.ask(3)
	third, more := s.ask(2)
	if len(queued.Queued) != 1 || queued.Late[0] != (Late{c, 10 * msec}) || more.Late != nil {
		t.Fatalf("%+v, %+v: they wait behind the call, which is late in 10 ms", queued, more)
	}
	e := s.write(c, true)
	s.answers(e, map[*Waiter]Result{first: Granted})
	next := e.Calls[0]
	s.advance(next, 2)
	e = s.write(next, true)
	s.answers(e, map[*Waiter]Result{second: Granted, third: Granted})
	if got := second.Answer.Grant; got.Parts[0].Of("rps") != 3000 || got.Levels[0].Milli != 1000 {
		t.Errorf("%+v", got)
	}
	fourth, e := s.ask(4)
	s.answers(e, map[*Waiter]Result{fourth: Denied})
	s.atRest()
}

// A refused call is planned again from the returned image. A request that is no longer covered is
// denied by it; each write counts for the first request whose caller waits.
func TestStoryOfARefusal(t *testing.T) {
	s := newStory(t, 10)
	a, c := s.sent(4)
	b, _ := s.ask(4)
	e := s.write(c, true)
	c = e.Calls[0]
	s.answers(e, map[*Waiter]Result{a: Granted})
	s.advance(c, 1)
	s.others(5)
	s.write(c, false)
	e = s.advance(c, 0)
	s.answers(e, map[*Waiter]Result{b: Denied})
	if b.Calls != 1 || a.Calls != 1 || !b.Lost {
		t.Errorf("%d and %d writes, outrun %v", a.Calls, b.Calls, b.Lost)
	}
	s.atRest()
}

// A caller that leaves from behind a call, or before its write is under way, has taken nothing.
// With its write under way it is unknown, and its tokens are given back. A caller answered at that
// moment keeps its answer.
func TestStoryOfCallersThatLeave(t *testing.T) {
	s := newStory(t, 10)
	first, e := s.ask(1)
	c := e.Calls[0]
	early, _ := s.ask(1)
	if s.b.Leave(early) != NotSent || s.b.OnTheirWay()[0] != 0 {
		t.Error("it waits still")
	}
	s.advance(c, 1)
	behind, _ := s.ask(2)
	check.Equal(t, s.b.Leave(first), OnItsWay, "left")
	e = s.write(c, true)
	s.answers(e, nil)
	if len(e.Left) != 1 || e.Left[0].Parts[0].Of("rps") != 1000 || e.Left[0].Name != first.Want.Name {
		t.Errorf("%+v is to be given back", e.Left)
	}
	next := e.Calls[0]
	s.advance(next, 1)
	s.answers(s.write(next, true), map[*Waiter]Result{behind: Granted})
	check.Equal(t, s.b.Leave(behind), Answered, "it was answered")
	last, e := s.ask(1)
	if s.b.Leave(last) != NotSent { // planned, but not sent
		t.Error("it was not sent")
	}
	s.advance(e.Calls[0], 0)
	s.atRest()
}

// A late call delays no others: those behind it go out in another one, and the late one is answered
// when its answer comes.
func TestStoryOfALateCall(t *testing.T) {
	s := newStory(t, 10)
	first, c := s.sent(1)
	second, _ := s.ask(2)
	s.ms = 10
	var overdue Effects
	s.b.Overdue(c, s.now().At, &overdue)
	s.b.Overdue(c, s.now().At, &overdue) // no caller waits any more
	check.MustEqual(t, len(overdue.Calls), 1, "calls")
	s.advance(overdue.Calls[0], 1)
	s.answers(s.write(overdue.Calls[0], true), map[*Waiter]Result{second: Granted})
	s.write(c, false) // the other write has moved the clock of the bucket
	s.advance(c, 1)
	s.answers(s.write(c, true), map[*Waiter]Result{first: Granted})
	s.b.Overdue(c, s.now().At, &overdue)
	s.atRest()
}

// A failure is reported to all riders, and those behind continue; a panic is a failure, at any
// moment.
func TestStoryOfAFailure(t *testing.T) {
	cause := errors.New("no answer")
	for name, fail := range map[string]func(s *story, c *Call, e *Effects){
		"failed": func(s *story, c *Call, e *Effects) {
			s.b.Returned(c, true)
			s.b.Done(c, Outcome{Err: cause}, s.now, e)
		},
		"panicked": func(s *story, c *Call, e *Effects) {
			s.b.Abort(c, cause, s.now().At, e)
			s.b.Abort(c, cause, s.now().At, e) // it has landed
		},
	} {
		s := newStory(t, 10)
		first, c := s.sent(1)
		second, _ := s.ask(2)
		var failed Effects
		fail(s, c, &failed)
		s.answers(failed, map[*Waiter]Result{first: Failed})
		if first.Answer.Err != cause || len(failed.Calls) != 1 {
			t.Fatalf("%s: %v, %d calls", name, first.Answer.Err, len(failed.Calls))
		}
		s.advance(failed.Calls[0], 1)
		s.answers(s.write(failed.Calls[0], true), map[*Waiter]Result{second: Granted})
		s.atRest()
	}
}

// Calls that a waiter may not make are not made, and its result says so; a level of a cascade
// creates no bucket.
func TestStoryOfUnsentWrites(t *testing.T) {
	s := newStory(t, 10)
	w := &Waiter{Want: asks(1, perSecond)}
	var e Effects
	s.b.Ask(w, false, s.now, &e)
	s.answers(e, map[*Waiter]Result{w: Ended})
	s.b.Missing(noon, 0)
	w, e = &Waiter{Want: asks(1, perSecond), Apart: true}, Effects{}
	s.b.Ask(w, true, s.now, &e)
	s.answers(e, map[*Waiter]Result{w: Absent})
	w, e = &Waiter{Want: asks(1, perSecond)}, Effects{}
	s.b.Ask(w, true, s.now, &e)
	if c := e.Calls[0]; true {
		s.b.Advance(c, s.now, &e)
		if c.Next != Siblings { // it creates the bucket, unless other shards remain
			t.Fatalf("next %d", c.Next)
		}
		if count, err := s.b.Survives(1, nil, noon); count != 1 || err != nil {
			t.Fatal(count, err)
		}
		s.it = nil
		s.advance(c, 1)
		s.answers(s.write(c, true), map[*Waiter]Result{w: Granted})
	}
	s.atRest()
}

// A request in a group whose limits others have replaced meanwhile decides again, and was not
// outrun. One that was outrun before stays so.
func TestStoryOfReplacedLimits(t *testing.T) {
	for _, c := range []struct{ replaced, before, want bool }{
		{false, false, true}, {false, true, true}, {true, false, false}, {true, true, true},
	} {
		s := newStory(t, 10)
		first, e := s.ask(7)
		s.advance(e.Calls[0], 1)
		s.write(e.Calls[0], true)
		call := &Call{Choice: Choice{Do: Take}, Until: s.now().At}
		k := s.b.lock()
		for range 2 {
			w := &Waiter{Want: asks(2, perSecond), lost: c.before, decided: asks(2, perSecond), call: call}
			k.at(0).begin(w.decided)
			call.riders = append(call.riders, w)
		}
		rest := call.riders[1:]
		if c.replaced {
			twice := perSecond
			twice.Capacity *= 2
			k.yields = []yield{{own: []bucket.Limit{perSecond}, inForce: []bucket.Limit{twice}, since: noon}}
			k.replaced++
			rest = call.riders
		}
		rest = slices.Clone(rest)
		s.b.mu.Unlock()
		e = Effects{}
		s.b.Advance(call, s.now, &e)
		for _, w := range rest {
			check.Equal(t, w.lost, c.want, "%+v: outrun (%d first)", c, first.Answer.Result)
		}
	}
}

// OnTheirWay returns the calls behind which others may wait: by shard, how many do.
func (b *Bucket) OnTheirWay() map[int]int {
	k := b.lock()
	defer b.mu.Unlock()
	out := make(map[int]int)
	for i, s := range k.shards {
		if s.call != nil {
			out[i] = len(s.call.queue)
		}
	}
	return out
}

// Requests of a group are served if prefetched tokens cover their costs. Renewals, waiting
// requests, and those that want more go to the table. The tokens of a caller that has left stay
// held.
func TestStoryOfAGroupThatIsServed(t *testing.T) {
	p := newProcess(t)
	p.charges(ten(), 0)
	check.MustEqual(t, p.charges(ten(), 0), 5000, "taken ahead")
	waits, served, renews := &Waiter{Want: costing(2000, plenty)}, &Waiter{Want: costing(2000, plenty)}, &Waiter{}
	gone, more, last := &Waiter{}, &Waiter{Want: costing(6000, plenty)}, &Waiter{Want: costing(1000, plenty)}
	waits.Waits, renews.Renews, gone.gone = true, true, true
	renews.Want, gone.Want = costing(0, plenty), costing(3000, plenty)
	call := &Call{Choice: Choice{Do: Take}, riders: []*Waiter{waits, served, renews, gone, more, last}}
	for _, w := range call.riders {
		w.decided, w.call = w.Want, call
		p.Begin(call.Choice, w.Want, noon)
	}
	var e Effects
	p.Advance(call, clock(noon), &e)
	for _, w := range e.Answered {
		want := map[*Waiter]int64{served: 2000, last: 1000}[w]
		if got := w.Answer.Grant; !got.Ahead || want == 0 || got.Parts[0].Of("rps") != want {
			t.Errorf("%+v is granted to one that wants %d", got, w.Want.Costs[0].Milli)
		}
	}
	if p.left(0, 2000); len(e.Answered) != 2 || !slices.Equal(call.riders, []*Waiter{waits, renews, more}) {
		t.Errorf("%d are served, %d ride on", len(e.Answered), len(call.riders))
	}
}

// A request that was outrun once stays outrun, whatever its next write is refused for. An answer of
// an existing bucket is a round trip, and a creation that came too late is none.
func TestOutrunOnce(t *testing.T) {
	b := seenAs(perSecond, 5)
	k := b.lock()
	defer b.mu.Unlock()
	generation := k.shards[0].image.Generation
	charge := Planned{Charges: true, Takes: true, generation: generation, clock: noon}
	add := Planned{Takes: true, generation: generation}
	for i, c := range []struct {
		plans []Planned
		trips int
		lost  bool
	}{
		{nil, 0, false}, {[]Planned{add}, 1, false}, {[]Planned{charge}, 1, true},
		{[]Planned{charge, add}, 2, true}, {[]Planned{add, charge}, 2, true},
		{[]Planned{{Creates: true, Takes: true}, add}, 1, false},
	} {
		call := &Call{riders: []*Waiter{{}, {}}}
		for _, p := range c.plans {
			call.Planned = p
			k.outbidAll(call)
		}
		for _, w := range call.riders {
			if w.trips != c.trips || w.lost != c.lost {
				t.Errorf("case %d: %d round trips, outrun %v, want %d and %v", i, w.trips, w.lost, c.trips, c.lost)
			}
		}
	}
}

// If the read of a shard that was missing a while ago fails, a plain add is sent: the failure does
// not prove that the shard is still missing.
func TestAFailedReadOfAMissingShard(t *testing.T) {
	b := NewBucket(&Settings{DenyFor: 60_000, Slack: 30, MaxShards: 32})
	b.See(imageOf(0, 2, 0), noon, Unsent)
	b.Missing(noon, 1)
	ms := int64(noon + absentFor + 4000)
	now := func() Now { return Now{Ms: ms, Mono: ms - noon, At: time.UnixMilli(ms), Trip: 4, Late: 6 * msec} }
	zero := imageOf(0, 2, 0)
	zero.State.RF, zero.State.Slots[zero.State.Index("rps")].Tokens = ms, 0
	b.See(zero, ms, Unsent)
	var e Effects
	b.Ask(&Waiter{Want: asks(1, perSecond)}, true, now, &e)
	c := e.Calls[0]
	b.Advance(c, now, &e)
	check.MustEqual(t, c.Next, Meet, "the next step")
	b.Done(c, Outcome{Err: &store.Failure{Kind: store.Throttled, Op: "BatchGetItem"}}, now, &e)
	if b.Advance(c, now, &e); c.Next != Send || c.Choice.Shard != 1 {
		t.Errorf("next is %d on shard %d, want a write", c.Next, c.Choice.Shard)
	}
}

// A step that queues waiters behind two calls makes both be overtaken when they are late.
func TestStoryOfTwoCallsThatMayBeLate(t *testing.T) {
	b := seenAs(perSecond, 5, 5)
	now := Now{Ms: noon, At: time.UnixMilli(noon)}
	k := b.lock()
	defer b.mu.Unlock()
	var e Effects
	var calls []*Call
	for shard := range 2 {
		calls = append(calls, &Call{Choice: Choice{Do: Take, Shard: shard}, began: now.At})
		k.shards[shard].call = calls[shard]
		for range 2 {
			w := &Waiter{Want: asks(1, perSecond), decided: asks(1, perSecond)}
			k.send(w, Choice{Do: Take, Shard: shard}, now, &e)
		}
	}
	if len(e.Queued) != 4 || len(e.Late) != 2 || e.Late[0].Call != calls[0] || e.Late[1].Call != calls[1] {
		t.Errorf("%d wait, %+v may be late", len(e.Queued), e.Late)
	}
}

// The rounds of a request are bounded, even for the first of a group after many: it is not sent
// again.
func TestStoryOfManyRounds(t *testing.T) {
	s := newStory(t, 10)
	w := &Waiter{Want: asks(1, perSecond), Attempt: Attempt{Calls: MaxRounds - 2}}
	var e Effects
	s.b.Ask(w, true, s.now, &e)
	c := e.Calls[0]
	for n := 1; ; n++ {
		if s.advance(c, 1); c.Last() {
			check.Equal(t, n, 2, "last after writes")
			break
		}
		s.b.Returned(c, false) // throttled, and planned again
	}
	s.b.Done(c, Outcome{Err: errors.New("throttled")}, s.now, &e)
	s.atRest()
}
