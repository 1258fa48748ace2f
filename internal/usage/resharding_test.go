package usage

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// quiet returns a change of shard 0 of a bucket that last split 600 s before.
func quiet(shards int) stream.Change {
	c := spends(0, shards, 1)
	c.New.Generation = (t0 - 600_000) << 12
	return c
}

func TestCoolBucketMerges(t *testing.T) {
	for _, c := range []struct {
		name  string
		edit  func(c *stream.Change)
		merge bool
	}{
		{"cool", func(*stream.Change) {}, true},
		{"not for long", func(c *stream.Change) { c.New.Generation += 1 << 12 }, false},
		{"unknown since when", func(c *stream.Change) { c.New.Generation = 0 }, false},
		{"no clock", func(c *stream.Change) { c.New.State.NoClock = true }, false},
		{"the meter before the limits", func(c *stream.Change) {
			l := bucket.Limit{Name: "zzz", Capacity: 1 << 40, Amount: 1 << 40, Period: 1000}
			c.New.State = bucket.New([]bucket.Limit{l}, 0, 4, t0)
		}, true},
		{"no meter", func(c *stream.Change) { c.New.State.Slots = c.New.State.Slots[:2] }, false},
		{"meter nearly full", func(c *stream.Change) { c.New.State.Slots[2].Tokens = 900_000 }, true},
		{"meter used", func(c *stream.Change) { c.New.State.Slots[2].Tokens = 899_999 }, false},
		{"whole", func(c *stream.Change) { c.New.State.Shards, c.OldShards = 1, 1 }, false},
		{"just split", func(c *stream.Change) { c.OldShards = 2 }, false},
	} {
		change := quiet(4)
		c.edit(&change)
		p := decide(t0+1000, change)
		merge := len(p.Reshardings) == 1 && p.Reshardings[0].merge && p.Reshardings[0].Count == 2 &&
			p.Reshardings[0].Zero.Entity == "e"
		check.Equal(t, merge, c.merge, "%s: splits %+v", c.name, p.Reshardings)
	}
}

// Up to a tenth of a partition's capacity is cool, on every shard in the batch: within a second,
// and over a batch of a fraction of a second.
func TestBusyBucketsDoNotMerge(t *testing.T) {
	writes := func(k, n int, over, from int64) []stream.Change {
		var out []stream.Change
		for i := range n {
			c := quiet(4)
			c.New.State.Shard = k
			c.Sequence = fmt.Sprint(1000 + i)
			c.New.State.RF = t0 + from + int64(i)*over/int64(n)
			c.Created = c.New.State.RF
			out = append(out, c)
		}
		return out
	}
	for _, c := range []struct {
		name    string
		changes []stream.Change
		merge   bool
	}{
		{"100 a second", writes(0, 100, 1000, 0), true},
		{"101 a second", writes(0, 101, 1000, 0), false},
		{"100 a second for 3 s", writes(0, 300, 3000, 0), true},
		{"50 in a tenth of a second", writes(0, 50, 100, 0), false},
		{"10 at once", writes(0, 10, 1, 0), true},
		{"12 at once", writes(0, 12, 1, 0), false},
		{"another shard", append(writes(0, 1, 1, 0), writes(3, 101, 1000, 0)...), false},
		{"another shard, cool too", append(writes(0, 1, 1, 0), writes(3, 99, 1000, 0)...), true},
	} {
		p := decide(t0+3000, c.changes...)
		check.Equal(t, len(p.Reshardings) == 1 && p.Reshardings[0].merge, c.merge, "%s: splits %+v", c.name,
			p.Reshardings)
	}
}

