package table

import (
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// drained is a bucket of 10 tokens, refilled by 1 per second, that several processes drain.
type drained struct {
	t      *testing.T
	limits []bucket.Limit
	stored item.Item
	now    int64
}

func newDrained(t *testing.T) *drained {
	d := &drained{t: t, now: 1_700_000_000_000, limits: []bucket.Limit{
		newRate("rpm", 10_000, 10_000),
		{Name: "tpm", Capacity: 400_000, Amount: 70_000, Period: 3_000}}}
	put, _ := Create(NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Costs: Costs(d.limits),
		Lifetime: Expires, Now: d.now, Draw: 7})
	d.stored = put.Item
	return d
}

func (d *drained) image() Shard { return decode(d.t, d.stored) }

func (d *drained) write(u item.Update) (held bool) {
	d.t.Helper()
	after, held, err := u.Apply(d.stored)
	check.Must(d.t, err)
	d.stored = after
	return held
}

// level returns the current level of a limit.
func (d *drained) level(limit string) int64 { return slotIn(d.image().State.At(d.now), limit).Tokens }

func slotIn(s bucket.State, name string) bucket.Slot { return s.Slots[s.Index(name)] }

func (d *drained) charge(b Shard, rpm, tpm int64) (held bool) {
	plan := Charge{Image: b, Costs: Costs(d.limits, rpm, tpm), Now: d.now}.Plan()
	return plan.Verdict.Granted && d.write(plan.Update)
}

// Others take, owe, give back, refill and drain between an image and the write of a drain. Refused
// or not, the returned image shows how to continue, or that nothing is left to do, after at most
// one more write. Then each level is the lower of its earlier level and the level that is zero at
// the instant. A second write changes nothing.
func TestDrainsOnlyLowerLevels(t *testing.T) {
	rng := rand.New(rand.NewPCG(40, 7))
	var held, refused, nothing int
	for range 5000 {
		d := newDrained(t)
		costs := func() []Cost {
			return Costs(d.limits, rng.Int64N(8)*1_000, rng.Int64N(300)*1_000)
		}
		step := func() {
			d.now += rng.Int64N(2_000)
			switch rng.IntN(6) {
			case 0:
				d.charge(d.image(), rng.Int64N(8)*1_000, rng.Int64N(300)*1_000)
			case 1:
				d.write(Charge{Image: d.image(), Costs: costs(), Now: d.now, Force: true}.Plan().Update)
			case 2:
				d.write(Adjust(d.image().Key(), Negative(costs())))
			case 3:
				d.write(addAt(d.now, costs()).Plan())
			case 4:
				d.write(Charge{Image: d.image(), Now: d.now}.Plan().Update)
			case 5:
				if u, ok := Drain(d.image(), d.now+rng.Int64N(20_000), d.now); ok {
					d.write(u)
				}
			}
		}
		for range rng.IntN(4) {
			step()
		}
		image := d.image()
		for range rng.IntN(4) {
			step()
		}
		until := d.now + 1 + rng.Int64N(30_000)
		want := map[string]int64{}
		before := d.image().State.At(d.now)
		for _, l := range d.limits {
			sl := slotIn(before, l.Name)
			if want[l.Name] = sl.Tokens; sl.Tokens+bucket.Potential(sl.Rest, l.Whole(), until-d.now) > 0 {
				want[l.Name] = -bucket.Potential(sl.Rest, l.Whole(), until-d.now)
			}
		}
		u, ok := Drain(image, until, d.now)
		switch {
		case !ok:
			nothing++
		case d.write(u):
			held++
		default:
			refused++
		}
		if ok && d.write(u) {
			t.Fatal("drained twice")
		}
		if u, ok := Drain(d.image(), until, d.now); ok && !d.write(u) {
			t.Fatal("refused with the stored image")
		}
		for _, l := range d.limits {
			if got := slotIn(d.image().State.At(until), l.Name).Tokens; got > 0 {
				t.Fatalf("%s is at %d at the instant", l.Name, got)
			}
			// The remainder may come from the image, or from a later write of others: less than a
			// millitoken.
			if got := d.level(l.Name); got > want[l.Name]+1 || got < want[l.Name]-1 {
				t.Fatalf("%s is at %d, want %d (of %v)", l.Name, got, want[l.Name], before)
			}
		}
	}
	t.Logf("%d held, %d refused, %d with nothing to do", held, refused, nothing)
	if min(held, refused, nothing) < 125 {
		t.Error("too few held, refused or without an effect")
	}
}

// A drain outlives the expiry of the bucket. It also binds a Python client, which uses levels
// without images.
func TestDrainOutlivesTheBucketAndBindsPython(t *testing.T) {
	d := newDrained(t)
	until := d.now + 3_600_000
	u, _ := Drain(d.image(), until, d.now)
	if d.write(u); d.image().TTL < until/1000 {
		t.Errorf("it expires %d s before the instant", until/1000-d.image().TTL)
	}
	// Python's slow path adds the refill since rf, if rf is unchanged.
	b := slotNamed(d.image(), "rpm")
	if tk := b.Tokens + (until-1-d.image().State.RF)*b.Amount/b.Period; tk >= 1_000 || tk < -1_000 {
		t.Errorf("a Python client sees %d a millisecond before the instant", tk)
	}
}
