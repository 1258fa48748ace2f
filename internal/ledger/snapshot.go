package ledger

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Snapshot is the stored usage of one entity on one resource in one window.
// [Usage] adds to it.
type Snapshot struct {
	Namespace, Entity, Resource string

	Window string // hourly, daily or monthly
	Start  string // start of the window, RFC 3339, UTC
	Part   string // the end of the sort key; other clients repeat Start

	Counts map[string]int64 // whole tokens by limit; nil: none
	Denied int64            // requests
	Events int64            // records that changed consumption
	Legend Legend           // the common part of the marks
	Marks  map[int]Mark     // how far is counted, by bucket shard; nil: another client's snapshot
	TTL    int64            // epoch seconds, 0: does not expire
}

func (s Snapshot) place() Place {
	return Place{s.Namespace, s.Entity, s.Resource, s.Window, s.Start, s.Part, s.TTL}
}

// Key returns the key of the snapshot.
func (s Snapshot) Key() item.Key { return s.place().Key() }

// Item returns the snapshot in stored form, for the wire format goldens and for tests. The
// aggregator writes with [Usage].
func (s Snapshot) Item() item.Item {
	it := s.Key().Item()
	for _, a := range s.place().created() {
		it[a.Name] = a.Value
	}
	it[attrTotalEvents] = item.N(s.Events)
	for limit, n := range s.Counts {
		it[attrCount(limit)] = item.N(n)
	}
	if s.Denied != 0 {
		it[prefixDenied] = countValue(bucket.Denied, s.Denied)
	}
	if s.Marks != nil {
		it[attrLegend] = item.B(s.Legend.bytes())
	}
	for shard, mark := range s.Marks {
		it[attrMark(shard)] = item.B(s.Legend.mark(mark))
	}
	if s.TTL <= 0 {
		delete(it, layout.AttrTTL)
	}
	return it
}

// DecodeSnapshot decodes a usage snapshot of ours or of another client. Window and start come from
// the attributes, never from the key (design D10).
func DecodeSnapshot(it item.Item) (Snapshot, error) {
	r := item.Reader{It: it}
	var s Snapshot
	s.Namespace, s.Entity = layout.Under(&r, "ENTITY#")
	rest, ok := strings.CutPrefix(item.KeyOf(it).SK, layout.SKUsagePrefix)
	s.Resource = r.Need(layout.AttrResource)
	s.Part, _ = strings.CutPrefix(rest, s.Resource+"#")
	if !ok || s.Part == rest {
		r.Fail("%w", item.ErrKey)
	}
	s.Window, s.Start = r.Need(layout.AttrWindow), r.Need(attrWindowStart)
	whole := func(attr string) int64 {
		if n, ok := item.Saturated(it[attr]); ok {
			return n
		}
		return r.Int(attr) // zero if it is absent; otherwise it fails
	}
	s.Events, s.TTL = whole(attrTotalEvents), whole(layout.AttrTTL)
	s.Denied, _ = countedIn(it, bucket.Denied)
	for attr, v := range it {
		limit, counted := limitOfCount(attr)
		if _, number := v.(*types.AttributeValueMemberN); !number || !counted {
			continue
		}
		if s.Counts == nil {
			s.Counts = make(map[string]int64)
		}
		s.Counts[limit] = whole(attr)
	}
	if marks := MarksOf(it); marks.Any {
		s.Legend, s.Marks = marks.Legend, make(map[int]Mark)
		for _, shard := range marks.Shards() {
			if m, ok := marks.Shard(shard); ok {
				s.Marks[shard] = m
			}
		}
	}
	return item.Decoded(&r, "usage", s)
}

// WindowOf returns a snapshot's kind of window, or "" if it is not stored.
func WindowOf(snapshot item.Item) string { return (&item.Reader{It: snapshot}).Str(layout.AttrWindow) }

// WindowStartOf returns the start of a snapshot's window, RFC 3339, or "" if it is not stored.
func WindowStartOf(snapshot item.Item) string {
	return (&item.Reader{It: snapshot}).Str(attrWindowStart)
}

// ResourceOf returns the resource of a snapshot, or "" if it is not stored.
func ResourceOf(snapshot item.Item) string {
	return (&item.Reader{It: snapshot}).Str(layout.AttrResource)
}

// limitOfCount returns the limit that a number attribute of a snapshot counts.
func limitOfCount(attr string) (string, bool) {
	if rest, ok := strings.CutPrefix(attr, "_"); ok {
		return rest, rest != "" && attrCount(rest) == attr
	}
	return attr, attr != "" && attrCount(attr) == attr
}
