package config

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Attributes within the details of audit events.
const (
	detailLimits   = "limits"
	detailCapacity = "capacity"
	detailAmount   = "refill_amount"
	detailPeriod   = "refill_period_seconds"
	detailReset    = "reset"
	detailSchedule = "schedule"
	detailInFlight = "in_flight"
	detailFloors   = "floors"
	detailAhead    = "ahead_milliseconds"
	detailRecords  = "records_deleted"
)

// LimitsSet returns the details of stored limits at any level.
func LimitsSet(c Config) item.Item {
	limits := make([]item.Value, len(c.Limits))
	for i, l := range c.Limits {
		detail := item.Item{
			layout.AttrName: item.S(l.Name),
			detailCapacity:  item.N(l.Capacity / bucket.Milli),
			detailAmount:    item.N(l.Amount / bucket.Milli),
			detailPeriod:    item.N(l.Period / milliPerSecond),
		}
		detailKind(detail, l)
		if l.Soft {
			detail[layout.FieldSoft] = item.Bool(true)
		}
		if l.Floors != "" {
			detail[detailFloors] = item.S(l.Floors)
		}
		if l.Ahead != 0 {
			detail[detailAhead] = item.N(l.Ahead)
		}
		limits[i] = item.Map(detail)
	}
	d := item.Item{detailLimits: &types.AttributeValueMemberL{Value: limits}}
	return c.withPolicy(d)
}

// LimitsDeleted returns the details of deleted limits, with their names at the system level only.
func LimitsDeleted(c Config) item.Item {
	if c.Entity != "" || c.Resource != "" {
		return nil
	}
	names := make([]string, len(c.Limits))
	for i, l := range c.Limits {
		names[i] = l.Name
	}
	return c.withPolicy(item.Item{detailLimits: item.List(names)})
}

// withPolicy adds the settings of the system level besides limits.
func (c Config) withPolicy(d item.Item) item.Item {
	if c.Entity == "" && c.Resource == "" {
		d[AttrOnUnavailable] = item.StringOrNull(c.OnUnavailable)
	}
	return d
}

// EntitySet returns the details of a created or changed entity.
func EntitySet(e Entity) item.Item {
	it := e.Item()
	return item.Item{
		layout.AttrName: it[layout.AttrName], layout.AttrParentID: it[layout.AttrParentID],
		layout.AttrCascade: it[layout.AttrCascade], attrMetadata: it[attrMetadata],
	}
}

// EntityDeleted returns the details of a deleted entity, with the number of items deleted with it.
func EntityDeleted(records int) item.Item { return item.Item{detailRecords: item.N(int64(records))} }
