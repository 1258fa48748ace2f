package table

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A snapshot that is the sum of shorter ones says so in an attribute of its own, and
// which sum it is: the one after has another version. It says of which parts it is, and
// what was counted before it was summed and they do not show, its base.
//
//	sum     version; length and bytes of parts; events, limits and tokens of the base
//	parts   bits, the lowest of the first byte for the part that comes first
//	limit   length and bytes of the name
const attrSum = "_*"

// Sum is the sum of usage snapshots.
type Sum struct {
	Namespace, Entity, Resource string

	Window string // daily or monthly
	Start  string // start of the window, RFC 3339, UTC
	Part   string // the start in the form that is unique to the kind of window
	TTL    int64  // epoch seconds, set when the snapshot is created

	Amount        // of the parts
	Parts  []byte // a bit for each
	Base   Amount // see [BaseOf]
	// Version is greater than 0, and tells this sum from others if it is not the one of
	// the stored snapshot or before: epoch milliseconds.
	Version int64
}

// Amount is how much was counted.
type Amount struct {
	Counts []Count // by limit, in the order of their names, each once
	Events int64   // records that changed consumption
}

// Key returns the key of the snapshot.
func (s *Sum) Key() item.Key { return UsageKey(s.Namespace, s.Entity, s.Resource, s.Part) }

// Add adds what a part has counted, whoever has; at is its place among the parts.
func (s *Sum) Add(snapshot item.Item, at int) {
	s.add(amountOf(snapshot), 1)
	for len(s.Parts) <= at/8 {
		s.Parts = append(s.Parts, 0)
	}
	s.Parts[at/8] |= 1 << (at % 8)
}

func (a *Amount) add(o Amount, sign int64) {
	a.Events += sign * o.Events
	for _, c := range o.Counts {
		i, found := slices.BinarySearchFunc(a.Counts, c.Limit,
			func(c Count, limit string) int { return strings.Compare(c.Limit, limit) })
		if !found {
			a.Counts = slices.Insert(a.Counts, i, Count{Limit: c.Limit})
		}
		a.Counts[i].Tokens += sign * c.Tokens
	}
}

// amountOf returns what a snapshot has counted.
func amountOf(snapshot item.Item) (a Amount) {
	r := reader{it: snapshot}
	a.Events = r.int(attrTotalEvents)
	for attr, v := range snapshot {
		limit, counted := limitOfCount(attr)
		if _, number := v.(*types.AttributeValueMemberN); number && counted {
			a.add(Amount{Counts: []Count{{limit, r.int(attr)}}}, 1)
		}
	}
	return a
}

// Lacks reports whether a part is missing of what a snapshot has counted: it was a part
// of that, or that has counted more records.
func (s *Sum) Lacks(stored item.Item) bool {
	is := sumOf(stored)
	for i, b := range is.Parts {
		if i >= len(s.Parts) && b != 0 || i < len(s.Parts) && b&^s.Parts[i] != 0 {
			return true
		}
	}
	return s.Events+is.Base.Events < amountOf(stored).Events
}

// Missing returns what a snapshot has counted and the sum, of parts that are left of it,
// does not show.
func (s *Sum) Missing(stored item.Item) Amount {
	a := amountOf(stored)
	a.add(s.Amount, -1)
	return a
}

