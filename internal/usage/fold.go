package usage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Bucket is all that a batch says about one shard of a bucket.
type Bucket struct {
	Namespace, Entity, Resource string
	Shard                       int

	// Changes in the order of their streams and sequence numbers, each once.
	// Never empty.
	Changes []*stream.Change
}

// Fold sorts changes by bucket shard and, within it, by stream and sequence
// number, and drops those that are there twice. The result points into changes.
func Fold(changes []stream.Change) []Bucket {
	type key struct {
		ns, entity, resource string
		shard                int
	}
	at := make(map[key]int)
	var out []Bucket
	for i := range changes {
		c := &changes[i]
		k := key{c.New.Namespace, c.New.Entity, c.New.Resource, c.New.State.Shard}
		j, ok := at[k]
		if !ok {
			j = len(out)
			at[k] = j
			out = append(out, Bucket{Namespace: k.ns, Entity: k.entity, Resource: k.resource, Shard: k.shard})
		}
		out[j].add(c)
	}
	slices.SortFunc(out, Bucket.compare)
	return out
}

// Merge returns the fold of all the changes that a and b are folds of.
func Merge(a, b []Bucket) []Bucket {
	var out []Bucket
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].compare(b[0]) < 0:
			out, a = append(out, a[0]), a[1:]
		case len(a) == 0 || a[0].compare(b[0]) > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			m := a[0]
			m.Changes = slices.Clone(m.Changes)
			for _, c := range b[0].Changes {
				m.add(c)
			}
			out, a, b = append(out, m), a[1:], b[1:]
		}
	}
	return out
}

// add puts a change in its place, which nearly always is the end.
func (b *Bucket) add(c *stream.Change) {
	i := len(b.Changes)
	for i > 0 {
		order := comparePositions(c, b.Changes[i-1])
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

func (b Bucket) compare(o Bucket) int {
	return cmp.Or(strings.Compare(b.Namespace, o.Namespace), strings.Compare(b.Entity, o.Entity),
		strings.Compare(b.Resource, o.Resource), cmp.Compare(b.Shard, o.Shard))
}

// sibling tells whether both are shards of the same bucket.
func (b Bucket) sibling(o Bucket) bool {
	return b.Entity == o.Entity && b.Resource == o.Resource && b.Namespace == o.Namespace
}

// last returns the last change: its image is the newest known.
func (b Bucket) last() *stream.Change { return b.Changes[len(b.Changes)-1] }

// spent returns what the batch took from each slot of a state, in millitokens,
// in the order of the slots.
func (b Bucket) spent(s bucket.State) []int64 {
	out := make([]int64, len(s.Slots))
	for _, c := range b.Changes {
		for _, d := range c.Deltas {
			if i := s.Index(d.Limit); i >= 0 {
				out[i] = bucket.AddSat(out[i], d.Milli)
			}
		}
	}
	return out
}

// counts tells whether a change belongs in usage snapshots: it moved the
// counter of a limit by at least a token. wcu is no limit of a user.
func counts(c *stream.Change) bool {
	for _, d := range c.Deltas {
		if d.Tokens != 0 && d.Limit != bucket.WCU {
			return true
		}
	}
	return false
}

// comparePositions compares streams, and sequence numbers within one.
func comparePositions(a, b *stream.Change) int {
	return cmp.Or(cmp.Compare(a.Stream, b.Stream), compareSequences(a.Sequence, b.Sequence))
}

// compareSequences compares decimal digits as numbers.
func compareSequences(a, b string) int {
	if len(a) == len(b) {
		return strings.Compare(a, b)
	}
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// key returns the key of the bucket shard's item.
func (b Bucket) key() item.Key { return table.BucketKey(b.Namespace, b.Entity, b.Resource, b.Shard) }