// Shards may be left over below the highest count that shard 0 had before it was removed, or before
// another client lowered it. Lowering begins no generation.
func TestLeftOverShardsAreBelowTheHighestCount(t *testing.T) {
	change := func(op stream.Operation, from, to int, merged bool) stream.Change {
		c := spends(0, to, 1)
		c.Operation, c.OldShards, c.OldGeneration, c.New.Generation = op, from, 1, 1
		if merged {
			c.New.Generation = 2
		}
		return c
	}
	for _, c := range []struct {
		name    string
		changes []stream.Change
		want    int
	}{
		{"nothing", nil, 0},
		{"spent", []stream.Change{change(stream.Modify, 4, 4, false)}, 0},
		{"split", []stream.Change{change(stream.Modify, 4, 8, true)}, 0},
		{"merged", []stream.Change{change(stream.Modify, 8, 4, true)}, 0},
		{"lowered by others", []stream.Change{change(stream.Modify, 8, 4, false)}, 8},
		{"removed", []stream.Change{change(stream.Remove, 16, 16, false)}, 16},
		{"lowered twice", []stream.Change{change(stream.Modify, 8, 4, false), change(stream.Modify, 4, 2, false)}, 8},
		{"removed with an impossible count", []stream.Change{change(stream.Remove, 1<<20, 1, false)}, bucket.MaxShards},
	} {
		zero := History{}
		for i := range c.changes {
			zero.Changes = append(zero.Changes, &c.changes[i])
		}
		check.Equal(t, leftBehind(zero), c.want, c.name)
	}
}

// If shard 0 is removed and created again with one shard, its earlier shards may be left over. They
// are looked for from the removal on.
func TestARecreatedShard0LooksForItsShards(t *testing.T) {
	gone, anew := spends(0, 0, 1), spends(0, 1, 1)
	gone.Operation, gone.OldShards, gone.Sequence = stream.Remove, 4, "6"
	anew.Operation, anew.OldShards, anew.Sequence = stream.Insert, 0, "7"
	p := decide(t0, gone, anew)
	if len(p.Reshardings) != 1 || p.Reshardings[0].Count != 1 {
		t.Fatalf("%+v", p.Reshardings)
	}
	if s, ok := p.Reshardings[0].Steps.Next(t0, 3); !ok || s.Action != shard.Look {
		t.Errorf("step %v %v", s, ok)
	}
	gone.OldShards = 1
	if p := decide(t0, gone, anew); len(p.Reshardings) != 0 {
		t.Errorf("without other shards: %+v", p.Reshardings)
	}
}

// A split must leave each shard room for the largest cost, whatever the present count: of 600
// tokens on four shards, each of eight has 75.
func TestHotBucketDoesNotSplitBelowTheLargestCost(t *testing.T) {
	for rpm, want := range map[int64]bool{75: true, 76: false, 300: true, 301: false} {
		c := spends(0, 4, rpm)
		if rpm > 76 {
			c = spends(0, 1, rpm)
		}
		c.New.State.Slots[c.New.State.Index(bucket.WCU)].Tokens = 0
		p := decide(t0, c)
		check.Equal(t, len(p.Reshardings) == 1 && p.Reshardings[0].double, want, "%d of 600: %+v", rpm, p.Reshardings)
	}
}

// A lowered count appears in the stream once, like a raised one.
func TestLoweredCountIsPropagated(t *testing.T) {
	zero, ahead, beyond := spends(0, 2, 1), spends(1, 4, 1), spends(3, 4, 1)
	zero.OldShards = 4
	p := decide(t0, zero, ahead, beyond)
	if len(p.Reshardings) != 1 || p.Reshardings[0].merge || p.Reshardings[0].Count != 2 {
		t.Fatalf("splits %+v", p.Reshardings)
	}
	if s, ok := p.Reshardings[0].Steps.Next(t0, 3); !ok || s.Action != shard.Merge || s.Shard != 1 {
		t.Errorf("step %v %v", s, ok)
	}
	zero.OldShards = 2
	p = decide(t0, zero, ahead)
	if len(p.Reshardings) != 1 || p.Reshardings[0].Zero.State.Shard != 1 || p.Reshardings[0].Count != 2 {
		t.Fatalf("shard ahead: %+v", p.Reshardings)
	}
	zero.New.State.Shards, zero.OldShards = 1, 1
	p = decide(t0, zero, beyond)
	if len(p.Reshardings) != 1 || p.Reshardings[0].Zero.State.Shard != 0 {
		t.Fatalf("shard beyond: %+v", p.Reshardings)
	}
	if s, ok := p.Reshardings[0].Steps.Next(t0, 3); !ok || s.Action != shard.Look || s.Shard != 1 {
		t.Errorf("step %v %v", s, ok)
	}
	for k := 1; k < 4; k++ { // shard 0 corrects it for any of them
		p := decide(t0, zero, spends(k, 4, 1))
		if len(p.Reshardings) != 1 || p.Reshardings[0].Zero.State.Shard != 0 || p.Reshardings[0].Zero.Entity != "e" {
			t.Errorf("shard %d of 1: %+v", k, p.Reshardings)
		}
	}
}

