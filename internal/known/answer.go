package known

import (
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Took remembers the image that a successful write brought. The requests of the group are no longer
// under way; a nil group had none. It returns the levels of the limits in force.
func (b *Bucket) Took(image table.Shard, p Planned, w Want, group []Want, now int64) []Level {
	k := b.lock()
	defer b.mu.Unlock()
	var own []table.Cost
	if p.Takes {
		if own = w.Costs; p.ahead != nil {
			own = p.took
		}
	}
	others := k.see(image, now, p.since, own)
	s := k.at(p.Shard)
	s.underWay.removeAll(group) // the image shows it
	if p.Takes && p.members > 0 {
		s.learn(p.want, p.members, false, others, now)
	}
	s.added = false
	k.granted(s, image, p, group, now)
	b.holds.Store(k.holds())
	k.confirm(image, w, now)
	return k.levels(w.Costs, now)
}

// Refused remembers the image that a refused write brought. If the write was
// planned from one that covered its costs, others have taken them. It reports whether
// others have replaced limits of this process.
func (b *Bucket) Refused(image table.Shard, p Planned, now int64) (displaced bool) {
	k := b.lock()
	defer b.mu.Unlock()
	s := k.at(image.State.Shard)
	same := s.image.Generation == image.Generation
	others := k.see(image, now, p.since, nil)
	if p.Takes && same {
		s.learn(p.want, p.members, p.Charges, others, now)
	}
	k.short(s, p, now)
	s.added = p.adds
	return k.displace(s, now)
}

// Outbid tells what the refusal of a write means, once its image is known. answered: the bucket
// exists, and has answered. lost: others have taken the tokens. A refused charge means that if the
// bucket still has the rules that it was planned by. A bucket that is missing, or has come back,
// says nothing about tokens.
func (b *Bucket) Outbid(p Planned) (answered, lost bool) {
	k := b.lock()
	defer b.mu.Unlock()
	s := k.at(p.Shard)
	return s.imaged() && !p.Creates, p.Charges && p.Takes && s.image.Generation == p.generation
}

// Paid remembers the images of shards that have paid for a request together. A transaction
// brings none: they are worked out from its writes.
func (b *Bucket) Paid(payments []Payment, writes []item.Write, w Want, now int64) {
	k := b.lock()
	defer b.mu.Unlock()
	for i, s := range payments {
		it, held, err := writes[i].Apply(s.Image.Item())
		if err != nil || !held {
			continue
		}
		if image, err := table.DecodeShard(it); err == nil {
			k.see(image, now, k.at(image.State.Shard).serial, s.Costs)
			k.confirm(image, w, now)
		}
	}
}
