package ledger

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Attributes of usage snapshots, besides one number per limit.
const (
	attrWindowStart = "window_start"
	attrTotalEvents = "total_events"
)

// Place identifies a snapshot: whose usage it counts, and in which window.
type Place struct {
	Namespace, Entity, Resource string

	Window string // hourly, daily or monthly
	Start  string // start of the window, RFC 3339, UTC
	Part   string // the start in the form that is unique to the kind of window
	TTL    int64  // epoch seconds, set when the snapshot is created
}

// Key returns the key of the snapshot.
func (p Place) Key() item.Key { return layout.UsageKey(p.Namespace, p.Entity, p.Resource, p.Part) }

// created returns the attributes that a snapshot has from its creation.
func (p Place) created() []item.Attr {
	return []item.Attr{
		{Name: layout.AttrEntityID, Value: item.S(p.Entity)},
		{Name: layout.AttrResource, Value: item.S(p.Resource)},
		{Name: layout.AttrWindow, Value: item.S(p.Window)},
		{Name: attrWindowStart, Value: item.S(p.Start)},
		{Name: item.AttrGSI2PK, Value: item.S(layout.ResourcePK(p.Namespace, p.Resource))},
		{Name: item.AttrGSI2SK, Value: item.S("USAGE#" + p.Part + "#" + p.Entity)},
		{Name: item.AttrGSI4PK, Value: item.S(p.Namespace)},
		{Name: item.AttrGSI4SK, Value: item.S(layout.Cut(p.Key().PK))},
		{Name: layout.AttrTTL, Value: item.N(p.TTL)},
	}
}

// Usage is an addition to one usage snapshot, on condition that the snapshot has counted exactly as
// much as expected.
type Usage struct {
	Place
	Counts []Count // by limit; zeros are allowed. Of [bucket.Denied] only with Seen
	Events int64   // records that changed consumption
	Moves  []Move  // of the bucket shards of the records
	Seen   *Marks  // of the snapshot as it was last read; nil: it was not read
	Others []Count // the counts of others that ours may still repeat; see [Marks.Others]
}

// Count is consumption of one limit in whole tokens.
type Count struct {
	Limit  string
	Tokens int64
}

// Move advances the mark of one bucket shard. The write expects the mark in [Usage.Seen], or its
// absence.
type Move struct {
	Shard int
	To    Mark
	// Counted is for writes that are sent without reading the snapshot. They expect the counters and
	// the life of this mark, at any earlier position; if it is nil, no mark.
	Counted *Mark
}

// Update returns the write that adds the usage and moves the marks. If a mark is not as expected,
// it is refused, and the returned image shows the counts. So the same usage arriving twice,
// completely or partly, is counted once.
func (u Usage) Update() item.Update {
	up := item.Update{Key: u.Key(), SetIfAbsent: u.created()}
	for _, c := range u.Counts {
		switch {
		case c.Tokens == 0:
		case c.Limit == bucket.Denied: // not a number, so it is set to the sum
			// Another count there moves the mark of this shard, which the write expects unchanged.
			attr := prefixDenied + strconv.FormatInt(int64(u.Moves[0].Shard), 32)
			n := deniedAs(u.Seen.snapshot[attr])
			up.Set = append(up.Set, item.Attr{Name: attr, Value: countValue(c.Limit, bucket.AddSat(n, c.Tokens))})
		default:
			up.Add = append(up.Add, item.Attr{Name: attrCount(c.Limit), Value: item.N(c.Tokens)})
		}
	}
	up.Add = append(up.Add, item.Attr{Name: attrTotalEvents, Value: item.N(u.Events)})
	legend, cond := u.legend(&up)
	for _, m := range u.Moves {
		attr := attrMark(m.Shard)
		up.Set = append(up.Set, item.Attr{Name: attr, Value: item.B(legend.mark(m.To))})
		cond = append(cond, u.expected(legend, attr, m))
	}
	up.If = item.All(append(cond, u.keepOrigin(&up, legend)...)...)
	return up
}

// MaxCounts is how many counts do not fit into one update, however short: #0 :0, and so on. Of more,
// only as many are looked at as prove that the update can never be stored.
const MaxCounts = item.MaxExpression / len("#0 :0,")

// MaxNames is how many limits a mark can hold, and a legend adds at once without one. A bucket with
// more, which only other clients make, is counted record by record.
const MaxNames = 64

