package decide

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A cost that no shard covers is divided among them in whole tokens, the fullest first. A shard in
// debt in any limit pays nothing, and together they must hold enough.
func TestShardsPayTogether(t *testing.T) {
	first := bucket.Limit{Name: "rps", Capacity: 40_000, Amount: 4000, Period: 1000} // 10 for each shard
	other := bucket.Limit{Name: "tps", Capacity: 40_000, Amount: 4000, Period: 1000}
	soft := other
	soft.Soft = true
	type levels [2]int64 // of both limits, in millitokens
	for _, c := range []struct {
		name   string
		second bucket.Limit
		shards []levels
		cost   [2]int64 // in tokens
		want   string   // shard:rps/tps, in tokens
	}{
		{"two pay all", other, []levels{{3_500, 9_000}, {2_200, 9_000}, {4_000, 9_000}, {0, 0}}, [2]int64{7, 2},
			" 2:4/2 0:3/0"},
		{"none is enough", other, []levels{{3_500, 9_000}, {2_200, 9_000}, {1_000, 9_000}, {900, 0}}, [2]int64{7, 0}, ""},
		{"one is in debt", other, []levels{{4_000, 9_000}, {4_000, -1}, {3_000, 9_000}, {0, 0}}, [2]int64{8, 0}, ""},
		{"only a soft one is asked", soft, []levels{{4_000, 9_000}, {4_000, 9_000}, {0, 0}, {0, 0}}, [2]int64{0, 20}, ""},
		{"its debt is soft", soft, []levels{{5_000, 9_000}, {4_000, -1}, {3_000, 9_000}, {0, 0}}, [2]int64{9, 0},
			" 0:5/0 1:4/0"},
	} {
		var images []table.Shard
		for k, l := range c.shards {
			image := shardOf(bucket.New([]bucket.Limit{first, c.second}, k, 4, noon))
			image.State.Slots[image.State.Index("rps")].Tokens = l[0]
			image.State.Slots[image.State.Index("tps")].Tokens = l[1]
			images = append(images, image)
		}
		w := asks(0)
		w.Costs = table.Costs([]bucket.Limit{first, c.second}, c.cost[0]*bucket.Milli, c.cost[1]*bucket.Milli)
		got := ""
		for _, p := range ByLevels(images, w, noon) {
			got += fmt.Sprintf(" %d:%d/%d", p.Image.State.Shard, p.Costs[0].Milli/bucket.Milli, p.Costs[1].Milli/bucket.Milli)
		}
		check.Equal(t, got, c.want, c.name)
	}
}

// A full shard pays only if it is not shown too low by more than the slack: others have taken 3 of
// its 10 since the image, which would be lost.
func TestAPaymentShowsAFullShardNoLower(t *testing.T) {
	image, now := imageOf(0, 2, 5), imageOf(0, 2, 5)
	sl := &now.State.Slots[now.State.Index("rps")]
	sl.Tokens, sl.Used = 2000, sl.Used+3000
	w := asks(1, perSecond)
	for slack, pays := range map[int64]bool{0: true, 20: false, 80: true} {
		write := Payment{Image: image, Costs: w.Costs}.Write(w, noon, slack)
		if _, held, err := write.Apply(now.Item()); err != nil || held != pays {
			t.Errorf("slack of %d %%: pays %v, %v, want %v", slack, held, err, pays)
		}
	}
}

// Shards are sorted by their level of the first limit that has a cost and may deny.
func TestShardsAreOrderedByTheFirstDenyingLimit(t *testing.T) {
	limits := []bucket.Limit{each("a", 1), each("b", 1)}
	image := func(shard int, a, b int64) table.Shard {
		s := shardOf(bucket.New(limits, shard, 4, noon))
		s.State.Slots[s.State.Index("a")].Tokens, s.State.Slots[s.State.Index("b")].Tokens = a, b
		return s
	}
	for _, c := range []struct {
		costs [2]int64
		soft  bool // the first limit
		want  int
	}{{[2]int64{1, 1}, false, 1}, {[2]int64{0, 1}, false, -1}, {[2]int64{1, 1}, true, -1}, {[2]int64{0, 0}, false, 2}} {
		w := asks(0)
		if w.Costs = table.Costs(limits, c.costs[0], c.costs[1]); c.soft {
			w.Costs[0].Limit.Soft = true
		}
		check.Equal(t, compareLevels(image(3, 900, 100), image(1, 100, 900), w, noon), c.want,
			"%v, the first is soft %v", c.costs, c.soft)
	}
}

