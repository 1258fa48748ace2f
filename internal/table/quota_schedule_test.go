package table

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck/loadchecktest"
)

// This world has a rate whose schedule has an edge every few minutes, with raises. Processes write
// with stale images and lost answers; in every third world their clocks differ by a second and
// writes are late. A second computation is a bucket whose limit is changed at each edge. The item
// never holds more than it, except for the refill of the time by which clocks differ. If one
// process writes from fresh images, it holds no less.
type scheduleWorld struct {
	*bucketWorld
	alone  bool         // one process, with fresh images
	apart  int64        // by how many ms writes may be behind the clock of the item
	byHand bucket.State // with limits without a schedule
	bare   bool         // raises only, without a schedule
	raises []bucket.Raise
	most   int64 // the fastest refill, in millitokens per millisecond
}

// The defects that can be planted.
const (
	knowsNone = "a client knows no schedules"
)

// In each ten minutes, scheduleOf has a capacity of 20 and 2 a second from the second minute, a
// tenth of everything from the fifth, and a capacity of 90 from the eighth. Otherwise the limit is
// 50 and 5 a second.
const scheduleOf = "m2-4,12-14,22-24,32-34,42-44,52-54c20a2;m5,15,25,35,45,55s100;" +
	"m8-9,18-19,28-29,38-39,48-49,58-59c90@UTC"

// inMinute returns the same limit computed separately: capacity and amount in millitokens.
func inMinute(m int64) (capacity, amount int64) {
	switch m % 10 {
	case 2, 3, 4:
		return 20_000, 2000
	case 5:
		return 5000, 500
	case 8, 9:
		return 90_000, 5000
	}
	return 50_000, 5000
}

func newScheduleWorld(seed uint64, planted string) *scheduleWorld {
	r := loadchecktest.New(seed, 21)
	w := &scheduleWorld{alone: planted == "" && seed%3 == 0}
	processes := 4
	switch {
	case w.alone:
		processes = 1
	case seed%3 == 1:
		w.apart, r.Lost = 1000, 6
		r.Late = func() int64 { return max(0, r.Int64N(100_000)-90_000) }
	default:
		r.Lost = 6
	}
	l, err := bucket.Limit{Name: "r", Capacity: 50_000, Amount: 5000, Period: 1000}.WithSchedule(scheduleOf)
	if err != nil {
		r.Fail("%w", err)
	}
	if w.bare = seed%5 == 4; w.bare {
		l, _ = l.WithSchedule("")
	}
	w.most = 5
	for range r.IntN(4) {
		w.raises = append(w.raises, bucket.Raise{Tokens: 1 + r.Int64N(10), End: r.Now + r.Int64N(1<<25)})
		w.most += w.raises[len(w.raises)-1].Tokens
	}
	l = l.WithRaises(bucket.FormOfRaises(w.raises))
	limits := []bucket.Limit{l, newRate("s", 500_000, 60_000)}
	if seed%2 == 0 { // its edges are also edges of the schedule
		limits = append(limits, newQuota("t", 900_000, "m*/5@UTC"))
	}
	w.bucketWorld = newBucketWorld(r, planted, limits, processes, w.apart)
	b, _ := w.shard(0)
	w.byHand = bucket.New([]bucket.Limit{w.plain(b.State.RF)}, 0, 1, b.State.RF)
	w.byHand.Slots[0].Tokens = w.slot(0, "r").Tokens
	return w
}

func (w *scheduleWorld) plain(at int64) bucket.Limit {
	capacity, amount, more := int64(50_000), int64(5000), int64(0)
	if !w.bare {
		capacity, amount = inMinute((at - bucket.EdgeMargin) / 60_000)
	}
	for _, r := range w.raises {
		if at < r.End+bucket.EdgeMargin {
			more += r.Tokens * bucket.Milli
		}
	}
	return bucket.Limit{Name: "r", Capacity: capacity + capacity*more/amount, Amount: amount + more, Period: 1000}
}

