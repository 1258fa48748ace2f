package shard_test

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// python is another client on the same table, with the writes of the Python
// zae-limiter (wire-format.md): a plain add that looks at levels only and moves no
// clock, and a refill of its own under a lock on the refill instant.
type python struct {
	w     *world
	image table.Shard
	known bool
}

func (p *python) act() {
	switch p.w.rng.IntN(6) {
	case 0, 1:
		p.image, p.known = p.w.image(0)
	case 2, 3:
		p.fast()
	default:
		p.slow()
	}
}

func (p *python) costs() []table.Cost {
	var out []table.Cost
	for _, l := range p.w.limits {
		most := max(l.Capacity/bucket.Milli/3, 1)
		out = append(out, table.Cost{Limit: l, Milli: p.w.rng.Int64N(most+1) * bucket.Milli})
	}
	return out
}

// fast takes from a shard by a plain add. On a bucket that has been full for a
// while that is paid from what overflowed: the tokens count from the refill
// instant, and what this client gains by it nothing of ours may add to.
func (p *python) fast() {
	all := p.w.shards()
	key := bucketKey(all[p.w.rng.IntN(len(all))].Shard)
	u, costs := item.Update{Key: key}, p.costs()
	cond := []item.Cond{item.Exists(item.AttrPK)}
	for _, c := range append(costs, table.Cost{Limit: bucket.WCULimit(), Milli: bucket.WCUPerWrite}) {
		u.Add = append(u.Add, number("b_"+c.Limit.Name+"_tk", -c.Milli), number("b_"+c.Limit.Name+"_tc", c.Milli))
		cond = append(cond, item.Compare("b_"+c.Limit.Name+"_tk", item.Ge, item.N(c.Milli)))
	}
	u.If = item.All(cond...)
	p.w.late, p.w.retro = nil, costs
	p.w.call("python adds", nil, nothing, true, u)
	p.w.retro = nil
}

// slow refills by its own image and takes. Two writers with one instant do not
// exclude each other (rule 7), which is its own loss: it is not played where one
// of ours showed more than the other.
func (p *python) slow() {
	now, known := p.w.image(0)
	s := p.image.State
	if !p.known || !known || s.Shards > 1 || now.State.Shards > 1 || s.RF >= p.w.now {
		return
	}
	u, costs := item.Update{Key: bucketKey(0)}, p.costs()
	u.Set = append(u.Set, number("rf", p.w.now))
	for _, c := range costs {
		i, j := s.Index(c.Limit.Name), now.State.Index(c.Limit.Name)
		if i < 0 || j < 0 {
			return
		}
		sl := s.Slots[i]
		if now.State.Slots[j].Limit != sl.Limit {
			return // it would credit by limits that are no more
		}
		if now.State.RF == s.RF && now.State.Slots[j].Tokens+now.State.Slots[j].Used != sl.Tokens+sl.Used {
			return
		}
		level := sl.Tokens
		if gained := (p.w.now - s.RF) * sl.Amount / sl.Period; gained > 0 {
			level = min(sl.Capacity, level+gained)
		}
		if level < c.Milli {
			p.known = false
			return
		}
		u.Add = append(u.Add, number("b_"+sl.Name+"_tk", level-sl.Tokens-c.Milli), number("b_"+sl.Name+"_tc", c.Milli))
	}
	u.If = item.Compare("rf", item.Eq, item.N(s.RF))
	p.known = false
	p.w.late = nil
	p.w.call("python refills", costs, overflow, true, u)
}

// anew deletes the bucket and, half of the time, lets the Python client make it
// anew, without a generation; otherwise the next of ours does that, perhaps within the
// millisecond in which the life that has ended began. Python's refill instant is another
// then: it stands for a generation.
func (w *world) anew() {
	b, ok := w.image(0)
	if !ok || len(w.shards()) > 1 || b.State.Shards > 1 {
		return
	}
	w.db.Delete(bucketKey(0))
	w.begin()
	w.late = nil
	if w.rng.IntN(2) == 0 {
		w.now = max(w.now, b.State.RF) + 1
		fresh := table.Shard{Namespace: namespace, Entity: entity, Resource: resource,
			State: bucket.New(w.limits, 0, 1, w.now)}
		w.call("python creates", nil, nothing, false, item.Put{Item: fresh.Item(), If: item.Absent(item.AttrPK)})
	}
}

func number(name string, n int64) item.Attr { return item.Attr{Name: name, Value: item.N(n)} }