// A cool bucket whose shard 0 is not written merges when another shard is written, as soon after
// the last merge as with shard 0.
func TestCoolBucketMergesWithoutShard0(t *testing.T) {
	const after = 600_000
	at := t0 + after
	for _, tt := range []struct {
		name   string
		zero   func(*table.Shard)
		oldRF  int64 // the time of shard 1's previous write
		writes int   // writes of shard 1 in the batch
		want   int   // the count of shard 0 afterwards
	}{
		{"cool", func(*table.Shard) {}, at - 1000, 1, 2},
		{"one millisecond too early", func(b *table.Shard) { b.Generation += 1 << 12 }, at - 1000, 1, 4},
		{"unknown since when", func(b *table.Shard) { b.Generation = 0 }, at - 1000, 1, 4},
		{"written within a second", func(b *table.Shard) { b.State.RF++ }, at - 1000, 1, 4},
		{"looked just before", func(*table.Shard) {}, at, 1, 4},
		{"shard 1 written within a second", func(*table.Shard) {}, at - 999, 1, 4},
		{"shard 1 is busy", func(*table.Shard) {}, at - 1000, 101, 4},
		{"whole", func(b *table.Shard) { b.State.Shards = 1 }, at - 1000, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := memdynamo.New(func() int64 { return at })
			for k := range 4 {
				b := quiet(4).New
				b.State.Shard, b.State.RF, b.Generation = k, at-1000, (at-after)<<12
				if k == 0 {
					tt.zero(&b)
				}
				db.Store(b.Item())
			}
			var changes []stream.Change
			for i := range tt.writes {
				c := quiet(4)
				c.New.State.Shard, c.New.State.RF, c.New.Generation = 1, at, (at-after)<<12
				c.OldRF, c.Created, c.Sequence = tt.oldRF, at, fmt.Sprint(1000+i)
				changes = append(changes, c)
			}
			for _, r := range decide(at, changes...).Reshardings {
				if r.Zero.Entity != "e" || r.Zero.State.Shard != 1 {
					t.Errorf("it is of shard %d of %q", r.Zero.State.Shard, r.Zero.Entity)
				}
				check.Must(t, check.Err(shard.Run(t.Context(), db, r.Steps, func() int64 { return at })))
			}
			b, err := table.DecodeShard(db.Item(layout.BucketKey("n", "e", "r", 0)))
			if err != nil || b.State.Count() != tt.want {
				t.Errorf("shard 0 counts %d shards, want %d; %v", b.State.Count(), tt.want, err)
			}
		})
	}
}

// Each shard seen without shard 0 reads its count. If shard 0 is cool, the first shard merges it,
// unless shard 0 was written within a second.
func TestOneShardMergesWithoutShard0(t *testing.T) {
	const after = 600_000
	at := t0 + after
	for _, c := range []struct {
		name  string
		oldRF []int64 // previous writes of shards 1, 2 and 3
		want  []int   // the count of shard 0 after each look
	}{
		{"all after a while", []int64{at - 1000, at - 1000, at - 1000}, []int{2, 4, 4}},
		{"the first within a second", []int64{at - 999, at - 1000, at - 1000}, []int{4, 4, 4}},
		{"the second within a second", []int64{at - 1000, at - 999, at - 1000}, []int{2, 4, 4}},
		{"the first is not due", []int64{at, at - 1000, at - 1000}, []int{2, 4}},
	} {
		var changes []stream.Change
		for i, oldRF := range c.oldRF {
			change := quiet(4)
			change.New.State.Shard, change.New.State.RF, change.New.Generation = i+1, at, (at-after)<<12
			change.OldRF, change.Created, change.Sequence = oldRF, at, fmt.Sprint(1000+i)
			changes = append(changes, change)
		}
		var got []int
		for i := range decide(at, changes...).Reshardings {
			db := memdynamo.New(func() int64 { return at })
			for k := range 4 {
				b := quiet(4).New
				b.State.Shard, b.State.RF, b.Generation = k, at-1000, (at-after)<<12
				db.Store(b.Item())
			}
			steps := decide(at, changes...).Reshardings[i].Steps
			check.Must(t, check.Err(shard.Run(t.Context(), db, steps, func() int64 { return at })))
			b, err := table.DecodeShard(db.Item(layout.BucketKey("n", "e", "r", 0)))
			check.Must(t, err)
			got = append(got, b.State.Count())
		}
		check.Slices(t, got, c.want, "%s: shard 0 counts shards", c.name)
	}
}

