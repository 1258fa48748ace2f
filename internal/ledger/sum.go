package ledger

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// attrSum holds [Summed] as JSON if the snapshot is the sum of others. It is binary, because other
// clients take every number for a limit.
const attrSum = "_*"

// Sum is a snapshot that is the sum of shorter ones.
type Sum struct {
	Namespace, Entity, Resource string

	Window string // daily or monthly
	Start  string // start of the window, RFC 3339, UTC
	Part   string // the start in the form that is unique to the kind of window
	TTL    int64  // epoch seconds, set when the snapshot is created

	Amount // of the parts
	Summed
}

// Summed describes a sum in its snapshot.
type Summed struct {
	Version int64   // greater than the version before it; 0: the snapshot is no sum
	Parts   []int   // places of its parts, in order: 0 for the first hour of a day
	Base    *Amount `json:",omitempty"` // counted besides the parts; nil: nothing
	Rest    *Amount `json:",omitempty"` // of the parts but the last; nil: not known
}

// Amount is how much was counted. The zero Amount is nothing.
type Amount struct {
	Tokens map[string]int64 // by limit
	Events int64            // records that changed consumption
}

// AmountOf returns the counts of a snapshot, ours and others'. Nil has counted nothing.
func AmountOf(snapshot item.Item) (a Amount) {
	r := item.Reader{It: snapshot}
	a.Events = r.Int(attrTotalEvents)
	for attr, v := range snapshot {
		if limit, counted := limitOfCount(attr); counted {
			if n, number := item.Saturated(v); number {
				a.Add(Amount{Tokens: map[string]int64{limit: n}})
			}
		}
	}
	if n, _ := countedIn(snapshot, bucket.Denied); n != 0 {
		a.Add(Amount{Tokens: map[string]int64{bucket.Denied: n}})
	}
	return a
}

// Add adds another amount, and Sub takes it off. Results beyond 64 bits are the most or the least
// that fits.
func (a *Amount) Add(o Amount) { a.combine(o, bucket.AddSat) }

// Sub takes an amount off: see Add.
func (a *Amount) Sub(o Amount) { a.combine(o, bucket.SubSat) }

func (a *Amount) combine(o Amount, with func(x, y int64) int64) {
	a.Events = with(a.Events, o.Events)
	for limit, n := range o.Tokens {
		if a.Tokens == nil {
			a.Tokens = map[string]int64{}
		}
		a.Tokens[limit] = with(a.Tokens[limit], n)
	}
}

// SummedOf returns the description of a snapshot that is a sum.
func SummedOf(snapshot item.Item) (s Summed) {
	if v, ok := snapshot[attrSum].(*types.AttributeValueMemberB); ok {
		if err := json.Unmarshal(v.Value, &s); err != nil {
			return Summed{}
		}
	}
	return s
}

// IsSum reports whether a snapshot is a sum of others.
func IsSum(snapshot item.Item) bool { return SummedOf(snapshot).Version != 0 }

// midnight is the end of the key of the first hour of a day.
const midnight = "T00:00:00Z"

// IsHourOfDay reports whether a snapshot is of an hour, and counts for its day. The hour of
// midnight does only if our aggregator has counted in it: the Python aggregator counts its days and
// months under the same key.
func IsHourOfDay(snapshot item.Item) bool {
	sk := item.KeyOf(snapshot).SK
	return strings.HasSuffix(sk, "Z") && (!strings.HasSuffix(sk, midnight) || MarksOf(snapshot).Any)
}

// Replaced is the window of a day that the Python aggregator has counted under the key of midnight, once
// the sum of its hours stands for it: queries for days find the sum alone.
const Replaced = "replaced"

// Replace takes such a day out of the days; due is false if the snapshot is none, or has counted more than
// its hours, which are given.
func Replace(snapshot item.Item, hours Amount) (u item.Update, due bool) {
	k := item.KeyOf(snapshot)
	if !strings.HasSuffix(k.SK, midnight) || MarksOf(snapshot).Any || WindowOf(snapshot) != "daily" {
		return u, false
	}
	for limit, n := range AmountOf(snapshot).Tokens {
		if n > hours.Tokens[limit] {
			return u, false
		}
	}
	return item.Update{
		Key: k, Set: []item.Attr{{Name: layout.AttrWindow, Value: item.S(Replaced)}},
		If: item.All(item.AsIn(snapshot, layout.AttrWindow), item.AsIn(snapshot, attrLegend)),
	}, true
}

// Key returns the key of the snapshot.
func (s *Sum) Key() item.Key { return layout.UsageKey(s.Namespace, s.Entity, s.Resource, s.Part) }

// Update returns the write that stores the sum in the place of a snapshot as it was seen
// before the parts were, nil for none. It is refused if the snapshot has changed, by
// another sum or by a release before, which adds to it and leaves marks. due is false if
// the snapshot is this sum and has no marks.
func (s *Sum) Update(stored item.Item) (up item.Update, due bool) {
	is, was := AmountOf(stored), SummedOf(stored)
	all := Amount{Tokens: map[string]int64{}}
	for limit := range is.Tokens { // also one of which there is nothing any more
		all.Tokens[limit] = 0
	}
	for _, a := range []*Amount{&s.Amount, s.Base} {
		if a != nil {
			all.Add(*a)
		}
	}
	for _, limit := range slices.Sorted(maps.Keys(all.Tokens)) {
		was := is.Tokens[limit]
		if limit == bucket.Denied { // the counts by shard are removed
			was = deniedAs(stored[prefixDenied])
		}
		if n := all.Tokens[limit]; n != was {
			up.Set = append(up.Set, item.Attr{Name: attrCount(limit), Value: countValue(limit, n)})
		}
	}
	next := s.Summed
	next.Version = max(s.Version, was.Version+1)
	if len(up.Set) == 0 && all.Events == is.Events {
		was.Version = next.Version
		if stored == nil || IsSum(stored) && reflect.DeepEqual(was, next) && !MarksOf(stored).Any {
			return up, false
		}
	}
	b, err := json.Marshal(next)
	if err != nil {
		panic("table: bug: " + err.Error())
	}
	up.Key = s.Key()
	up.Set = append(up.Set, item.Attr{Name: attrTotalEvents, Value: item.N(all.Events)},
		item.Attr{Name: attrSum, Value: item.B(b)})
	if stored == nil {
		up.SetIfAbsent = newSnapshot(up.Key, s.Namespace, s.Entity, s.Resource, s.Window, s.Start, s.Part, s.TTL)
		up.If = item.Absent(item.AttrPK)
		return up, true
	}
	up.Remove = marksIn(stored)
	up.If = item.All(item.AsIn(stored, attrSum), item.AsIn(stored, attrLegend), item.AsIn(stored, attrTotalEvents))
	return up, true
}

// marksIn returns the attributes by which a snapshot was counted.
func marksIn(stored item.Item) (out []string) {
	for _, attr := range []string{attrLegend, attrOrigin, attrShared} {
		if stored[attr] != nil {
			out = append(out, attr)
		}
	}
	for _, shard := range MarksOf(stored).Shards() {
		out = append(out, attrMark(shard))
	}
	for attr := range stored {
		if strings.HasPrefix(attr, prefixDenied) && attr != prefixDenied {
			out = append(out, attr)
		}
	}
	return out
}
