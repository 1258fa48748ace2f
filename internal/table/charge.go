package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Charge is one charge on a shard whose image is known: it picks, of the three
// write shapes, the one that is exact for what the image shows by now.
//
//	spend   levels cover the cost and have room for what accrued: no clock
//	top     everything is full: capacity less the cost, whoever wrote last
//	refill  anything else: credits what is due since the image
//
// Each is one conditional update; when the item has changed so that the shape
// would be wrong, the condition fails and brings the image to decide again from.
type Charge struct {
	Image  Bucket
	Limits []bucket.Limit // the limits in force
	Costs  []Cost         // one per limit in force
	Now    int64
	Life   Lifetime
	// Force takes the costs whether or not they are covered, into debt.
	Force bool
	// Headroom is that of [Refill.Headroom], for when others write at the same
	// time.
	Headroom int64
	// Guess says that the image is not of this moment. Where others write at
	// the same time (Headroom is set), a bucket that is full by its image has
	// most likely been topped by one of them within the headroom, and has the
	// room that this made: the charge is a spend on that condition.
	Guess bool
}

// Shape names a write shape.
type Shape string

// The shapes of a charge.
const (
	ShapeSpend  Shape = "spend"
	ShapeTop    Shape = "top"
	ShapeRefill Shape = "refill"
)

// Charged is a planned charge.
type Charged struct {
	Verdict bucket.Verdict // whether the levels, refilled to now, cover the costs
	Short   string         // the limit that takes longest, empty when granted
	Hot     bool           // the write meter is exhausted even after its refill
	Shape   Shape
	Update  item.Update // to be written if the verdict is granted, or by force
}

// Plan picks the shape. It is pure.
func (c Charge) Plan() Charged {
	clean := c.Image.State.Matches(c.Limits) && len(c.Image.Partial) == 0 && !c.Image.State.NoClock &&
		bucket.SubSat(c.Image.State.RF, c.Now) <= bucket.MaxSkew && c.Image.State.Index(bucket.WCU) >= 0
	lives := c.Image.TTL == 0 || c.Image.TTL > c.asSpend(false).safeTTL()
	granted := Charged{Verdict: bucket.Verdict{Granted: true, At: c.Now, Slot: -1}, Shape: ShapeSpend}
	levels, meter := c.covered()
	if clean && lives && levels && meter {
		if u, ok := c.spend(false); ok {
			granted.Update = u
			return granted
		}
	}
	plan := Refill{
		Image: c.Image, Want: c.Limits, Costs: c.Costs, Now: c.Now, Life: c.Life,
		Force: c.Force, Headroom: c.Headroom,
	}.Plan()
	out := Charged{Verdict: plan.Verdict, Short: plan.Short, Hot: plan.Hot, Shape: ShapeRefill, Update: plan.Update}
	if !plan.Verdict.Granted && !c.Force {
		return out
	}
	if clean && lives && levels && plan.Hot {
		// Only the meter objects, and refilling does not help it: do not add a
		// race for the clock to a partition that is too busy already.
		if u, ok := c.spend(true); ok {
			out.Shape, out.Update = ShapeSpend, u
			return out
		}
	}
	if clean && len(c.Image.State.Slots) <= maxSlots {
		if u, ok := c.top(); ok {
			out.Shape, out.Update = ShapeTop, u
			if u, ok := c.guess(); ok && lives {
				out.Shape, out.Update = ShapeSpend, u
			}
		}
	}
	return out
}

// guess returns the spend that holds if the bucket was topped, with headroom,
// within that headroom.
func (c Charge) guess() (item.Update, bool) {
	since := bucket.SubSat(c.Now, c.Headroom)
	if !c.Guess || c.Headroom == 0 || c.Image.State.RF >= since {
		return item.Update{}, false
	}
	topped := c
	topped.Image.State.RF, topped.Image.State.Slots = since, nil
	return topped.spend(false)
}

func (c Charge) spend(unmetered bool) (item.Update, bool) { return c.asSpend(unmetered).Plan() }

func (c Charge) asSpend(unmetered bool) Spend {
	return Spend{
		Image: c.Image, Limits: c.Limits, Costs: c.Costs, Now: c.Now, Unmetered: unmetered, Force: c.Force,
	}
}

// covered tells whether the stored levels, without any refill, cover the costs,
// and whether the write meter has a write left.
func (c Charge) covered() (levels, meter bool) {
	levels = true
	for _, cost := range c.Costs {
		i := c.Image.State.Index(cost.Limit)
		if i < 0 || (!c.Force && c.Image.State.Slots[i].Tokens < cost.Milli) {
			levels = false
		}
	}
	i := c.Image.State.Index(bucket.WCU)
	return levels, i >= 0 && c.Image.State.Slots[i].Tokens >= bucket.WCUPerWrite
}