// A shard reads shard 0 with its first write in another minute since its generation began. If the
// merge time is shorter, that counts instead, but at least a second.
func TestShardsLookAtShard0OnceAMinute(t *testing.T) {
	began := int64(t0)
	for _, c := range []struct {
		mergeAfter, before, at int64 // milliseconds since the generation began
		due, late              bool
	}{
		{600_000, 1000, 59_999, false, false},
		{600_000, 59_999, 60_000, true, false},
		{600_000, 59_000, 60_000, true, true},
		{600_000, 60_000, 119_999, false, false},
		{600_000, 1000, 500_000, true, true},
		{5_000, 4_500, 5_000, true, false},
		{5_000, 1_000, 4_999, false, false},
		{1, 1_000, 1_999, false, false},
		{1, 1_000, 2_000, true, true},
	} {
		change := spends(1, 4, 1)
		change.OldRF, change.New.State.RF, change.New.Generation = began+c.before, began+c.at, t0<<12
		if due, late := asksAgain([]*stream.Change{&change}, c.mergeAfter); due != c.due || late != c.late {
			t.Errorf("%+v: due %v, late %v", c, due, late)
		}
	}
	first, second := spends(1, 4, 1), spends(1, 4, 1) // one late write is enough
	first.OldRF, first.New.State.RF, first.New.Generation = began+1000, began+60_000, t0<<12
	second.OldRF, second.New.State.RF, second.New.Generation = began+119_500, began+120_000, t0<<12
	if due, late := asksAgain([]*stream.Change{&first, &second}, 600_000); !due || !late {
		t.Errorf("after a second change: due %v, late %v", due, late)
	}
}

// A resharding names the shards that it probably writes: for a split, the shard that splits; for a
// merge, shard 0 and the shards beyond the count; for a catch-up, the shards with another count.
func TestReshardingsNameTheirShards(t *testing.T) {
	image := func(k, n int) table.Shard { return table.Shard{State: bucket.State{Shard: k, Shards: n}} }
	others := []table.Shard{image(1, 4), image(2, 2), image(4, 4), image(5, 4)}
	for _, c := range []struct {
		name string
		r    Resharding
		want []int // of the shards 0 to 5
	}{
		{"the count is unknown", Resharding{Zero: image(0, 4), Count: 4, asks: true, others: others}, nil},
		{"shard 0 doubles", Resharding{Zero: image(0, 4), Count: 8, double: true, others: others}, []int{0}},
		{"one shard alone", Resharding{Zero: image(2, 2), Count: 4, others: others}, []int{2}},
		{"merges", Resharding{Zero: image(0, 4), Count: 4, merge: true}, []int{0, 4, 5}},
		{"catches up", Resharding{Zero: image(0, 4), Count: 4, others: others}, []int{2, 4, 5}},
	} {
		var got []int
		for k := range 6 {
			if c.r.changes(k) {
				got = append(got, k)
			}
		}
		check.Slices(t, got, c.want, c.name)
	}
}

// A shard is lively if a second has more writes than a tenth of a partition's capacity, whatever
// the position of its meter among the limits.
func TestLively(t *testing.T) {
	for _, name := range []string{"rpm", "zzz"} { // before and after the meter
		for writes, want := range map[int64]bool{99: false, 100: false, 101: true} {
			c := change(0, "1", t0, 0)
			c.New.State = bucket.New([]bucket.Limit{{Name: name, Capacity: 1000, Amount: 1000, Period: 1000}}, 0, 1, t0)
			c.Metered = writes * bucket.WCUPerWrite
			bare := c // without a meter another client's item shows nothing
			bare.New.State.Slots = slices.DeleteFunc(slices.Clone(c.New.State.Slots), func(sl bucket.Slot) bool {
				return sl.Name == bucket.WCU
			})
			for _, changes := range [][]*stream.Change{{&c}, {&bare, &c}, {&c, &bare}} {
				check.Equal(t, lively(changes), want, "%d writes in a second, with the limit %s", writes, name)
			}
		}
	}
}