// follow advances the second computation to the instant of a write, and takes the cost.
func (w *scheduleWorld) follow(now, cost int64) {
	now = max(now, w.byHand.RF)
	var edges []int64
	for m := (w.byHand.RF-bucket.EdgeMargin)/60_000*60_000 + 60_000 + bucket.EdgeMargin; m <= now; m += 60_000 {
		edges = append(edges, m)
	}
	for _, r := range w.raises {
		if m := r.End + bucket.EdgeMargin; m > w.byHand.RF && m <= now {
			edges = append(edges, m)
		}
	}
	slices.Sort(edges)
	for _, m := range edges {
		if w.plain(m) != w.plain(m-1) {
			w.byHand, _ = w.byHand.At(m).Adopt(w.plain(m))
			w.Count("edges")
		}
	}
	w.byHand = w.byHand.At(now).Take([]int64{cost, 0})
	b, _ := w.shard(0)
	at := b.State.At(now)
	got, want := at.Slots[at.Index("r")], w.byHand.Slots[0]
	switch {
	case got.Tokens > want.Tokens+1+2*w.apart*w.most: // storing before an edge may lose a millitoken
		w.Fail("at %d it holds %d of %d, by hand %d of %d", now, got.Tokens, got.Capacity, want.Tokens, want.Capacity)
	case w.alone && got.Tokens < want.Tokens-1:
		w.Fail("at %d it has lost %d of %d", now, want.Tokens-got.Tokens, want.Tokens)
	case w.apart == 0 && (got.Capacity != want.Capacity || got.Amount != want.Amount):
		w.Fail("at %d %v is in force, by hand %v", at.RF, got.Limit, want.Limit)
	}
	it := w.Items[layout.BucketKey("ns", "e", "r", 0)]
	if until, has, _ := item.Int(it, "vu"); until <= b.State.RF && (has || !w.bare) {
		w.Fail("at %d it is valid until %d", b.State.RF, until)
	}
	if own, _, _ := item.Int(it, "b_r_cp"); own != 50_000 {
		w.Fail("it stores the capacity %d, not its own", own)
	}
}

func (w *scheduleWorld) Step() {
	switch w.IntN(10) {
	case 0, 1, 2, 3:
		w.Pass(w.Int64N(3000))
	case 4:
		w.Pass(w.Int64N(200_000))
	case 5:
		w.PassToEdge(60_000, 1500)
	}
	p := w.anybody()
	b, _ := w.shard(0)
	if w.alone || w.OneIn(2) {
		p.see(b)
	}
	image, known := p.images[0]
	limits := slices.Clone(w.limits)
	if known && w.planted == knowsNone {
		limits[0] = limits[0].Own()
		limits[0].Plan = ""
		image.State.Slots = slices.Clone(image.State.Slots)
		image.State.Slots[image.State.Index("r")].Limit = limits[0]
	}
	c := Charge{Image: image, Costs: Costs(limits, w.Int64N(9)*bucket.Milli, w.Int64N(3)*bucket.Milli),
		Now: w.clock(p), Slack: 20, Force: known && w.OneIn(8), Refill: known && w.OneIn(9)}
	u, granted := w.planned(0, c, known)
	if !granted && !c.Force {
		return
	}
	cost := c.Costs[0].Milli
	if c.Refill {
		cost = 0
	}
	w.call(p, u, loadchecktest.Call{Arrived: func(bool) {
		w.Count("writes")
		w.follow(c.Now, cost)
	}}, func() {})
}

var schedules = loadchecktest.Kind[*scheduleWorld]{New: newScheduleWorld, Steps: 600, Worlds: 45, Short: 30,
	Env:   "KINDS",
	Least: map[string]float64{"writes": 100, "edges": 10}}

// TestSchedulesAreExact runs KINDS worlds, by default 45.
func TestSchedulesAreExact(t *testing.T) { schedules.Keeps(t) }

func TestScheduleWorldSeesPlantedDefects(t *testing.T) {
	schedules.Sees(t, 20, 15, knowsNone)
}

// hourOf is the beginning of an hour.
const hourOf = int64(1_790_000_000_000) / 3_600_000 * 3_600_000

// began returns a bucket with one rate at an instant: 1 a minute, unless a window changes it.
func began(t *testing.T, now, capacity int64, form string) (bucket.Limit, item.Item) {
	t.Helper()
	l := bucket.Limit{Name: "r", Capacity: capacity * bucket.Milli, Amount: bucket.Milli, Period: 60_000}
	l, err := l.WithSchedule(form)
	check.Must(t, err)
	put, _ := create(now, Costs([]bucket.Limit{l}))
	return l, put.Item
}