// Update returns the write that stores the sum in the place of a snapshot as it was
// seen before the parts were, nil for none. It is refused if the snapshot has changed.
// due is false if the snapshot is this sum.
func (s *Sum) Update(stored item.Item) (up item.Update, due bool) {
	up.Key = s.Key()
	sum, is := s.Base, amountOf(stored)
	sum.Counts = slices.Clone(sum.Counts)
	sum.add(s.Amount, 1)
	for _, c := range is.Counts { // of which there is none any more
		sum.add(Amount{Counts: []Count{{c.Limit, 0}}}, 1)
	}
	for _, c := range sum.Counts {
		if n, ok := CountOf(is.Counts, c.Limit); !ok && c.Tokens != 0 || n != c.Tokens {
			up.Set = append(up.Set, item.Attr{Name: attrCount(c.Limit), Value: item.N(c.Tokens)})
		}
	}
	before := sumOf(stored)
	summed := before.Version != 0
	if s.Version = max(s.Version, before.Version+1); len(up.Set) == 0 && sum.Events == is.Events {
		before.Version = s.Version
		if stored == nil || summed && bytes.Equal(before.bytes(), s.bytes()) {
			return up, false
		}
	}
	up.Set = append(up.Set, item.Attr{Name: attrTotalEvents, Value: item.N(sum.Events)},
		item.Attr{Name: attrSum, Value: item.B(s.bytes())})
	switch {
	case summed:
		up.If = item.Compare(attrSum, item.Eq, stored[attrSum])
	case stored == nil:
		up.SetIfAbsent = newSnapshot(up.Key, s.Namespace, s.Entity, s.Resource, s.Window, s.Start, s.Part, s.TTL)
		up.If = item.Absent(item.AttrPK)
	default:
		up.Remove = marksIn(stored)
		up.If = item.All(item.Absent(attrSum), item.Compare(attrTotalEvents, item.Eq, item.N(is.Events)))
	}
	return up, true
}

// marksIn returns the attributes by which a snapshot was counted.
func marksIn(stored item.Item) (out []string) {
	for _, attr := range []string{attrLedger, attrOrigin, attrShared} {
		if stored[attr] != nil {
			out = append(out, attr)
		}
	}
	for _, shard := range MarksOf(stored).Shards() {
		out = append(out, attrMark(shard))
	}
	return out
}

func (s *Sum) bytes() []byte {
	b := binary.AppendUvarint(nil, uint64(s.Version))
	b = binary.AppendUvarint(b, uint64(len(s.Parts)))
	b = append(b, s.Parts...)
	if len(s.Base.Counts) == 0 {
		return b
	}
	b = binary.AppendVarint(b, s.Base.Events)
	for _, c := range s.Base.Counts {
		b = binary.AppendUvarint(b, uint64(len(c.Limit)))
		b = binary.AppendVarint(append(b, c.Limit...), c.Tokens)
	}
	return b
}

// sumOf reads what a sum says of itself. A snapshot that is none has version 0; what is
// not of our form says nothing.
func sumOf(snapshot item.Item) (s Sum) {
	v, ok := snapshot[attrSum].(*types.AttributeValueMemberB)
	if !ok {
		return s
	}
	r := reading{b: v.Value}
	s.Version = int64(r.uint())
	s.Parts = r.bytes()
	if len(r.b) > 0 {
		s.Base.Events = r.int()
	}
	for len(r.b) > 0 {
		name := string(r.bytes())
		s.Base.add(Amount{Counts: []Count{{name, r.int()}}}, 1)
	}
	return s
}

// reading takes numbers and bytes off; where there are none, nothing is left.
type reading struct{ b []byte }

func (r *reading) uint() uint64 {
	n, size := binary.Uvarint(r.b)
	r.b = r.b[max(0, size):]
	if size <= 0 {
		r.b = nil
	}
	return n
}

func (r *reading) int() int64 {
	n := r.uint()
	return int64(n>>1) ^ -int64(n&1)
}

func (r *reading) bytes() []byte {
	n := min(r.uint(), uint64(len(r.b)))
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// midnight is what the key of the first hour of a day ends in.
const midnight = "T00:00:00Z"

// IsHourOfDay reports whether a snapshot is of an hour, and counts for its day. That of
// midnight does only if ours has counted in it: the Python aggregator counts its days
// and months under the same key.
func IsHourOfDay(snapshot item.Item) bool {
	sk := item.KeyOf(snapshot).SK
	return strings.HasSuffix(sk, "Z") && (!strings.HasSuffix(sk, midnight) || MarksOf(snapshot).Any)
}

// IsSum reports whether a snapshot is a sum of others.
func IsSum(snapshot item.Item) bool { return sumOf(snapshot).Version != 0 }

// PartsOf returns the places of the parts of a sum.
func PartsOf(snapshot item.Item) (out []int) {
	for i, b := range sumOf(snapshot).Parts {
		for at := range 8 {
			if b&(1<<at) != 0 {
				out = append(out, 8*i+at)
			}
		}
	}
	return out
}

// BaseOf returns what a sum has counted beside its parts, before it was summed.
func BaseOf(snapshot item.Item) Amount { return sumOf(snapshot).Base }