// Writes are counted per second: 60 and 60 writes are lively in one second, and not in two. So are
// 400 and 400 busy with a limit of 1000.
func TestWritesAreCountedBySeconds(t *testing.T) {
	second := t0 - t0%1000
	at := func(offset, writes int64) *stream.Change {
		c := spends(0, 1, 1)
		c.Created, c.New.State.RF = second+offset, second+offset
		c.Metered = writes * bucket.WCUPerWrite
		return &c
	}
	for _, c := range []struct {
		name          string
		first, second int64 // offsets, in milliseconds
		want          bool
	}{
		{"at once", 0, 0, true},
		{"at both ends of a second", 0, 999, true},
		{"somewhere in a second", 300, 600, true},
		{"before and after its end", 999, 1000, false},
		{"two seconds apart", 500, 2500, false},
	} {
		check.Equal(t, lively([]*stream.Change{at(c.first, 60), at(c.second, 60)}), c.want, "%s: lively", c.name)
		check.Equal(t, busy([]*stream.Change{at(c.first, 400), at(c.second, 400)}, 1), c.want, "%s: busy", c.name)
	}
}

// A meter is exhausted if it does not cover one more write.
func TestExhaustedMeters(t *testing.T) {
	for _, name := range []string{"rpm", "zzz"} { // before and after the meter
		for left, want := range map[int64]bool{bucket.WCUPerWrite - 1: true, bucket.WCUPerWrite: false} {
			c := spends(0, 1, 1)
			c.New.State = bucket.New([]bucket.Limit{{Name: name, Capacity: 1000, Amount: 1000, Period: 1000}}, 0, 1, t0)
			c.New.State.Slots[c.New.State.Index(bucket.WCU)].Tokens = left
			check.Equal(t, exhausted(&c), want, "%d are left with %s", left, name)
			if c.Created = t0 + 999; exhausted(&c) != want {
				t.Errorf("%d are left with %s: it has refilled within the second", left, name)
			}
			if c.Created = t0 + 1000; exhausted(&c) {
				t.Errorf("%d are left with %s: it has not refilled in the next second", left, name)
			}
		}
	}
}

// day is a bucket under a load of writes per second, in virtual time. Decide gets batches of ten
// seconds, and the twin performs its result.
type day struct {
	t      *testing.T
	db     *memdynamo.DB
	now    int64
	rng    *rand.Rand
	seq    int
	counts map[int]int // the count last seen in the stream, by shard

	splits, merges, calls, most int
	writes                      int      // units
	moves                       []string // of shard 0, with the minute
}

const batchSeconds = 10

func newDay(t *testing.T) *day {
	d := &day{t: t, rng: rand.New(rand.NewPCG(6, 2)), now: t0, counts: map[int]int{}}
	d.db = memdynamo.New(func() int64 { return d.now })
	put, _ := table.Create(table.NewBucket{Namespace: "n", Entity: "e", Resource: "r", Now: d.now,
		Costs: table.Costs([]bucket.Limit{{Name: "rpm", Capacity: 1 << 40, Amount: 1 << 40, Period: 60_000}})})
	check.Must(t, check.Err(d.db.Write(t.Context(), put)))
	return d
}

// load returns the stored shards by id.
func (d *day) load() map[int]table.Shard {
	out := map[int]table.Shard{}
	for _, it := range d.db.Items() {
		b, err := table.DecodeShard(it)
		check.Must(d.t, err)
		out[b.State.Shard] = b
	}
	return out
}

