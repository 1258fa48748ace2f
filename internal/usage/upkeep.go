package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Config has the choices of an operator. All fields are required.
type Config struct {
	Windows         []Window
	SnapshotTTLDays int // days that a snapshot outlives its window
	MaxShards       int
	MergeAfter      int64 // ms since a bucket last split or merged, after which it merges if it is cool
	// Percents are the parts of quotas that are reported when they are spent, ascending: by the
	// name of the limit, under "" for all others.
	Percents map[string][]int
}

// Upkeep is the work that a batch asks for, besides usage: writes, and steps of writes. Its parts
// do not depend on each other: each is conditional, and each may be written twice, or half, or not
// at all, without harm to the others.
type Upkeep struct {
	Refills     []Write      // of shards that would run dry
	Reshardings []Resharding // buckets whose count of shards changes
	Lifetimes   []Write      // of ttls that would end too early, or of split buckets, which must not expire
	Spendings   []Spending   // buckets whose quotas may have reached a threshold
}

// Decide returns the work that a folded batch asks for, besides usage. If the batch arrives again,
// everything is refused by the image it was planned from. Shards that were removed need nothing.
func Decide(histories []History, now int64, conf Config) Upkeep {
	var p Upkeep
	histories = slices.DeleteFunc(slices.Clone(histories), func(b History) bool { return !b.alive() })
	for len(histories) > 0 {
		n := 1
		for n < len(histories) && histories[n].Bucket == histories[0].Bucket {
			n++
		}
		shards := histories[:n]
		if s, due := spending(shards, conf); due {
			p.Spendings = append(p.Spendings, s)
		}
		changes := reshardings(shards, conf)
		p.Reshardings = append(p.Reshardings, changes...)
		for _, b := range shards {
			p.keepWarm(b, now, changes)
		}
		histories = histories[n:]
	}
	return p
}

// keepWarm plans the refill of a shard, or else the mending of its lifetime. A shard that is about
// to be split or merged is left alone: that is planned from the same image.
func (p *Upkeep) keepWarm(b History, now int64, changes []Resharding) {
	for _, r := range changes {
		if r.changes(b.Shard) {
			return
		}
	}
	if r, due := b.Refill(b.last().New, now); due {
		p.Refills = append(p.Refills, r)
	} else if l, due := b.lifetime(now); due {
		p.Lifetimes = append(p.Lifetimes, l)
	}
}

// refillSlack is by how many percent of its capacity a refill may show a nearly full level
// too low: its image is as old as the stream is late.
const refillSlack = 2

// Write is one write that a shard needs.
type Write struct {
	History
	Update item.Update
}

// Resume is the sequence number to resume from if it is not written.
func (w Write) Resume() string { return w.last().Sequence }

// Refill returns the refill of the shard as it is in image; due is false if it needs none. It needs
// one when a stored level is low, and a refill gives this limit a token or more: less is not worth
// a write. A level is low if it could not pay this batch once more: 6 tokens left after a batch
// that took 10. The write meter is low below half. All limits are credited. If some limits of the
// image cannot be refilled, the clients must do it: they know the limits.
func (b History) Refill(image table.Shard, now int64) (w Write, due bool) {
	if len(image.Partial) > 0 {
		return w, false
	}
	spent := b.spent(image.State)
	var low []bucket.Slot
	for i, sl := range image.State.Slots {
		// Other clients double the shards when the write meter seems empty.
		if spent[i] > 0 && sl.Tokens < spent[i] || sl.Name == bucket.WCU && sl.Tokens < sl.Capacity/2 {
			low = append(low, sl)
		}
	}
	if low == nil {
		return w, false // as nearly always, and a plan takes longer than all else here
	}
	plan := table.Charge{Image: image, Now: now, Slack: refillSlack}.Plan()
	for _, sl := range low {
		if j := plan.Before.Index(sl.Name); j >= 0 && plan.Before.Slots[j].Tokens-sl.Tokens >= bucket.Milli {
			return Write{b, plan.Update}, true
		}
	}
	return w, false
}

// lifetime returns the mending of the ttl; due is false if the ttl is right. A split bucket must
// not expire at all, an unsplit one not before it is full.
func (b History) lifetime(now int64) (w Write, due bool) {
	image := b.last().New
	w.History = b
	switch {
	case image.TTL != 0 && image.State.Shards > 1:
		w.Update, due = table.KeepForever(b.key()), true
	case len(image.Partial) == 0:
		w.Update, due = table.Prolong(image, now)
	}
	return w, due
}
