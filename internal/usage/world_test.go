package usage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck/loadchecktest"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// This world counts usage. The counters of the shards of two buckets grow at random times over some
// hours, and are reported in records. Batches of records are lost, repeated with all later ones, or
// replayed separately. Invocations are repeated, and answers to writes are lost. Shards change
// their generation, and are removed and created again. The true usage is recorded separately.
type world struct {
	*loadchecktest.World
	t      *testing.T
	lossy  bool // batches are lost, except the last ones
	again  bool // some are repeated
	shards map[shardOf]*living
	used   map[string]int64           // tokens, by resource
	denied map[string]int64           // requests
	hours  map[string]map[int64]spent // the same by hour
	nobody map[string]int64           // used in lost records, at an unknown hour
	seq    int
}

type shardOf struct {
	resource string
	shard    int
}

// living is an existing shard.
type living struct {
	used, denied, born, charged, generation int64
	seen                                    bool // one of its records was delivered
}

// spent is a number of tokens, of records, and of denied requests.
type spent struct{ tokens, events, denied int64 }

const worldHour = 3_600_000

// use makes a shard use tokens, and returns the record.
func (w *world) use(of shardOf, tokens int64) stream.Change {
	s := w.shards[of]
	c := stream.Change{Operation: stream.Modify, Created: w.Now, OldShards: 1}
	u := stream.Used{Limit: "rpm", Was: s != nil, Is: true}
	if s == nil {
		s = &living{born: w.Now, generation: int64(w.IntN(1000)) + 1}
		w.shards[of], c.Operation = s, stream.Insert
	} else {
		c.OldBorn, c.OldRF, c.OldGeneration, u.Before = s.born/1000, s.charged, s.generation, s.used
	}
	if w.IntN(8) == 0 {
		s.generation++
	}
	more := int64(max(0, w.IntN(6)-2))
	counters := []stream.Used{{Limit: bucket.Denied, Was: s.denied > 0, Is: true, Before: s.denied,
		After: s.denied + more}}
	if s.denied += more; s.denied == 0 {
		counters = nil // an item has the counter from the first denial on
	}
	s.used, s.charged = s.used+tokens, w.Now
	w.used[of.resource] += tokens
	w.denied[of.resource] += more
	hour := w.hours[of.resource][Hourly.Start(w.Now)]
	w.hours[of.resource][Hourly.Start(w.Now)] = spent{hour.tokens + tokens, hour.events + 1, hour.denied + more}
	c.New.Generation, u.After = s.generation, s.used
	return w.told(c, of, append(counters, u)...)
}

// removed removes a shard, and returns the record.
func (w *world) removed(of shardOf) stream.Change {
	s := w.shards[of]
	delete(w.shards, of)
	counters := []stream.Used{{Limit: "rpm", Before: s.used, Was: true}}
	if s.denied > 0 {
		counters = append([]stream.Used{{Limit: bucket.Denied, Before: s.denied, Was: true}}, counters...)
	}
	return w.told(stream.Change{Operation: stream.Remove, Created: w.Now, OldShards: 1, OldBorn: s.born / 1000,
		OldRF: s.charged, OldGeneration: s.generation}, of, counters...)
}

func (w *world) told(c stream.Change, of shardOf, counters ...stream.Used) stream.Change {
	w.seq++
	c.Sequence, c.Stream, c.Used = fmt.Sprint(w.seq), 1, counters
	c.New = table.Shard{Namespace: "n", Entity: "e", Resource: of.resource}
	c.New.State.Shard, c.New.State.Shards = of.shard, 2
	return c
}

// countsParts counts the parts of all buckets.
func (w *world) countsParts(parts []Part) {
	for len(parts) > 0 {
		n := 1
		for n < len(parts) && parts[n].Bucket == parts[0].Bucket {
			n++
		}
		w.counts(Totals(parts[:n], Hourly))
		parts = parts[n:]
	}
}

// counts counts totals like an aggregator, earlier ones first.
func (w *world) counts(totals []Total) {
	for i := range totals {
		step := w.countsOne(&totals[i])
		totals[i].Reopen(totals[i+1:], step.Behind)
	}
}

