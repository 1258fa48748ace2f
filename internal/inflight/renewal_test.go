package inflight

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// The outcome of a renewal decides which leases go on and which have lost their slots, what is
// given back of a lease that ended meanwhile, and when the next renewal follows.
func TestOutcomesDecideWhoGoesOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		came  Outcome
		lost  bool
		back  string // given back for the finished lease
		retry float64
	}{
		{"done", Done, false, "[-2 jobs]", 131},
		{"failed", Failed, false, "[-2 jobs]", 74},
		{"refused", Refused, true, "[-2 jobs]", 0},
		{"unknown", Unknown, true, "[]", 0},
	} {
		inOffice(t, func(o *office) {
			o.Wake = func(decide.Name) {}
			stays, ends := o.job(1), o.job(2)
			o.until(71)
			r, got := o.next()
			o.want(c.name, got, "[3 jobs]")
			if back, _ := o.Release(ends, o.now()); len(back) > 0 {
				o.Errorf("%s: given back while it is moved: %v", c.name, back)
			}
			back := o.Moved(r, c.came, nil, o.now())
			o.want(c.name, costs(back), c.back)
			for _, b := range back {
				if want := map[bool]int64{true: 2, false: 1}[c.came == Done]; b.End != o.begun+want*epoch {
					o.Errorf("%s: given back to the epoch that ends at %d s", c.name, (b.End-o.begun)/1000)
				}
			}
			if stays.isLost() != c.lost || ends.isLost() {
				o.Errorf("%s: lost: %t, and of the ended lease %t", c.name, stays.isLost(), ends.isLost())
			}
			if c.retry == 0 {
				if len(o.shelves) != 0 {
					o.Errorf("%s: a bucket without slots is kept", c.name)
				}
				return
			}
			o.until(c.retry - 0.1)
			_, got = o.next()
			o.want(c.name+", too early", got, "nothing")
			o.until(c.retry)
			_, got = o.next()
			o.want(c.name+", again", got, "[1 jobs]")
		})
	}
}

// A renewal takes all slots that can be moved, for each limit those of one epoch.
func TestRenewalsTakeSlotsOfOneEpoch(t *testing.T) {
	inOffice(t, func(o *office) {
		o.Wake = func(decide.Name) {}
		calls, longer := jobs, jobs
		calls.Name, longer.Name, longer.Period = "calls", "longer", 10*epoch
		another, later := jobs, o.part(jobs, 8)
		another.Period = 2 * epoch
		later.Cost.End += epoch
		wrong := o.part(another, 16)
		wrong.Cost.End = o.begun + epoch
		over := o.job(32)
		o.takes(o.part(jobs, 1), o.part(calls, 2), o.part(longer, 4), later, wrong)
		o.Release(over, o.now())
		o.until(71)
		r, got := o.next()
		o.want("renewal", got, "[1 jobs 2 calls]")
		if lost := r.LostAt() - o.begun; lost != 119_000 || r.RetryMs() != 3000 {
			o.Errorf("lost after %d ms, tried again after %d ms", lost, r.RetryMs())
		}
	})
}

// If a renewal of two limits is refused, leases have lost the slots that the item no longer counts.
// It counts either all slots that are renewed together, or none.
func TestRefusedRenewalsLoseUncountedSlots(t *testing.T) {
	for _, c := range []struct {
		name   string
		counts int64 // jobs
		end    int64 // of the item's epoch, in epochs
		lost   bool
	}{
		{"all", 3, 1, false},
		{"more", 4, 1, false},
		{"all, in the next epoch", 3, 2, false},
		{"one of the three", 1, 1, true},
		{"none", 0, 1, true},
		{"a finished epoch", 3, 3, true},
	} {
		inOffice(t, func(o *office) {
			o.Wake = func(decide.Name) {}
			calls := jobs
			calls.Name = "calls"
			one, two, other := o.job(1), o.job(2), o.takes(o.part(calls, 2))
			o.until(71)
			r, got := o.next()
			o.want("renewal", got, "[3 jobs 2 calls]")
			b := &table.Shard{State: bucket.New([]bucket.Limit{jobs}, 0, 1, o.now())}
			sl := &b.State.Slots[b.State.Index("jobs")]
			sl.End, sl.Taken = o.begun+c.end*epoch, bucket.Taken{}
			sl.Taken[bucket.EpochSlot(jobs.Epoch(o.begun+epoch))] = c.counts * bucket.Milli
			o.Moved(r, Refused, b, o.now())
			if one.isLost() != c.lost || two.isLost() != c.lost || !other.isLost() {
				t.Errorf("%s: lost: %t and %t, and of the other limit %t", c.name, one.isLost(), two.isLost(), other.isLost())
			}
		})
	}
}
