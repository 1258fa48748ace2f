package shard

import (
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Applied records that a step was carried out. item is the result of a single write, and may be
// nil.
func (p *Plan) Applied(s Step, item item.Item) {
	p.did = p.did || s.Shard == 0 && s.Action != Look
	switch s.Action {
	case Look, Recount:
		p.see(s.Shard, item)
	case Restore:
		restored, _, _ := s.Writes[0].Apply(nil)
		p.see(s.Shard, restored)
		zero, _, _ := s.Writes[1].Apply(p.known[0].Item()) // it may have handed tokens over
		p.see(0, zero)
	case Discount:
		kept, _, _ := s.Writes[0].Apply(p.known[s.Shard].Item())
		p.see(s.Shard, kept)
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

// gone records that the shard with the key is missing.
func (p *Plan) gone(k item.Key) {
	if _, _, _, shard, ok := layout.ParseBucketPK(k.PK); ok {
		p.see(shard, nil)
	}
}

// Refused records that conditions of a step did not hold. There is one reason for each write.
func (p *Plan) Refused(s Step, reasons []store.Reason) {
	p.refusals[s.Shard]++
	for i, w := range s.Writes {
		_, _, _, shard, ok := layout.ParseBucketPK(w.Target().PK)
		if i >= len(reasons) || !reasons[i].Refused || !ok {
			continue
		}
		if shard != s.Shard && shard != 0 { // shard 0 is only checked
			p.refusals[shard]++
		}
		p.see(shard, reasons[i].Old)
		if s.Action == Split && i == 1 && !reasons[0].Refused { // the sibling exists already
			p.recount[s.Shard] = p.known[s.Shard].State.Count()
		}
	}
}

// see records the image of a shard that the table returned.
func (p *Plan) see(k int, item item.Item) {
	if item == nil {
		delete(p.known, k)
		p.absent[k] = true
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

// over reports whether the plan is no longer needed.
func (p *Plan) over() bool {
	zero, known := p.known[0]
	count, from := zero.State.Count(), p.target
	if p.about.State.Shard == 0 {
		from = p.about.State.Count()
	}
	return p.absent[0] || p.refusals[0] >= maxRefusals || len(zero.Partial) > 0 ||
		known && (count < min(from, p.target) || count > max(from, p.target))
}

// Changed reports whether the plan itself has split or merged shard 0, or changed its count.
func (p *Plan) Changed() bool { return p.did }

// Without marks shards as missing, which saves looking at them.
func (p *Plan) Without(missing ...int) *Plan {
	for _, k := range missing {
		p.absent[k] = true
	}
	return p
}

// Absent returns the shards that the plan found, or made, missing.
func (p *Plan) Absent() []int {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.absent)), func(k int) bool { return k == 0 })
}

// Images returns the images of all shards that the plan has, in order.
func (p *Plan) Images() []table.Shard {
	out := make([]table.Shard, 0, len(p.known))
	for _, k := range slices.Sorted(maps.Keys(p.known)) {
		out = append(out, p.known[k])
	}
	return out
}