func (w *world) countsOne(t *Total) Step {
	var known Snapshots
	t.Over, t.Kept = t.Window.End(t.Start) <= w.Now+60_000, w.Now-7*24*worldHour
	for range 100 {
		step := t.Next(known)
		switch step.Action {
		case Done:
			return step
		case CountBeginnings:
			w.counts(Totals(step.Beginnings, t.Window))
			known, t.BeginningsCounted = Snapshots{}, true
		case ReadNotes:
			t.Forget(known, nil, w.Now)
		case ReadCurrent, ReadPrevious, ReadSurely:
			known = w.reads(t)
			known.Sure = step.Action == ReadSurely
		default:
			held := w.Write(step.Update)
			switch lost := w.OneIn(8); {
			case held && !lost && step.Action == Add:
				return step
			case step.Action == Complete:
				known.Previous = slices.Clone(known.Previous)
				known.Previous[step.At] = w.Items[step.Update.Key]
			default:
				known.Known, known.Current = true, w.Items[step.Update.Key]
			}
		}
	}
	w.t.Fatalf("the total of %s is never counted", t.From())
	return Step{}
}

// reads finds the snapshots up to a total's own, latest first.
func (w *world) reads(t *Total) Snapshots {
	q := t.PreviousQuery()
	var items []item.Item
	for k, it := range w.Items {
		if k.PK == q.PK && k.SK >= q.From && k.SK <= q.To {
			items = append(items, it)
		}
	}
	slices.SortFunc(items, func(a, b item.Item) int { return strings.Compare(item.KeyOf(b).SK, item.KeyOf(a).SK) })
	known := t.Sift(t.Own(items))
	known.Whole = true
	return known
}

// sums adds the hours of each day up to the day, any number of times.
func (w *world) sums() {
	for resource, hours := range w.hours {
		days := map[int64]bool{}
		for at := range hours {
			days[Daily.Start(at)] = true
		}
		for day := range days {
			key := layout.UsageKey("n", "e", resource, Daily.Part(day))
			s := Summing{Owed: Owed{Bucket: Bucket{"n", resource, "e"}}, Window: Daily, Of: Hourly,
				Start: day, Days: 90, Until: Daily, Stored: w.Items[key]}
			for at := day; at < day+24*worldHour; at += worldHour {
				if it := w.Items[layout.UsageKey("n", "e", resource, Hourly.Part(at))]; it != nil {
					s.Parts = append(s.Parts, it)
				}
			}
			if u, due := s.Sum(w.Now); due && !w.Write(u) {
				w.Fail("the day of %s is not summed", layout.Timestamp(day))
			}
		}
	}
}

// delivers records which shards were seen. A shard's earlier consumption is counted in the hour of
// its creation. Within 10 s of the full hour, that hour is unknown (see [birth]).
func (w *world) delivers(batch []stream.Change, lost bool) {
	for _, c := range batch {
		s := w.shards[shardOf{c.New.Resource, c.New.State.Shard}]
		if s == nil {
			continue
		}
		s.seen = s.seen || !lost
		if at := s.born % worldHour; !s.seen && (at < 10_000 || at >= worldHour-10_000) {
			for _, u := range c.Used {
				w.nobody[c.New.Resource+u.Limit] += u.After - u.Before
			}
		}
	}
}

// counted returns the counts of a resource's hours in total, and by hour and day.
func (w *world) counted(resource string) (all spent, hours, days map[int64]spent) {
	hours, days = map[int64]spent{}, map[int64]spent{}
	for _, it := range w.Items {
		s, err := ledger.DecodeSnapshot(it)
		check.Must(w.t, err)
		if len(s.Counts) > 1 {
			w.t.Fatalf("the snapshot counts %v", s.Counts)
		}
		is := spent{s.Counts["rpm"], s.Events, s.Denied}
		if s.Resource == resource && s.Window == string(Hourly) {
			all.tokens, all.denied = all.tokens+is.tokens, all.denied+is.denied
			hours[startOf(it)] = is
		} else if s.Resource == resource {
			days[startOf(it)] = is
		}
	}
	return all, hours, days
}