// Held tokens count in a window too: if 80 of 100 are held in a window of 10, 20 are left, not 90.
func TestHeldTokensCountInAWindow(t *testing.T) {
	now := hourOf + 15*60_000
	l, it := began(t, now, 10, "m10-29c100a100@UTC")
	limits := []bucket.Limit{l}
	u := Charge{Image: decode(t, it), Now: now, Costs: Costs(limits, 90_000),
		Ahead: &Ahead{Life: 120_000, Take: Costs(limits, 80_000)}}.Plan()
	after := applied(t, u.Update, it)
	sl := slotNamed(decode(t, after), "r")
	check.Equal(t, sl.Held, 80_000, "80,000 are held, the image says")
	u = Charge{Image: decode(t, after), Now: now + 100_000, Costs: Costs(limits, 90_000)}.Plan()
	check.Equal(t, u.Verdict.Granted, false, "90 are granted while 80 of 100 are held")
}

// A window since the image has cut the level. A forced settlement from that image leaves no debt.
func TestPassedWindowsLeaveNoDebt(t *testing.T) {
	l, it := began(t, hourOf+9*60_000, 100, "m10-14c10@UTC")
	stale, limits := decode(t, it), []bucket.Limit{l}
	u := Charge{Image: stale, Now: hourOf + 9*60_000 + 30_000, Costs: Costs(limits, 60_000)}.Plan()
	it = applied(t, u.Update, it)
	u = Charge{Image: stale, Now: hourOf + 16*60_000, Costs: Costs(limits, 1000), Force: true}.Plan()
	check.Equal(t, holds(t, u.Update, it), false, "stored; a refusal brings an image")
}

// Two processes have zone data that differ by up to three hours, so each sees the item in a zone
// with another offset. Each of three edges begins the quota once, in every order of charges before,
// between and after the processes' edges: an earlier edge never replaces a later one, even if their
// distances differ.
func TestProcessesWithDifferentZoneDataBeginAPeriodOnce(t *testing.T) {
	const hour, day = 3600_000, 86_400_000
	const year = 20_819 * day // 2027, of UTC
	for _, tt := range []struct {
		reset string
		edges [3]int64
		zones [2]string
	}{
		{"m0h0@UTC", [3]int64{year, year + day, year + 2*day}, [2]string{"UTC", "Etc/GMT+1"}},
		{"m0h0@UTC", [3]int64{year, year + day, year + 2*day}, [2]string{"Etc/GMT-1", "Etc/GMT+2"}},
		{"m0h0D1,2@UTC", [3]int64{year, year + day, year + 31*day}, [2]string{"UTC", "Etc/GMT+1"}},
		{"m0h0D1M1,2@UTC", [3]int64{year, year + 31*day, year + 365*day}, [2]string{"UTC", "Etc/GMT-1"}},
	} {
		for pattern := range 1 << 9 {
			it := shardWith(t, tt.reset, year-6*hour, nil)
			granted := 0
			for slot := range 9 {
				// After both processes' last edges, between their edges, and before: every charge
				// takes what is left.
				at := tt.edges[slot/3] + []int64{-90 * 60_000, 30 * 60_000, 5 * hour}[slot%3]
				zone := tt.zones[pattern>>slot&1]
				for {
					after, ok := chargeAs(t, it, zone, at)
					if !ok {
						break
					}
					it = after
					granted += 2
				}
			}
			if want := 6 + 3*10; granted != want { // the rest of the first period, and the quota after each edge
				t.Fatalf("%s, %v, pattern %09b: %d granted at three edges, want %d",
					tt.reset, tt.zones, pattern, granted, want)
			}
		}
	}
}

// A day and a month end at different edges, which may be an hour later by others' zone data. Both
// ends are stored, and every reader uses them. A quota that never ends has none.
func TestEveryPeriodHasAnEndOfItsOwn(t *testing.T) {
	const hour, day = 3600_000, 86_400_000
	const year = 20_819 * day // 2027, of UTC
	limits := []bucket.Limit{newQuota("day", 10_000, "m0h0@UTC"), newQuota("month", 10_000, "m0h0D1@UTC"),
		newQuota("never", 10_000, "m0h0D1@UTC")}
	b := imageOf(1, limits, 0, 1, year+5*hour)
	ends := map[string]int64{"day": year + day, "month": year + 31*day + hour, "never": bucket.Never}
	for i := range b.State.Slots {
		if end, ok := ends[b.State.Slots[i].Name]; ok {
			b.State.Slots[i].End = end
		}
	}
	got := decode(t, b.Item())
	ends["never"] = year + 31*day // by the reader's own zone data
	for name, want := range ends {
		check.Equal(t, slotNamed(got, name).End, want, "%s ends at", name)
	}
}

