package shard

import (
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Applied takes in that a step was carried out. item is what a single write
// returned; it may be nil.
func (p *Plan) Applied(s Step, item item.Item) {
	delete(p.recount, s.Shard)
	switch s.Action {
	case Look, Recount:
		p.see(s.Shard, item)
	case Restore:
		restored, _, _ := s.Writes[0].Apply(nil)
		p.see(s.Shard, restored)
		if p.zero.State.Shard == 0 { // it may have handed something over
			zero, _, _ := s.Writes[1].Apply(p.zero.Item())
			p.renew(zero)
		}
	case Discount:
		kept, _, _ := s.Writes[0].Apply(p.known[s.Shard].Item())
		p.see(s.Shard, kept)
		if s.Shard == 0 {
			p.target = min(p.target, p.known[0].State.Count())
		}
	case Merge:
		kept, _, _ := s.Writes[1].Apply(p.known[s.Shard].Item())
		p.see(s.Shard, kept)
		p.gone(s.Writes[0].Target())
	case Split:
		b := p.known[s.Shard]
		keep, _, _ := s.Writes[0].Apply(b.Item())
		moved, _, _ := s.Writes[1].Apply(nil)
		p.see(s.Shard, keep)
		p.see(s.Shard+b.State.Count(), moved)
	}
}

// gone notes that the shard with the key is not there.
func (p *Plan) gone(k item.Key) {
	if _, _, _, shard, ok := layout.ParseBucketPK(k.PK); ok {
		p.see(shard, nil)
	}
}

// Refused takes in that a step's condition did not hold. items are the
// images that came back, one per write, nil where there was no item or no
// refusal; refused says which conditions failed, as many.
func (p *Plan) Refused(s Step, refused []bool, items []item.Item) {
	p.refusals[s.Shard]++
	at := func(i int) (bool, item.Item) {
		if i < len(refused) {
			return refused[i], items[i]
		}
		return false, nil
	}
	own, item := at(0)
	switch s.Action {
	case Restore: // writes: the shard, shard 0, and perhaps a check of the parent
		if own { // others have restored it
			p.see(s.Shard, item)
			return
		}
		if other, parent := at(2); other { // it has merged meanwhile
			p.see(bucket.SplitParent(s.Shard), parent)
			return
		}
		if _, zero := at(1); !p.renew(zero) {
			p.refusals[s.Shard] = maxRefusals // shard 0 has moved on: a newer plan will see to it
		}
	case Merge, Discount:
		p.unmerged(s, at)
	case Split: // writes: the shard, its sibling, and perhaps a check of shard 0
		if own { // it is not as its image
			p.see(s.Shard, item)
			return
		}
		if moved, _ := at(2); moved { // shard 0 has moved on: a newer plan will see to it
			p.refusals[s.Shard] = maxRefusals
			return
		}
		if other, _ := at(1); other { // the sibling exists already
			p.recount[s.Shard] = true
		}
	default: // Look and Recount are one write
		p.see(s.Shard, item)
	}
}

// unmerged takes in why a merge or a discount did not hold. The shard that is kept
// is the second write of a merge, the first of a discount. The others are of its
// siblings, and the last one may be a check of shard 0.
func (p *Plan) unmerged(s Step, at func(int) (bool, item.Item)) {
	kept := 1
	if s.Action == Discount {
		kept = 0
	}
	for i, w := range s.Writes {
		refused, it := at(i)
		_, _, _, shard, ok := layout.ParseBucketPK(w.Target().PK)
		switch {
		case !refused || !ok:
		case i == kept:
			p.see(s.Shard, it)
		case shard == 0: // it has moved on: a newer plan will see to it
			p.refusals[s.Shard] = maxRefusals
		default:
			p.refusals[shard]++
			p.see(shard, it)
		}
	}
}

// renew takes in an image of shard 0 as the pattern for missing shards, if it still has the count
// that the plan is for. It reports whether it has.
func (p *Plan) renew(item item.Item) bool {
	if item == nil {
		return false
	}
	b, err := table.DecodeShard(item)
	if err != nil || b.State.Shard != 0 || b.State.Shards != p.target {
		return false
	}
	p.zero = b
	if _, ok := p.known[0]; ok {
		p.known[0] = b
	}
	return true
}

// see takes in the image of a shard as it came back from the table.
func (p *Plan) see(k int, item item.Item) {
	if item == nil {
		delete(p.known, k)
		p.absent[k] = k != 0
		if k == 0 {
			p.refusals[k] = maxRefusals // the bucket is gone
		}
		return
	}
	b, err := table.DecodeShard(item)
	if err != nil || b.State.Shard != k {
		p.refusals[k] = maxRefusals
		return
	}
	p.known[k] = b
	delete(p.absent, k)
}

// Without saves a look at shards that were found missing.
func (p *Plan) Without(missing ...int) *Plan {
	for _, k := range missing {
		p.absent[k] = true
	}
	return p
}

// Absent returns the shards that the plan has found, or made, missing.
func (p *Plan) Absent() []int {
	var out []int
	for _, k := range slices.Sorted(maps.Keys(p.absent)) {
		if p.absent[k] {
			out = append(out, k)
		}
	}
	return out
}

// Images returns the images of all shards the plan knows, in order.
func (p *Plan) Images() []table.Shard {
	out := make([]table.Shard, 0, len(p.known))
	for _, k := range slices.Sorted(maps.Keys(p.known)) {
		out = append(out, p.known[k])
	}
	return out
}
