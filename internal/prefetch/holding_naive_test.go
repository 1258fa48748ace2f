package prefetch

import (
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// naive is a second way to compute what a process holds of a shard without a new generation: the
// taken tokens, when they end, and the declared amount.
type naive struct {
	limits   []bucket.Limit
	taken    []batch // in order
	declared [2]int64
	ended    [2]int64
}

type batch struct {
	left  [2]int64
	until Instant
}

// now ends expired tokens.
func (n *naive) now(at Instant) {
	var on []batch
	for _, b := range n.taken {
		if at.Wall < b.until.Wall && at.Mono < b.until.Mono {
			on = append(on, b)
			continue
		}
		for i := range n.ended {
			n.ended[i] += b.left[i]
		}
	}
	n.taken = on
}

func (n *naive) left() (out [2]int64) {
	for _, b := range n.taken {
		for i := range out {
			out[i] += b.left[i]
		}
	}
	return out
}

func (n *naive) take(costs [2]int64) bool {
	for i, left := range n.left() {
		if left < costs[i] {
			return false
		}
	}
	for i := range costs {
		for j := range n.taken {
			part := min(costs[i], n.taken[j].left[i])
			n.taken[j].left[i] -= part
			costs[i] -= part
		}
	}
	return len(n.taken) > 0
}

// settle puts tokens back into the last batch, or takes more from it.
func (n *naive) settle(back [2]int64) bool {
	for i, left := range n.left() {
		if len(n.taken) == 0 || left+back[i] > n.declared[i] || n.taken[len(n.taken)-1].left[i]+back[i] < 0 {
			return false
		}
	}
	for i := range back {
		n.taken[len(n.taken)-1].left[i] += back[i]
	}
	return true
}

func milli(costs []table.Cost, limits []bucket.Limit) (out [2]int64) {
	for i, l := range limits {
		c, _ := table.Find(costs, l.Name)
		out[i] = c.Milli
	}
	return out
}

// Whatever is taken, granted, put back and expired, and whatever the outcomes of the charges: the
// held, declared and ended amounts agree with a second computation.
func TestHoldingIsTheSumOfItsParts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	limits := []bucket.Limit{requests, tokens}
	happened := map[string]int{}
	for run := range 300 {
		h, n := &Holding{}, &naive{limits: limits}
		image := table.Shard{Namespace: "ns", Entity: "e", Resource: "r", Generation: began << 12,
			State: bucket.New(limits, 0, 1, began)}
		wall, mono := int64(began), int64(0)
		for step := range 60 {
			wall += r.Int64N(200)
			mono += r.Int64N(200)
			now := Instant{Wall: wall, Mono: mono}
			costs := [2]int64{r.Int64N(3) * 1000, r.Int64N(4) * 700}
			bad := func(what string, got, want any) {
				t.Helper()
				t.Fatalf("run %d, step %d: %s %v, want %v", run, step, what, got, want)
			}
			switch n.now(now); r.IntN(5) {
			case 0:
				charge(t, r, h, n, image, now, happened)
			case 1, 2:
				got, want := h.Take(table.Costs(limits, costs[0], costs[1]), now), n.take(costs)
				if got != want {
					bad("granted", got, want)
				}
				if got {
					happened["granted"]++
				}
			case 3:
				back := [2]int64{costs[0] - 500, costs[1] - 700}
				got, want := h.Settle(table.Costs(limits, back[0], back[1]), now), n.settle(back)
				if got != want {
					bad("settled", got, want)
				}
				if got {
					happened["settled"]++
				}
			default:
				want := n.declared != [2]int64{} || n.ended != [2]int64{}
				if got := h.MustReport(now); got != want {
					bad("tells", got, want)
				}
			}
			for i, want := range n.left() {
				if got := h.Left(limits[i].Name, now); got != want {
					bad("left", got, want)
				}
			}
		}
	}
	for _, what := range []string{"granted", "settled", "written", "refused", "unknown"} {
		if happened[what] < 150 {
			t.Errorf("%v: the random runs show little", happened)
		}
	}
}

// charge prefetches, in both ways, and gives the charge any outcome.
func charge(t *testing.T, r *rand.Rand, h *Holding, n *naive, image table.Shard, now Instant,
	happened map[string]int) {
	t.Helper()
	take, life := [2]int64{r.Int64N(4) * 1000, r.Int64N(4) * 1000}, 100+r.Int64N(900)
	left := n.left()
	a := h.Ask(image, table.Costs(n.limits, take[0], take[1]), life, now)
	if milli(a.Left, n.limits) != left || milli(a.Declared, n.limits) != n.declared ||
		milli(a.Ended, n.limits) != n.ended ||
		milli(a.Take, n.limits) != take || a.Life != life {
		t.Fatalf("declares %+v, want %v left, %v declared, %v ended", a, left, n.declared, n.ended)
	}
	before := *n
	n.ended = [2]int64{}
	for i := range left {
		n.declared[i] = min(n.declared[i], left[i]+take[i]) // others may have read it by now
	}
	switch r.IntN(3) {
	case 0:
		happened["refused"]++
		n.declared, n.ended = before.declared, before.ended
		h.Done(Refused, table.Shard{})
	case 1:
		happened["unknown"]++
		h.Done(Unknown, table.Shard{})
	default:
		happened["written"]++
		for i := range left {
			n.declared[i] = left[i] + take[i]
		}
		if take != [2]int64{} {
			n.taken = append(n.taken, batch{take, Instant{now.Wall + life, now.Mono + life}})
		}
		h.Done(Written, image)
	}
	if h.Some() != (len(n.taken) > 0) || h.Asking() {
		t.Fatalf("holds %v, asks %v, want %v", h.Some(), h.Asking(), n.taken)
	}
}
