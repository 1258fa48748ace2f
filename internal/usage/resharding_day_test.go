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
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/shard"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// day is a bucket that is written to by a load in writes per second, in virtual
// time. Batches of ten seconds go through Decide, and what it asks for is carried
// out on the twin.
type day struct {
	t      *testing.T
	db     *memdynamo.DB
	now    int64
	rng    *rand.Rand
	seq    int
	counts map[int]int // shards by id: the count last seen in the stream

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

// play lets the load act for that long. Clients pick shards at random; no
// partition takes more than a thousand writes in a second.
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

// moved notes that the count of shard 0 has changed.
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
		OldShards: old, Refilled: true, Deltas: []stream.Delta{{Limit: bucket.WCU, Milli: writes * bucket.WCUPerWrite}}}
}

// A day with bursts: every burst splits the bucket at most once more for each
// doubling that it needs, and the way back takes ten minutes for each.
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
		t.Errorf("%d splits, %d merges: want both, and no more than three of each for a burst", d.splits, d.merges)
	}
}

// A load that does not change never leads to a merge after a split, nor to a split
// after a merge: no load is both cool and hot after a merge.
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
