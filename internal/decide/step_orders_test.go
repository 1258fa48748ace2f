package decide

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// The client in every order of events: requests ask, writes arrive, answers arrive or are lost,
// callers leave, calls are late, time passes. Two processes, one table, no clock and no goroutine.

// perFive is the limit of these worlds: five tokens, one of which refills in 100 ms.
var perFive = bucket.Limit{Name: "rps", Capacity: 5000, Amount: 1000, Period: 100}

// besidePerFive is their second limit, which never decides.
var besidePerFive = bucket.Limit{Name: "tps", Capacity: 9000, Amount: 9000, Period: 1000}

// orders is one run of a world, in the order that the choices determine.
type orders struct {
	world
	choices *choices
	table   map[item.Key]item.Item
	ms      int64
	begun   int64 // tokens in the table at the start
	applied int64 // millitokens taken by writes
	lost    int64 // of these, taken by writes whose answer was lost
	granted int64 // to callers that had not left
	left    int64 // to be given back
	procs   [2]*Bucket
	waiting []*Waiter
	gone    map[*Waiter]bool
	calls   []*carried
	ticks   int
	diffs   []*settles
	alone   []*alone
	again   []again
	back    int64 // millitokens given back by settlements
}

// settles is a token that the caller of a granted request gives back, waiting until that is
// written.
type settles struct {
	*Difference
	proc    int
	applied int  // by this many writes
	ended   int  // results received by the caller
	unknown bool // the last result
	back    bool // its caller has left in time
}

// alone is a write that settles alone.
type alone struct {
	proc    int
	all     []*Difference
	arrived bool
}

// again is when a process is next asked for due differences.
type again struct {
	proc int
	ms   int64
}

// world is the initial state of a run.
type world struct {
	name   string
	shards int     // zero: there is no bucket
	seen   [2]bool // which processes have seen it
	asks   [2]int  // requests of each process
	cost   int64
	settle int // this many requests of process 0 give a token back
	faults int // this many optional faults
	defect string
}

// carried is a call of a process.
type carried struct {
	*Call
	proc  int
	held  *bool // its write has arrived: whether it holds
	image *table.Shard
	costs int64
}

// choices iterates over all sequences of choices, the last one first, or takes one at random.
type choices struct {
	path, width []int
	at          int
	random      *rand.Rand
}

func (c *choices) pick(n int) int {
	if c.random != nil {
		c.path = append(c.path, c.random.IntN(n))
		return c.path[len(c.path)-1]
	}
	if c.at == len(c.path) {
		c.path, c.width = append(c.path, 0), append(c.width, n)
	}
	c.at++
	return c.path[c.at-1]
}

// next moves to the next sequence, and reports whether there is one.
func (c *choices) next() bool {
	for c.at = 0; len(c.path) > 0; {
		last := len(c.path) - 1
		if c.path[last]++; c.path[last] < c.width[last] {
			return true
		}
		c.path, c.width = c.path[:last], c.width[:last]
	}
	return false
}

func (o *orders) now() Now {
	return Now{Ms: noon + o.ms, Mono: o.ms, At: time.UnixMilli(noon + o.ms), Trip: 4, Late: 6 * msec}
}

// begin sets up the world.
func (o *orders) begin() {
	o.table, o.gone = map[item.Key]item.Item{}, map[*Waiter]bool{}
	limits := []bucket.Limit{perFive, besidePerFive}
	var images []table.Shard
	for shard := range o.shards {
		image := shardOf(bucket.New(limits, shard, o.shards, noon))
		if slot := &image.State.Slots[image.State.Index("rps")]; o.shards == 1 {
			slot.Tokens = 3000
		}
		o.begun += image.State.Slots[image.State.Index("rps")].Tokens
		images = append(images, image)
		o.table[image.Key()] = image.Item()
	}
	if o.shards == 0 {
		o.begun = perFive.Capacity
	}
	for p := range o.procs {
		o.procs[p] = NewBucket(&Settings{DenyFor: 1000, Slack: 30, MaxShards: 2})
		for _, image := range images {
			if o.seen[p] {
				o.procs[p].See(image, noon, Unsent)
			}
		}
	}
}

