package table_test

import (
	"reflect"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck/loadchecktest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// bucketWorld is one bucket that processes charge, from images of any age or without one. Worlds of
// quotas, slots and floors are built on it.
type bucketWorld struct {
	*loadchecktest.World
	planted string
	limits  []bucket.Limit
	procs   []*process
	decoded [4]decoded // by shard
}

// decoded is a shard as it is stored, and where.
type decoded struct {
	it item.Item // kept, so that no other is there
	at uintptr
	b  table.Shard
}

// process is one process with a clock of its own, and an image of each shard that it has met.
type process struct {
	skew   int64
	images map[int]table.Shard
}

// newBucketWorld makes a full bucket, and processes whose clocks are off by up to so many ms.
func newBucketWorld(w *loadchecktest.World, planted string, limits []bucket.Limit, processes int,
	skew int64) *bucketWorld {
	b := &bucketWorld{World: w, planted: planted, limits: limits}
	for range processes {
		b.procs = append(b.procs, &process{skew: w.Skew(skew), images: map[int]table.Shard{}})
	}
	put, _ := create(w.Now+b.procs[0].skew, table.Costs(limits))
	w.Write(put)
	return b
}

func (w *bucketWorld) anybody() *process { return w.procs[w.IntN(len(w.procs))] }

func (w *bucketWorld) clock(p *process) int64 { return w.Now + p.skew }

func shardKey(k int) item.Key { return layout.BucketKey("ns", "e", "r", k) }

// shard returns the stored shard, if there is one. The caller does not change it.
func (w *bucketWorld) shard(k int) (b table.Shard, ok bool) {
	it := w.Items[shardKey(k)]
	if it == nil {
		return b, false
	}
	last := &w.decoded[k]
	if at := reflect.ValueOf(it).Pointer(); last.at != at {
		b, err := table.DecodeShard(it)
		if err != nil {
			w.Fail("%w", err)
			return b, false
		}
		*last = decoded{it, at, b}
	}
	return last.b, true
}

// slot returns what a shard stores of a limit.
func (w *bucketWorld) slot(k int, limit string) bucket.Slot {
	b, _ := w.shard(k)
	return slotNamed(b, limit)
}

func slotNamed(b table.Shard, name string) bucket.Slot { return b.State.Slots[b.State.Index(name)] }

// see brings a process an image. It keeps the one it has if that is younger.
func (p *process) see(b table.Shard) {
	old, known := p.images[b.State.Shard]
	if !known || old.Generation != b.Generation || slotNamed(old, bucket.WCU).Used <= slotNamed(b, bucket.WCU).Used {
		p.images[b.State.Shard] = b
	}
}

// planned is the write of a charge: from an image, or the one of a process that has none.
func (w *bucketWorld) planned(k int, c table.Charge, known bool) (u item.Update, granted bool) {
	if !known {
		b, _ := w.shard(k)
		return table.Add{Namespace: "ns", Entity: "e", Resource: "r", Shard: k, Shards: b.State.Count(),
			Costs: c.Costs, Now: c.Now, Room: 50}.Plan(), true
	}
	plan := c.Plan()
	return plan.Update, plan.Verdict.Granted
}

// call sends one write of a process, which sees the shard as it was after the write.
func (w *bucketWorld) call(p *process, u item.Update, c loadchecktest.Call, check func()) {
	_, _, _, k, _ := layout.ParseBucketPK(u.Key.PK)
	arrived, answered := c.Arrived, c.Answered
	var image table.Shard
	var there bool
	c.Writes = []item.Write{u}
	c.Arrived = func(held bool) {
		if image, there = w.shard(k); held && arrived != nil {
			arrived(held)
		}
		check()
	}
	c.Answered = func(held bool) {
		if there {
			p.see(image)
		}
		if answered != nil {
			answered(held)
		}
	}
	w.Send(c)
}
