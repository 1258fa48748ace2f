package desk

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A request that no single shard covers takes from several of them, in one transaction.

// Spread takes the costs from several shards. It reads them first: their images must be of one
// moment, and a read of all is cheaper than a refused transaction. If others take from the shards
// in the meantime, and a round trip is left, it is planned once more from the images that the
// refusal brings. The grant is empty if the shards do not hold enough; their levels are known then.
// Owing, every shard pays its part, into debt.
func (d *Desks) Spread(ctx context.Context, k *Desk, w decide.Want, owe bool,
	tries *Attempt) (g decide.Grant, err error) {
	k.Gather(w)
	defer func() { k.Gathered(w, g.Parts != nil, g.Parts == nil && err == nil) }()
	images, _, err := d.readShards(ctx, k)
	tries.Waited(false)
	for again := true; err == nil && again; {
		now, slack, last := d.Now(), int64(1), tries.Last(d.Moment()) // slack is what others may take meanwhile
		if last {
			slack = 0 // any
		}
		pay := decide.ByLevels(images, w, now)
		if owe {
			pay = decide.ByShares(images, w)
		}
		if len(pay) == 0 {
			return g, nil
		}
		writes := make([]item.Write, len(pay))
		for i, p := range pay {
			writes[i] = p.Write(w, now, slack)
		}
		grants, refused, err := d.transact(ctx, writes, tries, func() []decide.Grant {
			g := k.Paid(pay, writes, w, now, d.Now())
			g.Turn = d.Waiting.Turn()
			return []decide.Grant{g}
		})
		switch {
		case err != nil:
			return g, err
		case refused == nil:
			return grants[0], nil
		}
		tries.Waited(true)
		if again, err = d.outpaid(k, images, pay, refused); err != nil {
			return g, err
		}
		again = again && !last
	}
	return g, err
}

// outpaid replaces the images of a plan with the images of the refused transaction. It reports
// whether it can be planned again from them: not if shards have split or merged in the meantime.
func (d *Desks) outpaid(k *Desk, images []table.Shard, pay []decide.Payment,
	refused *store.Canceled) (again bool, err error) {
	again = true
	for i, r := range refused.Reasons {
		old := pay[i].Image.State
		if !r.Refused {
			continue
		}
		if r.Old == nil {
			k.Missing(d.Now(), old.Shard)
			again = false
			continue
		}
		b, err := table.DecodeShard(r.Old)
		if err != nil {
			return false, err
		}
		k.See(b, d.Now(), decide.Unsent)
		j := slices.IndexFunc(images, func(o table.Shard) bool { return o.State.Shard == old.Shard })
		images[j] = b
		again = again && b.State.Count() == old.Count()
	}
	return again, nil
}