// A shard pays its debt whatever others have taken.
func TestAPaymentIntoDebt(t *testing.T) {
	image, now := imageOf(0, 2, 1), imageOf(0, 2, 1)
	sl := &now.State.Slots[now.State.Index("rps")]
	sl.Tokens, sl.Used = 0, sl.Used+1000
	w := asks(3, perSecond)
	after, held, err := Payment{Image: image, Costs: w.Costs, Owe: true}.Write(w, noon, 30).Apply(now.Item())
	if err != nil || !held || !item.Equal(after["b_rps_tk"], item.N(-3000)) {
		t.Errorf("held %v, %v, the level is %v", held, err, after["b_rps_tk"])
	}
	if _, held, _ := (Payment{Image: image, Costs: w.Costs}).Write(w, noon, 30).Apply(now.Item()); held {
		t.Error("it pays what it does not have, and does not owe")
	}
}

// A debt is divided among all shards by their shares, in whole tokens: a cost of 10 among four
// shards of 15 each is 3, 3, 3 and 1. The first one gets the part that no share covers. If there
// are more shards than one transaction names, the others get none.
func TestShardsOweByTheirShares(t *testing.T) {
	limit := bucket.Limit{Name: "rps", Capacity: 60_000, Amount: 4000, Period: 1000}
	for _, c := range []struct {
		limit  bucket.Limit
		shards int
		cost   int64
		want   string
	}{
		{limit, 4, 10_000, " 0:3000 1:3000 2:3000 3:1000"},
		{limit, 4, 60_000, " 0:15000 1:15000 2:15000 3:15000"},
		{limit, 2, 1000, " 0:1000 1:0"},
		{limit, 1, 2500, " 0:2500"},
		{bucket.Limit{Name: "rps", Period: 1000}, 2, 5000, " 0:5000 1:0"},
	} {
		var images []table.Shard
		for k := range c.shards {
			images = append(images, shardOf(bucket.New([]bucket.Limit{c.limit}, k, c.shards, noon)))
		}
		w := asks(0)
		w.Costs = table.Costs([]bucket.Limit{c.limit}, c.cost)
		got := ""
		for _, p := range ByShares(images, w) {
			got += fmt.Sprintf(" %d:%d", p.Image.State.Shard, p.Costs[0].Milli)
			if !p.Owe || p.Image.Entity != "acme" {
				t.Errorf("%+v: %+v does not owe", c, p)
			}
		}
		if got != c.want || w.Costs[0].Milli != c.cost {
			t.Errorf("%d among %d: %q, want %q", c.cost, c.shards, got, c.want)
		}
	}
	owed := int64(0)
	pay := ByShares(make([]table.Shard, MaxPaying+1), asks(500, limit))
	for _, p := range pay {
		owed += p.Costs[0].Milli
	}
	if len(pay) != MaxPaying || owed != 500*bucket.Milli {
		t.Errorf("%d of %d shards owe %d millitokens of 500 tokens", len(pay), MaxPaying+1, owed)
	}
}

// If there are more shards than one transaction names, the fullest hundred count.
func TestHowManyShardsHoldTogether(t *testing.T) {
	limit := bucket.Limit{Name: "rps", Capacity: 1280_000, Amount: 1280_000, Period: 1000} // 10 for each of 128
	for _, c := range []struct{ shards, more, want int64 }{
		{64, 0, 64 * 20_000}, {128, 0, 100 * 10_000}, {128, 7, 100*10_000 - 93*6000},
	} {
		k := factsOf(int(c.shards))
		for i := range int(c.shards) {
			image := shardOf(bucket.New([]bucket.Limit{limit}, i, int(c.shards), noon))
			if c.more > 0 && i >= int(c.more) {
				image.State.Slots[0].Tokens = 4999 // four whole tokens
			}
			k.see(image, noon, Unsent, nil)
		}
		d := decider{facts: k, now: noon, want: asks(1, limit)}
		check.Equal(t, d.holds(d.want.Costs[0], noon), c.want, "%+v: they hold", c)
	}
}

