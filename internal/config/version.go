package config

import (
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

const (
	attrSchemaVersion = "schema_version"
	attrLambdaVersion = "lambda_version"
	attrClientMin     = "client_min_version"
	attrUpdatedAt     = "updated_at"
	attrUpdatedBy     = "updated_by"
)

// Version is the table's version record.
type Version struct {
	Schema string
	// Lambda is the Python release whose aggregator the deployed one corresponds to. If it is
	// empty, it is unknown, and Python 0.15 and newer refuse to store attributes that an older
	// aggregator would spoil.
	Lambda    string
	ClientMin string
	UpdatedAt string // see [layout.Timestamp]
	UpdatedBy string // empty: unknown
}

// Item returns the record in stored form.
func (v Version) Item() item.Item {
	k := layout.VersionKey()
	it := k.Item()
	it[attrSchemaVersion] = item.S(v.Schema)
	it[attrLambdaVersion] = item.StringOrNull(v.Lambda)
	it[attrClientMin] = item.S(v.ClientMin)
	it[attrUpdatedAt] = item.S(v.UpdatedAt)
	it[attrUpdatedBy] = item.StringOrNull(v.UpdatedBy)
	return layout.WithGSI4(it, layout.TableNamespace, k.PK)
}

// Create stores the record if there is none.
func (v Version) Create() item.Put { return item.Put{Item: v.Item(), If: item.Absent(item.AttrPK)} }

// Disown removes the aggregator's release from the record, unless the record has changed since v
// was read.
func (v Version) Disown(at string) item.Update {
	return item.Update{
		Key: layout.VersionKey(),
		Set: []item.Attr{
			{Name: attrLambdaVersion, Value: item.Null()}, {Name: attrUpdatedAt, Value: item.S(at)},
			{Name: attrUpdatedBy, Value: item.Null()},
		},
		If: item.Compare(attrLambdaVersion, item.Eq, item.S(v.Lambda)),
	}
}

// DecodeVersion reads the version record.
func DecodeVersion(it item.Item) (Version, error) {
	r := item.Reader{It: it}
	if item.KeyOf(it) != layout.VersionKey() {
		r.Fail("%w", item.ErrKey)
	}
	v := Version{
		Schema: r.Need(attrSchemaVersion), Lambda: r.Str(attrLambdaVersion), ClientMin: r.Str(attrClientMin),
		UpdatedAt: r.Str(attrUpdatedAt), UpdatedBy: r.Str(attrUpdatedBy),
	}
	return item.Decoded(&r, "version", v)
}
