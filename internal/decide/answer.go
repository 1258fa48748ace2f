package decide

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// took remembers the image of a successful write. The requests of the group are no longer under
// way; a nil group had none. It returns the levels of the limits in force.
func (k *facts) took(image table.Shard, p Planned, w Want, group []Want, now int64) []Level {
	var own []table.Cost
	if p.Takes {
		if own = w.Costs; p.ahead != nil {
			own = p.took
		}
	}
	for _, d := range p.rides {
		own = append(slices.Clip(own), d.Costs...)
	}
	others := k.see(image, now, p.since, own)
	s := k.at(p.Shard)
	for _, w := range group { // the image shows it
		s.underWay.remove(w.Costs)
	}
	s.arrived(p.rides)
	if p.Takes && p.members > 0 {
		k.learn(s, p, false, others, now)
	}
	s.added = false
	k.granted(s, image, p, group, now)
	k.confirm(image, w, now)
	return k.levels(w.Costs, now, false)
}

// refused remembers the image of a refused write. If the write was planned from an image that
// covered its costs, others have taken the tokens. It reports whether others have replaced limits
// of this process.
func (k *facts) refused(image table.Shard, p Planned, now int64) (displaced bool) {
	s := k.at(image.State.Shard)
	same := s.image.Generation == image.Generation
	others := k.see(image, now, p.since, nil)
	if p.Takes && same {
		k.learn(s, p, p.Charges, others, now)
	}
	s.added = p.adds
	return k.displace(s, now)
}

// outbid interprets the refusal of a write, once its image is known. answered: the bucket exists,
// and has answered. lost: others have taken the tokens, or leave no room for an add that goes out
// in place of a charge. A refusal shows that only if the bucket still has the rules of the plan. A
// bucket that is missing, or has come back, shows nothing about tokens. Nor does a charge that came
// too late for the clock of the bucket, because this process stood still: that is not an answer.
func (k *facts) outbid(p Planned) (answered, lost bool) {
	s, charge := k.at(p.Shard), p.Charges && p.Takes
	if p.Creates || charge && s.image.State.RF > bucket.AddSat(p.clock, table.MaxLag) {
		return false, false
	}
	return s.imaged(), (charge || p.adds) && s.image.Generation == p.generation
}

// Paid returns the grant of a request that several shards have paid together, by writes of the
// instant sent. A transaction returns no images: they are computed from its writes.
func (b *Bucket) Paid(payments []Payment, writes []item.Write, w Want, sent, now int64) Grant {
	k := b.lock()
	defer b.mu.Unlock()
	g := Grant{Name: w.Name, Worked: true}
	for i, s := range payments {
		g.Parts = append(g.Parts, Part{Key: s.Image.Key(), Shard: s.Image.State.Shard, Taken: s.Taken(sent)})
		it, held, err := writes[i].Apply(s.Image.Item())
		if err != nil || !held {
			continue
		}
		if image, err := table.DecodeShard(it); err == nil {
			k.see(image, now, k.at(image.State.Shard).serial, s.Costs)
			k.confirm(image, w, now)
		}
	}
	image := k.at(g.Parts[0].Shard).image
	g.Image, g.Levels = &image, k.levels(w.Costs, now, false)
	return g
}

// Created returns the grant of a request for which p has created the bucket, while nothing was
// under way.
func (b *Bucket) Created(p Planned, w Want, now int64) Grant {
	it, _, _ := p.Write.Apply(nil)
	image, err := table.DecodeShard(it)
	if err != nil {
		panic("bug: " + err.Error())
	}
	k := b.lock()
	defer b.mu.Unlock()
	levels := k.took(image, p, w, nil, now)
	b.holds.Store(k.holds())
	return Grant{Name: w.Name, Parts: []Part{{Key: image.Key(), Taken: w.Costs}}, Image: &image, Levels: levels}
}