// Shards together hold the whole tokens of each. They hold a request from the instant at which they
// have every cost, and not a millisecond before.
func TestShardsHoldARequestInWholeTokens(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	outcomes := map[string]int{}
	for n := range 1000 {
		d := anyBucket(r)
		short := func(at int64) (limit string) {
			for _, c := range d.want.Costs {
				want := d.payable(c, at) * bucket.Milli
				check.MustEqual(t, d.holds(c, at), want, "bucket %d: %d ms later they hold of %+v", n, at-d.now, c)
				if want < c.Milli && !c.Limit.Soft {
					limit = c.Limit.Name
				}
			}
			return limit
		}
		switch at, later := d.together(), d.now+2*3_600_000; {
		case at == bucket.Never:
			if outcomes["never"]++; short(later) == "" {
				t.Fatalf("bucket %d: never, though they hold it two hours later", n)
			}
		case short(at) != "":
			t.Fatalf("bucket %d: after %d ms they do not hold %s", n, at-d.now, short(at))
		case at > d.now && short(at-1) == "":
			t.Fatalf("bucket %d: they hold it before %d ms are over", n, at-d.now)
		case at > d.now:
			outcomes["later"]++
		default:
			outcomes["now"]++
		}
	}
	check.Equal(t, len(outcomes), 3, "%v: the random buckets show little", outcomes)
}

// Whatever shards hold, they pay every cost together or nothing, each in whole tokens and no more
// than it has above its floor, the fullest by the first limit first. A shard in debt pays nothing,
// and missing tokens of soft limits go to the first one's debt.
func TestShardsPayAllOrNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	paid, refused := 0, 0
	for n := range 3000 {
		d := anyBucket(r)
		var images []table.Shard
		has := make([]int64, len(d.want.Costs))
		for _, s := range d.seenOf() {
			images = append(images, s.image)
			s.underWay = nil // it does not matter here
			if s.owes(d.want, d.now) {
				continue
			}
			for i, c := range d.want.Costs {
				has[i] += max(s.level(c.Limit, d.now)-c.FloorIn(s.image.State), 0) / bucket.Milli * bucket.Milli
			}
		}
		for i := range d.want.Costs {
			d.want.Costs[i].Milli = d.want.Costs[i].Milli / bucket.Milli * bucket.Milli
		}
		enough, asks := true, false
		for i, c := range d.want.Costs {
			enough = enough && (c.Limit.Soft || has[i] >= c.Milli)
			asks = asks || c.Milli > 0 && !c.Limit.Soft
		}
		out := ByLevels(images, d.want, d.now)
		if len(out) == 0 {
			if refused++; enough && asks {
				t.Fatalf("bucket %d: nothing is paid of %v, and shards hold %v", n, d.want.Costs, has)
			}
			continue
		}
		paid++
		for i, c := range d.want.Costs {
			total := int64(0)
			for j, p := range out {
				of := p.Costs[i]
				total += of.Milli
				s := &seen{image: p.Image}
				most := max(s.level(c.Limit, d.now)-c.FloorIn(p.Image.State), 0)
				if s.owes(d.want, d.now) || of.Milli < 0 || of.Milli%bucket.Milli != 0 || of.Limit != c.Limit ||
					of.Milli > most && !(c.Limit.Soft && j == 0) {
					t.Fatalf("bucket %d: payment %d is %d of %d, of %+v", n, j, of.Milli, most, c)
				}
			}
			if total != c.Milli || !enough {
				t.Fatalf("bucket %d: %d are paid of %+v, and shards hold %v", n, total, c, has)
			}
		}
	}
	if paid < 300 || refused < 300 {
		t.Errorf("%d paid, %d refused: the random buckets show little", paid, refused)
	}
}

// No more shards pay for one request than a transaction may name.
func TestHowManyShardsPay(t *testing.T) {
	limit := bucket.Limit{Name: "rps", Capacity: 256_000, Amount: 256_000, Period: 1000}
	var images []table.Shard
	for shard := range 128 {
		image := imageOf(shard, 128, 0)
		image.State = bucket.New([]bucket.Limit{limit}, shard, 128, noon)
		image.State.Slots[image.State.Index("rps")].Tokens = bucket.Milli
		images = append(images, image)
	}
	for tokens, want := range map[int64]int{MaxPaying: MaxPaying, MaxPaying + 1: 0} {
		got := ByLevels(images, asks(tokens, limit), noon)
		check.Equal(t, len(got), want, "a cost of %d: shards pay", tokens)
	}
}