// Step runs a whole history of some records.
func (w *world) Step() {
	records := 4 + w.IntN(40)
	var all []shardOf
	for i := range 1 + w.IntN(4) {
		all = append(all, shardOf{[]string{"q", "r"}[i%2], i / 2})
	}
	var batch []stream.Change
	var parts []Part // of a tumbling window: counted at its end
	var sent [][]stream.Change
	for i := range records {
		w.Now += int64(w.IntN(worldHour / 3))
		of, last := all[w.IntN(len(all))], i >= records-len(all)
		if last {
			of = all[i-(records-len(all))] // each shard shows its counters once more
		}
		if !w.lossy && !last && w.shards[of] != nil && w.IntN(8) == 0 {
			batch = append(batch, w.removed(of))
		}
		batch = append(batch, w.use(of, 1+int64(w.IntN(9))))
		if !last && w.IntN(3) > 0 || last && i < records-1 {
			continue
		}
		sent = append(sent, batch)
		lost := w.lossy && !last && w.OneIn(4)
		w.delivers(batch, lost)
		if batch = nil; lost {
			continue
		}
		from := len(sent) - 1
		if w.again && w.IntN(4) == 0 { // the stream goes back and repeats all batches since
			from = w.IntN(len(sent))
		}
		for _, b := range sent[from:] {
			w.Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
			parts = Extend(parts, Fold(b), Hourly)
		}
		if i < records-1 && w.IntN(2) == 0 {
			continue
		}
		for range 1 + w.IntN(2) { // the invocation may be repeated
			w.countsParts(parts)
		}
		if w.IntN(2) == 0 {
			w.sums()
		}
		if parts = nil; w.again && w.IntN(4) == 0 { // an old batch is replayed, perhaps a lost one
			w.countsParts(Extend(nil, Fold(sent[w.IntN(len(sent))]), Hourly))
		}
	}
}

// End requires that the hours of a resource add up to its usage, and its days to their hours.
func (w *world) End() {
	w.sums()
	for resource, want := range w.used {
		all, hours, days := w.counted(resource)
		for at, hour := range hours {
			day := days[Daily.Start(at)]
			days[Daily.Start(at)] = spent{day.tokens - hour.tokens, day.events - hour.events, day.denied - hour.denied}
		}
		for at, apart := range days {
			if apart != (spent{}) {
				w.Fail("the day %s of %s is %+v above its hours", layout.Timestamp(at), resource, apart)
			}
		}
		if all.tokens > want || all.tokens < want-w.nobody[resource+"rpm"] {
			w.Fail("%d of %s counted, %d used", all.tokens, resource, want)
		}
		if want := w.denied[resource]; all.denied > want || all.denied < want-w.nobody[resource+bucket.Denied] {
			w.Fail("%d denials of %s counted, there were %d", all.denied, resource, want)
		}
		for at, want := range w.hours[resource] {
			got := hours[at]
			if w.again && got.events > want.events {
				got.events = want.events
			}
			if !w.lossy && got != want {
				w.Fail("%+v of %s counted in the hour of %s, %+v used", got, resource, layout.Timestamp(at), want)
			}
		}
	}
}

// Usage is counted once. It is counted in its hour if every record arrives, and in total even if
// batches are lost: the next record shows their usage. The number of records is exact unless
// batches are repeated in other pieces.
func TestWorldsAreCountedExactly(t *testing.T) {
	loadchecktest.Kind[*world]{Steps: 1, Worlds: 1500, New: func(seed uint64, _ string) *world {
		w := &world{World: loadchecktest.New(seed, 77), t: t, lossy: seed%2 == 1, again: seed%4 > 1,
			shards: map[shardOf]*living{}, used: map[string]int64{}, denied: map[string]int64{}, nobody: map[string]int64{},
			hours: map[string]map[int64]spent{"q": {}, "r": {}}}
		w.Now = t0
		return w
	}}.Keeps(t)
}