// actions returns what can happen next.
func (o *orders) actions() (all []func()) {
	for p := range o.procs {
		if o.asks[p] > 0 {
			all = append(all, func() { o.ask(p) })
		}
	}
	if i := len(o.diffs); i < o.settle && o.granted >= int64(i+1)*o.cost*bucket.Milli {
		all = append(all, o.handOver)
	}
	for i := range o.again {
		if o.faults > 0 {
			all = append(all, func() { o.faults--; o.due(i) })
		}
	}
	for _, a := range o.alone {
		if all = append(all, func() { o.write(a) }); o.faults > 0 {
			all = append(all, func() { o.faults--; o.end(a, true) })
		}
	}
	for _, d := range o.diffs {
		if o.faults > 0 && d.ended == 0 {
			all = append(all, func() { o.faults--; o.takeBack(d) })
		}
	}
	for _, c := range o.calls {
		switch {
		case c.Next == Over:
			continue
		case c.held == nil:
			all = append(all, func() { o.arrive(c) })
		default:
			all = append(all, func() { o.answer(c) })
		}
		if o.faults == 0 {
			continue
		}
		if c.held == nil || *c.held || c.Next == Meet {
			all = append(all, func() { o.faults--; o.lose(c) })
		}
		if len(c.queue) > 0 {
			all = append(all, func() { o.faults--; o.overdue(c) })
		}
	}
	if len(all) == 0 { // the rest can happen only while something else does
		return nil
	}
	if o.faults > 0 {
		for _, w := range o.waiting {
			if !w.answered && !o.gone[w] {
				all = append(all, func() { o.faults--; o.leave(w) })
			}
		}
		if o.ticks == 0 {
			all = append(all, func() { o.faults--; o.ticks++; o.ms += 150 })
		}
	}
	return all
}

func (o *orders) ask(p int) {
	o.asks[p]--
	w := &Waiter{Want: asks(0, perFive, besidePerFive)}
	w.Want.Costs[0].Milli = o.cost * bucket.Milli
	o.waiting = append(o.waiting, w)
	var e Effects
	o.procs[p].Ask(w, true, o.now, &e)
	o.do(p, &e)
}

// do carries out effects: calls are planned immediately, and wait for their write to arrive.
func (o *orders) do(p int, e *Effects) {
	for _, g := range e.Left {
		if o.defect != "left" {
			o.left += g.Parts[0].Of("rps")
		}
	}
	for _, w := range e.Answered {
		if w.Answer.Result == Granted {
			o.granted += w.Answer.Grant.Parts[0].Of("rps")
		}
	}
	for _, s := range e.Settled {
		o.settled(s.All, s.Image == nil)
	}
	for _, dues := range e.Dues {
		if o.defect != "alone" {
			o.settleAlone(p, dues)
		}
	}
	for _, c := range e.Calls {
		carried := &carried{Call: c, proc: p}
		o.calls = append(o.calls, carried)
		o.advance(carried)
	}
}

func (o *orders) advance(c *carried) {
	for b := o.procs[c.proc]; ; {
		var e Effects
		b.Advance(c.Call, o.now, &e)
		o.do(c.proc, &e)
		if c.Next != Siblings {
			return
		}
		key := layout.BucketKey("ns", "acme", "gpt-4", 1)
		if _, err := b.Survives(1, o.table[key], o.now().Ms); err != nil {
			panic(err)
		}
	}
}

// arrive makes the table decide the write of a call, or answer its read.
func (o *orders) arrive(c *carried) {
	if c.Next == Meet {
		c.held = new(bool)
		c.image = o.imageOf(layout.BucketKey("ns", "acme", "gpt-4", c.Choice.Shard))
		return
	}
	key := c.Write.Target()
	it, held, err := c.Write.Apply(o.table[key])
	if err != nil {
		panic(err)
	}
	if o.defect == "condition" && !held && c.Takes && o.table[key] != nil {
		u := c.Write.(item.Update)
		u.If = item.Exists(item.AttrPK)
		it, held, _ = u.Apply(o.table[key])
	}
	if c.held = &held; held {
		o.table[key] = it
		o.apply(c.rides)
		if c.Takes {
			w := c.Wants()
			c.costs = w.Costs[0].Milli
			o.applied += c.costs
		}
	}
	c.image = o.imageOf(key)
}

// imageOf returns the image of a shard in the table, nil if missing.
func (o *orders) imageOf(key item.Key) *table.Shard {
	if o.table[key] == nil {
		return nil
	}
	image, err := table.DecodeShard(o.table[key])
	if err != nil {
		panic(err)
	}
	return &image
}

// answer delivers the outcome of a call's write, or the result of its read.
func (o *orders) answer(c *carried) {
	b, held, image := o.procs[c.proc], *c.held, c.image
	c.held = nil
	var e Effects
	if !held && c.Next != Meet {
		b.Returned(c.Call, false)
	}
	b.Done(c.Call, Outcome{Held: held, Image: image}, o.now, &e)
	o.do(c.proc, &e)
	if c.Next != Over {
		o.advance(c)
	}
}