// legend returns the legend of the marks to write, and the condition that the snapshot has it.
func (u Usage) legend(up *item.Update) (Legend, []item.Cond) {
	l, stored := Legend{}, []byte(nil)
	if u.Seen != nil {
		l, stored = u.Seen.Legend, u.Seen.legend
	}
	if u.Seen == nil || !u.Seen.Any {
		for _, m := range u.Moves {
			l.Stream = max(l.Stream, m.To.At.Stream)
		}
	}
	blind := u.Seen == nil
	for _, m := range u.Moves {
		if m.Counted != nil {
			l = l.With(m.Counted.Used)
		}
		l = l.With(m.To.Used)
	}
	if len(u.Counts) <= MaxNames { // no mark names a limit that appeared and disappeared since
		l = l.With(u.Counts)
	}
	want := item.B(l.bytes())
	switch {
	case blind:
		up.SetIfAbsent = append(up.SetIfAbsent, item.Attr{Name: attrLegend, Value: want})
		same := item.Compare(attrLegend, item.Eq, want)
		for _, m := range u.Moves {
			if m.Counted != nil {
				return l, []item.Cond{same}
			}
		}
		return l, []item.Cond{item.Any(item.Absent(item.AttrPK), same)}
	case stored == nil:
		up.Set = append(up.Set, item.Attr{Name: attrLegend, Value: want})
		return l, []item.Cond{item.AsIn(u.Seen.snapshot, attrLegend)}
	}
	if !bytes.Equal(stored, l.bytes()) {
		up.Set = append(up.Set, item.Attr{Name: attrLegend, Value: want})
	}
	return l, []item.Cond{item.Compare(attrLegend, item.Eq, item.B(stored))}
}

func (u Usage) expected(l Legend, attr string, m Move) item.Cond {
	switch {
	case m.Counted != nil:
		low := l.prefix(*m.Counted)
		high := append(bytes.Clone(low), l.position(m.Counted.At)...)
		return item.All(item.Compare(attr, item.Ge, item.B(low)), item.Compare(attr, item.Lt, item.B(high)))
	case u.Seen != nil:
		return item.AsIn(u.Seen.snapshot, attr)
	}
	return item.Absent(attr)
}

// prefixDenied begins the attributes that count denied requests. The shard that counted them
// follows in base 32, or nothing in a sum of snapshots. They are text, because other clients take
// every number for a limit.
const prefixDenied = "_!"

// deniedAs decodes such an attribute; another form counts as 0.
func deniedAs(v item.Value) (n int64) {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		n, _ = strconv.ParseInt(s.Value, 10, 64)
	}
	return n
}

// countValue returns the stored form of a count.
func countValue(limit string, n int64) item.Value {
	if limit == bucket.Denied {
		return item.S(strconv.FormatInt(n, 10))
	}
	return item.N(n)
}

// countedIn returns the count of a limit in a snapshot; ok is false if it is not a number.
func countedIn(snapshot item.Item, limit string) (n int64, ok bool) {
	if limit != bucket.Denied {
		n, _, err := item.Int(snapshot, attrCount(limit))
		return n, err == nil
	}
	for attr, v := range snapshot {
		if strings.HasPrefix(attr, prefixDenied) {
			n = bucket.AddSat(n, deniedAs(v))
		}
	}
	return n, true
}

// attrCount returns the attribute that counts a limit: the limit's name, with an underscore before
// it if snapshots use this name for something else. Limit names start with a letter; another
// client's name that starts with an underscore gets a second one.
func attrCount(limit string) string {
	switch limit {
	case bucket.Denied:
		return prefixDenied
	case item.AttrPK, item.AttrSK, layout.AttrTTL, layout.AttrEntityID, layout.AttrResource, layout.AttrWindow,
		attrWindowStart, attrTotalEvents,
		item.AttrGSI1PK, item.AttrGSI1SK, item.AttrGSI2PK, item.AttrGSI2SK, item.AttrGSI3PK, item.AttrGSI3SK,
		item.AttrGSI4PK, item.AttrGSI4SK,
		"LSI1SK", "LSI2SK", "LSI3SK", "LSI4SK", "LSI5SK": // index keys of tables made by other clients
		return "_" + limit
	}
	if strings.HasPrefix(limit, "_") {
		return "_" + limit
	}
	return limit
}
