package ledger

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

const skThresholdPrefix = "#QUOTA#"

// Attributes that only thresholds have.
const (
	attrLimitName = "limit"
	attrPeriodEnd = "period_end"
	attrPercent   = "percent"
	attrSpent     = "spent"
	attrQuota     = "quota"
)

// Threshold records that an entity has spent some percent of a quota in a period. The aggregator
// writes it once, and its ttl removes it.
type Threshold struct {
	Namespace, Entity, Resource, Limit string

	End     int64 // of the period, epoch milliseconds
	Percent int   // the percentage reached or passed, 1 to 100

	Spent, Quota int64  // in whole tokens, rounded down, when the threshold was reached; Quota includes credit
	At           string // when it was noticed, see [layout.Timestamp]
	TTL          int64  // epoch seconds
}

// Key returns the key of the record, unique for each percentage and period.
func (t Threshold) Key() item.Key {
	return item.Key{PK: layout.EntityPK(t.Namespace, t.Entity),
		SK: fmt.Sprintf("%s%s#%013d#%s#%03d", skThresholdPrefix, t.Resource, t.End, t.Limit, t.Percent)}
}

// Update returns the write of the record, which is refused if the record exists.
func (t Threshold) Update() item.Update {
	k := t.Key()
	return item.Update{Key: k, If: item.Absent(item.AttrPK), Set: []item.Attr{
		{Name: layout.AttrEntityID, Value: item.S(t.Entity)},
		{Name: layout.AttrResource, Value: item.S(t.Resource)},
		{Name: attrLimitName, Value: item.S(t.Limit)},
		{Name: attrPeriodEnd, Value: item.N(t.End)},
		{Name: attrPercent, Value: item.N(int64(t.Percent))},
		{Name: attrSpent, Value: item.N(t.Spent)},
		{Name: attrQuota, Value: item.N(t.Quota)},
		{Name: AttrAt, Value: item.S(t.At)},
		{Name: item.AttrGSI4PK, Value: item.S(t.Namespace)},
		{Name: item.AttrGSI4SK, Value: item.S(layout.Cut(k.PK))},
		{Name: layout.AttrTTL, Value: item.N(t.TTL)},
	}}
}

// Item returns the record in stored form.
func (t Threshold) Item() item.Item {
	u := t.Update()
	it := u.Key.Item()
	for _, a := range u.Set {
		it[a.Name] = a.Value
	}
	return it
}

// DecodeThreshold decodes the record.
func DecodeThreshold(it item.Item) (Threshold, error) {
	r := item.Reader{It: it}
	var t Threshold
	t.Namespace, t.Entity = layout.Under(&r, layout.EntityPKPart)
	t.Resource, t.Limit, t.At = r.Need(layout.AttrResource), r.Need(attrLimitName), r.Need(AttrAt)
	t.End, t.Percent = r.Int(attrPeriodEnd), int(r.Int(attrPercent))
	t.Spent, t.Quota, t.TTL = r.Int(attrSpent), r.Int(attrQuota), r.Int(layout.AttrTTL)
	if t.Key() != item.KeyOf(it) {
		r.Fail("%w", item.ErrKey)
	}
	return item.Decoded(&r, "threshold", t)
}

// ThresholdsOfEntity queries the records of an entity, on a resource or, if it is empty, on all.
func ThresholdsOfEntity(ns, entity, resource string) item.Query {
	q := item.Query{PK: layout.EntityPK(ns, entity), Prefix: skThresholdPrefix, Consistent: true}
	if resource != "" {
		q.Prefix += resource + "#"
	}
	return q
}