// lose loses the answer to a call that has arrived, or the call.
func (o *orders) lose(c *carried) {
	b, e := o.procs[c.proc], Effects{}
	if c.Next != Meet {
		if c.held != nil {
			o.lost += c.costs
		}
		b.Returned(c.Call, true)
	}
	c.held = nil
	b.Done(c.Call, Outcome{Err: errors.New("no answer")}, o.now, &e)
	o.do(c.proc, &e)
	if c.Next != Over { // it writes without an image
		o.advance(c)
	}
}

// handOver settles with a write under way, or otherwise alone.
func (o *orders) handOver() {
	d := &settles{Difference: &Difference{At: o.now().At, Costs: table.Costs([]bucket.Limit{perFive}, -bucket.Milli)}}
	o.diffs = append(o.diffs, d)
	o.settleAlone(0, o.procs[0].HandOver(0, d.Difference, o.now()))
}

// settleAlone settles the due differences, and asks again.
func (o *orders) settleAlone(p int, dues Dues) {
	if len(dues.All) > 0 {
		o.alone = append(o.alone, &alone{proc: p, all: dues.All})
	}
	if dues.Again > 0 {
		o.again = append(o.again, again{p, o.ms + dues.Again.Milliseconds()})
	}
}

// due asks for due differences when their time has come.
func (o *orders) due(i int) {
	next := o.again[i]
	o.again = slices.Delete(o.again, i, i+1)
	o.ms = max(o.ms, next.ms)
	o.settleAlone(next.proc, o.procs[next.proc].Due(0, false, o.now()))
}

// takeBack makes a caller leave; its result is that nothing was written, if so.
func (o *orders) takeBack(d *settles) {
	if d.back = o.procs[d.proc].TakeBack(0, d.Difference); d.back {
		d.ended++
	}
}

// apply records the settlements of a write.
func (o *orders) apply(all []*Difference) {
	for _, d := range o.diffs {
		if slices.Contains(all, d.Difference) {
			d.applied++
			o.back += bucket.Milli
		}
	}
}

// settled gives the callers their result.
func (o *orders) settled(all []*Difference, unknown bool) {
	for _, d := range o.diffs {
		if slices.Contains(all, d.Difference) {
			d.ended++
			d.unknown = unknown
		}
	}
}

// write makes a write that settles alone arrive, or its answer.
func (o *orders) write(a *alone) {
	if a.arrived {
		o.end(a, false)
		return
	}
	key := layout.BucketKey("ns", "acme", "gpt-4", 0)
	costs := table.Costs([]bucket.Limit{perFive}, -bucket.Milli*int64(len(a.all)))
	it, held, err := table.Release(key, table.Released{Back: costs}).Apply(o.table[key])
	if err != nil || !held {
		panic("a write that gives back does not hold")
	}
	o.table[key], a.arrived = it, true
	o.apply(a.all)
}

// end ends a write that settles alone, whose answer may be lost.
func (o *orders) end(a *alone, lost bool) {
	o.alone = slices.DeleteFunc(o.alone, func(b *alone) bool { return a == b })
	o.settled(a.all, lost)
	o.settleAlone(a.proc, o.procs[a.proc].Due(0, true, o.now()))
}

func (o *orders) overdue(c *carried) {
	var e Effects
	o.procs[c.proc].Overdue(c.Call, o.now().At, &e)
	o.do(c.proc, &e)
}

func (o *orders) leave(w *Waiter) {
	for _, b := range o.procs {
		if k := b.lock(); w.call != nil && k.at(w.call.Choice.Shard) != nil && slices.Contains(k.callsOf(o), w.call) {
			b.mu.Unlock()
			o.gone[w] = b.Leave(w) != Answered
			return
		}
		b.mu.Unlock()
	}
}

// callsOf returns the calls of the process with these facts.
func (k *facts) callsOf(o *orders) (all []*Call) {
	for _, c := range o.calls {
		if &o.procs[c.proc].facts == k {
			all = append(all, c.Call)
		}
	}
	return all
}

