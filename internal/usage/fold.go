package usage

import (
	"cmp"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/sequence"
	"github.com/zeroae/zae-limiter-go/internal/stream"
)

// History is everything that a batch shows about one shard of a bucket.
type History struct {
	Bucket
	Shard int

	// Changes is in order of streams and sequence numbers, without duplicates. It is never empty.
	Changes []*stream.Change
}

// Fold sorts changes by bucket shard and, within each, by stream and sequence number, and drops
// duplicates. The result points into changes.
func Fold(changes []stream.Change) []History {
	type key struct {
		of    Bucket
		shard int
	}
	at := make(map[key]int)
	var out []History
	for i := range changes {
		c := &changes[i]
		k := key{bucketOf(c.New), c.New.State.Shard}
		j, ok := at[k]
		if !ok {
			j = len(out)
			at[k] = j
			out = append(out, History{Bucket: k.of, Shard: k.shard})
		}
		out[j].add(c)
	}
	slices.SortFunc(out, func(a, b History) int {
		return cmp.Or(a.Bucket.Compare(b.Bucket), cmp.Compare(a.Shard, b.Shard))
	})
	return out
}

// add inserts a change in order, nearly always at the end.
func (b *History) add(c *stream.Change) {
	i := len(b.Changes)
	for i > 0 {
		o := b.Changes[i-1]
		order := cmp.Or(cmp.Compare(c.Stream, o.Stream), sequence.Compare(c.Sequence, o.Sequence))
		if order == 0 {
			return
		}
		if order > 0 {
			break
		}
		i--
	}
	b.Changes = slices.Insert(b.Changes, i, c)
}

// last returns the last change, whose image is the newest.
func (b History) last() *stream.Change { return b.Changes[len(b.Changes)-1] }

// Firsts returns the lowest sequence number of each bucket's changes: where to resume if something
// that the bucket requires is not done.
func Firsts(histories []History) map[Bucket]string {
	out := map[Bucket]string{}
	for _, b := range histories {
		for _, c := range b.Changes {
			if first, ok := out[b.Bucket]; !ok || sequence.Compare(c.Sequence, first) < 0 {
				out[b.Bucket] = c.Sequence
			}
		}
	}
	return out
}

// spent returns the consumption in the batch by slot of s, in millitokens.
func (b History) spent(s bucket.State) []int64 {
	out := make([]int64, len(s.Slots))
	add := func(limit string, milli int64) {
		if i := s.Index(limit); i >= 0 {
			out[i] = bucket.AddSat(out[i], milli)
		}
	}
	for _, c := range b.Changes {
		for _, u := range c.Used {
			add(u.Limit, u.Milli)
		}
		add(bucket.WCU, c.Metered)
	}
	return out
}

func (b History) key() item.Key { return layout.BucketKey(b.Namespace, b.Entity, b.Resource, b.Shard) }
