package admin

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// Threshold records that an entity has spent some percentage of a quota in a period: 50, 80 or 100,
// unless the aggregator has others.
type Threshold struct {
	Scope     // an entity and a resource
	Limit     string
	Percent   int       // 1 to 100
	PeriodEnd time.Time // of the quota, to the millisecond
	At        time.Time // when the aggregator saw it, in whole seconds
	// Spent and Quota are in tokens, at the time when the aggregator noticed: Spent may already
	// exceed the percentage, and Quota includes credits.
	Spent, Quota int64
}

// Thresholds lists the thresholds that the quotas of an entity have reached, on one resource or, if
// that is empty, on all; sorted by resource, then by period, earliest first. The aggregator records
// each once in a period, however often it is crossed. It does so for periods of an hour and longer,
// as soon as the stream has delivered the change, usually within seconds. Records are kept as long
// as usage (snapshotTtlDays) after the end of their period.
func (n *Namespace) Thresholds(ctx context.Context, of Scope) iter.Seq2[Threshold, error] {
	if err := cmp.Or(validate.Entity("Entity", of.Entity), of.validate()); err != nil {
		return failing[Threshold](err)
	}
	q := ledger.ThresholdsOfEntity(n.id, of.Entity, of.Resource)
	return decoded(n.calls.query(ctx, q), func(it item.Item) (Threshold, bool, error) {
		t, err := ledger.DecodeThreshold(it)
		return Threshold{
			Scope: Scope{t.Entity, t.Resource}, Limit: t.Limit, Percent: t.Percent, PeriodEnd: time.UnixMilli(t.End).UTC(),
			At: parseTime(t.At), Spent: t.Spent, Quota: t.Quota,
		}, of.Resource == "" || t.Resource == of.Resource, err // a name may begin like the resource's
	}, "list thresholds of %q", of.Entity)
}