// chargeAs takes a token as a process that expects another zone in the item.
func chargeAs(t *testing.T, it item.Item, zone string, now int64) (after item.Item, granted bool) {
	t.Helper()
	seen := maps.Clone(it)
	seen["sched_tz"] = item.S(zone)
	b := decode(t, seen)
	plan := Charge{Image: b, Costs: Costs(b.State.Limits(), 2*bucket.Milli), Now: now}.Plan()
	if !plan.Verdict.Granted {
		return it, false
	}
	return applied(t, plan.Update, it), true
}

// A charge within a period does not write the attributes of a quota's calendar and period. If two
// quotas have different zones, the item has the zone of one, and the other stores its own, as long
// as the first exists. Then the other's zone is stored in the item. The zone stays when the last
// calendar is removed, and is never empty: no client can read an item whose zone has no name.
func TestChargesWriteOnlyChangedCalendars(t *testing.T) {
	const now = 1_800_000_000_000
	quota := func(name, zone string) bucket.Limit { return newQuota(name, 10_000, "m0h0@"+zone) }
	tokyo, utc, paris := quota("a", "Asia/Tokyo"), quota("b", "UTC"), quota("b", "Europe/Paris")
	rate := newRate("a", 10_000, 60_000)
	first, other := tokyo, rate
	first.Reset, other.Name = "+3600", "rpm"
	for _, c := range []struct {
		name         string
		before, then []bucket.Limit
		zone         string   // stored after the charge
		sets         []string // attributes of calendars that the charge sets
	}{
		{"one quota", []bucket.Limit{utc}, []bucket.Limit{utc}, "UTC", nil},
		{"two zones", []bucket.Limit{tokyo, utc}, []bucket.Limit{tokyo, utc}, "Asia/Tokyo", nil},
		{"another calendar", []bucket.Limit{tokyo, utc}, []bucket.Limit{tokyo, paris}, "Asia/Tokyo",
			[]string{"b_b_rsched"}},
		{"a new quota", []bucket.Limit{utc}, []bucket.Limit{tokyo, utc}, "UTC", []string{"b_a_rsched"}},
		{"the zone goes", []bucket.Limit{tokyo, utc}, []bucket.Limit{rate, utc}, "UTC", []string{"b_b_rsched", "sched_tz"}},
		{"a rate becomes a quota", []bucket.Limit{rate}, []bucket.Limit{tokyo}, "Asia/Tokyo",
			[]string{"b_a_rsched", "sched_tz"}},
		{"the last one becomes a rate", []bucket.Limit{tokyo}, []bucket.Limit{rate}, "Asia/Tokyo", nil},
		{"it is removed", []bucket.Limit{tokyo}, []bucket.Limit{other}, "Asia/Tokyo", nil},
		{"it becomes a first-use quota", []bucket.Limit{tokyo}, []bucket.Limit{first}, "Asia/Tokyo", nil},
	} {
		put, b := create(now, Costs(c.before, 0, 0))
		u := Charge{Image: b, Costs: Costs(c.then, 1000, 1000), Now: now + 1000}.Plan().Update
		after := applied(t, u, put.Item)
		var sets []string
		for _, a := range u.Set {
			if strings.HasSuffix(a.Name, "_rsched") || a.Name == "sched_tz" {
				sets = append(sets, a.Name)
			}
		}
		slices.Sort(sets)
		if !slices.Equal(sets, c.sets) || !item.Equal(after["sched_tz"], item.S(c.zone)) {
			t.Errorf("%s: sets %v, zone %v, want %v, %s", c.name, sets, after["sched_tz"], c.sets, c.zone)
		}
		got := decode(t, after)
		for _, l := range c.then {
			if i := got.State.Index(l.Name); i < 0 || got.State.Slots[i].Limit != l {
				t.Errorf("%s: %v, want %v", c.name, got.State, l)
			}
		}
	}
}
