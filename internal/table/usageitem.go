package table

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Attributes of usage snapshots, besides one number per limit.
const (
	attrWindow      = "window"
	attrWindowStart = "window_start"
	attrTotalEvents = "total_events"
	// prefixMark precedes the shard in the name of a watermark. Watermarks are
	// strings: other clients take every number attribute of a snapshot for a
	// limit.
	prefixMark = "_w"
)

// Usage is what is to be added to one usage snapshot. It is added only if no
// record of it is in the snapshot yet.
type Usage struct {
	Namespace, Entity, Resource string

	Window string // hourly, daily or monthly
	Start  string // start of the window, RFC 3339, UTC
	Part   string // the start in the form that is unique to the kind of window

	Counts []Count // by limit; zeros are allowed
	Events int64   // records that changed consumption
	Marks  []Mark  // the bucket shards that the records came from
	TTL    int64   // epoch seconds, set when the snapshot is created
}

// Count is consumption of one limit in whole tokens.
type Count struct {
	Limit  string
	Tokens int64
}

// Position is the place of a stream record among all records of its bucket
// shard. Sequence numbers order the records of one stream only: when the stream
// is disabled and enabled again, or the table restored, those of the new one may
// be lower. So the stream comes first.
type Position struct {
	Stream   int64  // when the stream was enabled, epoch seconds of up to ten digits; 0: unknown, before all others
	Sequence string // sequence number, up to 40 decimal digits
}

// String returns the position as watermarks have it, 50 digits: strings compare
// like positions. Older watermarks are the 40 digits of the sequence number alone,
// and less than those of any known stream.
func (p Position) String() string {
	stream := strconv.FormatInt(p.Stream, 10)
	return strings.Repeat("0", max(0, streamDigits-len(stream))) + stream + padded(p.Sequence)
}

const (
	streamDigits   = 10
	sequenceDigits = 40
)

// Mark is the positions of the first and the last of the stream records of one
// bucket shard.
type Mark struct {
	Shard       int
	First, Last Position
}

// Key returns the key of the snapshot.
func (u Usage) Key() item.Key { return UsageKey(u.Namespace, u.Entity, u.Resource, u.Part) }

// Update returns the write that adds the usage, and moves the watermark of each
// shard to its last record. It is refused if a watermark has reached the first
// record of its shard; the image that comes back then says what is included
// ([UsageMark]). So the same usage arriving twice, in whole or in part, is
// counted once.
func (u Usage) Update() item.Update {
	up := item.Update{Key: u.Key()}
	up.SetIfAbsent = []item.Attr{
		{Name: attrEntityID, Value: item.S(u.Entity)},
		{Name: attrResource, Value: item.S(u.Resource)},
		{Name: attrWindow, Value: item.S(u.Window)},
		{Name: attrWindowStart, Value: item.S(u.Start)},
		{Name: item.AttrGSI2PK, Value: item.S(pkResource(u.Namespace, u.Resource))},
		{Name: item.AttrGSI2SK, Value: item.S("USAGE#" + u.Part + "#" + u.Entity)},
		{Name: item.AttrGSI4PK, Value: item.S(u.Namespace)},
		{Name: item.AttrGSI4SK, Value: item.S(up.Key.PK)},
		{Name: AttrTTL, Value: item.N(u.TTL)},
	}
	for _, c := range u.Counts {
		if c.Tokens != 0 {
			up.Add = append(up.Add, item.Attr{Name: attrCount(c.Limit), Value: item.N(c.Tokens)})
		}
	}
	up.Add = append(up.Add, item.Attr{Name: attrTotalEvents, Value: item.N(u.Events)})
	cond := make([]item.Cond, 0, len(u.Marks))
	for _, m := range u.Marks {
		attr := attrMark(m.Shard)
		up.Set = append(up.Set, item.Attr{Name: attr, Value: item.S(m.Last.String())})
		cond = append(cond, item.Any(item.Absent(attr), item.Compare(attr, item.Lt, item.S(m.First.String()))))
	}
	up.If = item.All(cond...)
	return up
}

func attrMark(shard int) string { return prefixMark + strconv.Itoa(shard) }

// attrCount returns the attribute that counts a limit. It is the limit's name,
// with an underscore before it if the snapshot has an attribute of that name
// for something else. Limit names start with a letter; should a foreign one
// start with an underscore, it gets another one.
func attrCount(limit string) string {
	switch limit {
	case item.AttrPK, item.AttrSK, AttrTTL, attrEntityID, attrResource, attrWindow, attrWindowStart, attrTotalEvents,
		item.AttrGSI1PK, item.AttrGSI1SK, item.AttrGSI2PK, item.AttrGSI2SK, item.AttrGSI3PK, item.AttrGSI3SK, item.AttrGSI4PK, item.AttrGSI4SK,
		"LSI1SK", "LSI2SK", "LSI3SK", "LSI4SK", "LSI5SK": // index keys of tables made by other clients
		return "_" + limit
	}
	if strings.HasPrefix(limit, "_") {
		return "_" + limit
	}
	return limit
}

// padded returns a sequence number with leading zeros to 40 digits, so that
// strings compare like the numbers.
func padded(sequence string) string {
	digits := strings.TrimLeft(sequence, "0")
	return strings.Repeat("0", max(0, sequenceDigits-len(digits))) + digits
}

// UsageMark tells whether the record of a bucket shard at this position is
// included in the snapshot.
func UsageMark(snapshot item.Item, shard int, at Position) bool {
	m, ok := snapshot[attrMark(shard)].(*types.AttributeValueMemberS)
	return ok && at.String() <= m.Value
}

// UsageCount returns what the snapshot counts for a limit, zero if nothing.
func UsageCount(snapshot item.Item, limit string) (int64, error) {
	n, _, err := intAttr(snapshot, attrCount(limit))
	return n, err
}