// play applies the load for a time. Clients choose shards at random. No partition accepts more than
// a thousand writes in a second.
func (d *day) play(seconds int, load func(second int) float64) {
	shards := d.load()
	for at := 0; at < seconds; at += batchSeconds {
		var changes []stream.Change
		for s := range batchSeconds {
			share := load(at+s) / float64(len(shards))
			for _, k := range slices.Sorted(maps.Keys(shards)) {
				b := shards[k]
				if each := min(int64(share+d.rng.Float64()), 1000); each > 0 {
					changes = append(changes, d.second(&b, d.now+int64(s)*1000, each))
					shards[k] = b
				}
			}
		}
		d.now += batchSeconds * 1000
		splits := Decide(Fold(changes), d.now, conf).Reshardings
		if len(splits) == 0 {
			continue
		}
		for _, b := range shards {
			d.db.Store(b.Item())
		}
		for _, s := range splits {
			before := d.load()[0].State.Shards
			steps, err := shard.Run(d.t.Context(), d.db, s.Steps, func() int64 { return d.now })
			check.Must(d.t, err)
			d.calls += steps
			d.moved(before, d.load()[0].State.Shards, at)
		}
		shards = d.load()
	}
	stats := d.db.Stats()
	d.writes = stats.WriteUnits
}

// moved records a change of shard 0's count.
func (d *day) moved(before, after, second int) {
	switch {
	case after > before:
		d.splits++
	case after < before:
		d.merges++
	default:
		return
	}
	d.most = max(d.most, after)
	d.moves = append(d.moves, fmt.Sprintf("%02d:%02d %d", second/3600, second/60%60, after))
}

// second is one second of writes on a shard, as one change.
func (d *day) second(b *table.Shard, at, writes int64) stream.Change {
	d.seq++
	b.State = b.State.At(at)
	i := b.State.Index(bucket.WCU)
	b.State.Slots[i].Tokens -= writes * bucket.WCUPerWrite
	b.State.Slots[i].Used += writes * bucket.WCUPerWrite
	old, known := d.counts[b.State.Shard]
	if !known {
		old = b.State.Shards
	}
	d.counts[b.State.Shard] = b.State.Shards
	image := *b
	image.State.Slots = append([]bucket.Slot(nil), b.State.Slots...)
	return stream.Change{Operation: stream.Modify, Sequence: fmt.Sprintf("%020d", d.seq), Created: at, New: image,
		OldShards: old, Metered: writes * bucket.WCUPerWrite}
}

// On a day with bursts, a burst splits the bucket at most once for each doubling that it needs.
// Each merge back takes ten minutes.
func TestDayOfBurstsDoesNotFlap(t *testing.T) {
	d := newDay(t)
	rng := rand.New(rand.NewPCG(6, 1))
	const bursts = 24
	extra := make([]float64, 86_400)
	for range bursts {
		at, lasts, height := rng.IntN(86_000), 20+rng.IntN(580), 500*math.Exp(2.4*rng.Float64())
		for s := at; s < min(at+lasts, len(extra)); s++ {
			extra[s] += height
		}
	}
	d.play(86_400, func(s int) float64 {
		daily := 250 - 220*math.Cos(2*math.Pi*float64(s)/86_400)
		return (daily + extra[s]) * (0.8 + 0.4*rng.Float64())
	})
	t.Logf("a day, 30 to 470 writes a second and %d bursts of 500 to 5,500: %d splits and %d merges of shard 0, "+
		"up to %d shards; %d steps, %d write units", bursts, d.splits, d.merges, d.most, d.calls, d.writes)
	t.Log(strings.Join(d.moves, ", "))
	if d.splits < 4 || d.merges < 4 || d.splits > 3*bursts {
		t.Errorf("%d splits, %d merges: want both, and at most three of each per burst", d.splits, d.merges)
	}
}

// A constant load never causes a merge after a split, nor a split after a merge: no load is cool
// before a merge and hot after it.
func TestSteadyLoadDoesNotFlap(t *testing.T) {
	for _, load := range []float64{1, 90, 110, 390, 850, 3300} {
		for _, begin := range []float64{0, 8000} {
			d := newDay(t)
			d.play(300, func(int) float64 { return begin })
			d.splits, d.merges, d.moves = 0, 0, nil
			d.play(2*3600, func(s int) float64 { return load * (1 + 0.05*math.Sin(float64(s))) })
			if d.splits > 0 && d.merges > 0 {
				t.Errorf("%v writes a second after %v: %v", load, begin, d.moves)
			}
			if begin > 0 && load <= 90 && d.load()[0].State.Shards != 1 {
				t.Errorf("%v writes a second after %v: %d shards after two hours", load, begin, d.load()[0].State.Shards)
			}
		}
	}
}