// wrong returns what is wrong, now or at the end.
func (o *orders) wrong(end bool) string {
	if most := o.begun + o.ms*10; o.applied-o.back > min(most, perFive.Capacity+o.ms*10) {
		return fmt.Sprintf("%d millitokens are taken of %d", o.applied, most)
	}
	if !end {
		return ""
	}
	if sum := o.granted + o.left + o.lost; sum != o.applied {
		return fmt.Sprintf("%d are taken; %d granted, %d to be given back, %d lost", o.applied, o.granted, o.left, o.lost)
	}
	for _, w := range o.waiting {
		if !w.answered && !o.gone[w] {
			return "a request has no answer"
		}
	}
	for _, d := range o.diffs {
		if d.ended != 1 || d.applied > 1 || d.back && d.applied > 0 || d.applied == 0 && !d.unknown && !d.back {
			return fmt.Sprintf("a settlement is written %d times, with %d results, unknown: %v", d.applied, d.ended, d.unknown)
		}
	}
	for p, b := range o.procs {
		for shard := range 2 {
			if !b.Seen(shard).Idle {
				return fmt.Sprintf("process %d: something is under way on shard %d", p, shard)
			}
		}
	}
	return ""
}

// run runs one order, and returns what is wrong.
func (o *orders) run() string {
	o.begin()
	for steps := 0; steps < 60; steps++ {
		all := o.actions()
		if len(all) == 0 {
			return o.wrong(true)
		}
		all[o.choices.pick(len(all))]()
		if wrong := o.wrong(false); wrong != "" {
			return wrong
		}
	}
	return "it does not end"
}

// every runs a world in every order.
func every(w world) (runs int, wrong string) {
	for c := (&choices{}); ; {
		runs++
		if wrong = (&orders{world: w, choices: c}).run(); wrong != "" {
			return runs, fmt.Sprintf("order %v: %s", c.path[:c.at], wrong)
		}
		if !c.next() {
			return runs, ""
		}
	}
}

var ordersWorlds = []world{
	{name: "warm", shards: 1, seen: [2]bool{true, true}, asks: [2]int{1, 1}, cost: 1, faults: 1},
	{name: "contended", shards: 1, seen: [2]bool{true, true}, asks: [2]int{2, 1}, cost: 2},
	{name: "one cold", shards: 1, seen: [2]bool{true, false}, asks: [2]int{1, 1}, cost: 2, faults: 1},
	{name: "no bucket", asks: [2]int{1, 1}, cost: 3, faults: 1},
	{name: "two shards", shards: 2, seen: [2]bool{true, true}, asks: [2]int{2, 1}, cost: 1},
	{name: "one process", shards: 1, seen: [2]bool{true, true}, asks: [2]int{3, 0}, cost: 1, faults: 2},
	{name: "settled", shards: 1, seen: [2]bool{true, true}, asks: [2]int{2, 0}, cost: 1, settle: 2, faults: 1},
	{name: "settled beside others", shards: 1, seen: [2]bool{true, true}, asks: [2]int{2, 1}, cost: 2, settle: 1},
}

// In every order, no call is over too early, every token has one owner at the end, every request an
// answer, and nothing stays under way. LONG adds one more fault.
func TestAllOrdersOfSteps(t *testing.T) {
	t.Parallel()
	for _, w := range ordersWorlds {
		if os.Getenv("LONG") != "" {
			w.faults++
		}
		runs, wrong := every(w)
		if wrong != "" {
			t.Errorf("%s: %s", w.name, wrong)
		}
		t.Logf("%s: %d orders", w.name, runs)
	}
}

// The same in random orders, with more requests and faults. SEEDS is the number of runs.
func TestRandomOrdersOfSteps(t *testing.T) {
	t.Parallel()
	seeds, err := strconv.Atoi(cmp.Or(os.Getenv("SEEDS"), "1000"))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range ordersWorlds {
		for p := range w.asks {
			w.asks[p] += 2
		}
		w.faults += 3
		for seed := range seeds {
			c := &choices{random: rand.New(rand.NewPCG(uint64(seed), 1))}
			if wrong := (&orders{world: w, choices: c}).run(); wrong != "" {
				t.Fatalf("%s, seed %d, order %v: %s", w.name, seed, c.path, wrong)
			}
		}
	}
}

// Planted defects are found: tokens of callers that left are kept, a write without its condition,
// and settlements that are not sent.
func TestAllOrdersSeePlantedDefects(t *testing.T) {
	t.Parallel()
	for _, defect := range []string{"left", "condition", "alone"} {
		if !slices.ContainsFunc(ordersWorlds, func(w world) bool {
			w.defect = defect
			_, wrong := every(w)
			return wrong != ""
		}) {
			t.Errorf("%s: not seen", defect)
		}
	}
}
