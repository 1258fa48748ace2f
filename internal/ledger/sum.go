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
	Place
	Amount // sum of the parts
	Summed
}

// Summed describes a sum in its snapshot.
type Summed struct {
	Version int64   // increases with each version; 0: the snapshot is not a sum
	Parts   []int   // sorted indexes of its parts: 0 for the first hour of a day
	Base    *Amount `json:",omitempty"` // counted in addition to the parts; nil: nothing
	Rest    *Amount `json:",omitempty"` // of all parts except the last; nil: unknown
}

// Amount is a counted amount. The zero Amount is nothing.
type Amount struct {
	Tokens map[string]int64 // by limit
	Events int64            // records that changed consumption
}

// AmountOf returns all counts of a snapshot, ours and others'; zero for nil.
func AmountOf(snapshot item.Item) (a Amount) {
	a.Events, _ = item.Saturated(snapshot[attrTotalEvents])
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

// Add adds another amount. Results beyond 64 bits become the greatest or least number that fits.
func (a *Amount) Add(o Amount) { a.combine(o, bucket.AddSat) }

// Sub subtracts an amount, like Add.
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

// SummedOf returns a snapshot's description as a sum.
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

// midnight ends the key of the first hour of a day.
const midnight = "T00:00:00Z"

// IsHourOfDay reports whether a snapshot is of an hour and belongs to its day. The hour of midnight
// does only if our aggregator has counted in it: the Python aggregator counts its days and months
// under the same key.
func IsHourOfDay(snapshot item.Item) bool {
	sk := item.KeyOf(snapshot).SK
	return strings.HasSuffix(sk, "Z") && (!strings.HasSuffix(sk, midnight) || MarksOf(snapshot).Any)
}

// Replaced is the window of a day that the Python aggregator counted under the key of midnight,
// after the sum of its hours has replaced it. Queries for days then find only the sum.
const Replaced = "replaced"

// Replace marks such a day as replaced; due is false if the snapshot is not such a day, or has
// counted more than its hours.
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

// Update returns the write that stores the sum over a snapshot in the state before the parts were
// read, nil for none. It is refused if the snapshot has changed, by another sum or by an earlier
// release, which adds to it and leaves marks. due is false if the snapshot already is this sum and
// has no marks.
func (s *Sum) Update(stored item.Item) (up item.Update, due bool) {
	is, was := AmountOf(stored), SummedOf(stored)
	all := Amount{Tokens: map[string]int64{}}
	for limit := range is.Tokens { // includes limits whose tokens are gone
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
		if n := all.Tokens[limit]; n != was && len(up.Set) <= MaxCounts {
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
		panic("ledger: bug: " + err.Error())
	}
	up.Key = s.Key()
	up.Set = append(up.Set, item.Attr{Name: attrTotalEvents, Value: item.N(all.Events)},
		item.Attr{Name: attrSum, Value: item.B(b)})
	if stored == nil {
		up.SetIfAbsent = s.created()
		up.If = item.Absent(item.AttrPK)
		return up, true
	}
	up.Remove = marksIn(stored)
	up.If = item.All(item.AsIn(stored, attrSum), item.AsIn(stored, attrLegend), item.AsIn(stored, attrTotalEvents))
	return up, true
}

// marksIn returns the attributes with which a snapshot was counted by marks.
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
