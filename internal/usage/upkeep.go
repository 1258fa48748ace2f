package usage

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Config is the operator's settings. All fields are required.
type Config struct {
	Windows         []Window
	SnapshotTTLDays int // how many days a snapshot outlives its window
	MaxShards       int
	MergeAfter      int64 // ms after a split or merge from which a cool bucket merges
	// Percents is the percents of quotas to report when they are spent, ascending, by limit name;
	// under "" for all others.
	Percents map[string][]int
}

// Upkeep is the work that a batch requires besides usage. Its parts are independent: each is
// conditional, and may be written twice, partly or not at all without harm to the others.
type Upkeep struct {
	Refills     []Write      // of shards that would run dry
	Reshardings []Resharding // buckets whose count of shards changes
	Lifetimes   []Write      // of ttls that would end too early, or of split buckets, which must not expire
	Spendings   []Spending   // buckets whose quotas may have reached a threshold
}

// Decide returns the work that a folded batch requires besides usage. If the batch arrives again,
// all of it is refused, because of the image from which it was planned. Removed shards need no
// work.
func Decide(histories []History, now int64, conf Config) Upkeep {
	var p Upkeep
	histories = slices.DeleteFunc(slices.Clone(histories), func(b History) bool {
		return b.last().Operation == stream.Remove
	})
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

// keepWarm plans the refill of a shard, or otherwise the correction of its lifetime. It ignores a
// shard that is about to split or merge, which is planned from the same image.
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

// refillSlack is by how many percent of its capacity a refill may show a nearly full level too low,
// because its image is as old as the stream is late.
const refillSlack = 2

// Write is a write on a shard.
type Write struct {
	History
	Update item.Update
}

// Refill returns the refill of the shard in the state of image; due is false if it needs none. It
// needs one if a stored level is low and the refill gives this limit at least one token: less is
// not worth a write. A level is low if it could not pay for this batch once more, for example 6
// tokens after a batch that took 10. The write meter is low below half. All limits are credited. If
// some limits of the image cannot be refilled, the clients must do it, because they know all
// limits.
func (b History) Refill(image table.Shard, now int64) (w Write, due bool) {
	if len(image.Partial) > 0 {
		return w, false
	}
	spent := b.spent(image.State)
	var low []bucket.Slot
	for i, sl := range image.State.Slots {
		// Other clients double the shards if the write meter seems empty.
		if spent[i] > 0 && sl.Tokens < spent[i] || sl.Name == bucket.WCU && sl.Tokens < sl.Capacity/2 {
			low = append(low, sl)
		}
	}
	if low == nil {
		return w, false // as nearly always; a plan takes longer than everything else here
	}
	plan := table.Charge{Image: image, Now: now, Slack: refillSlack}.Plan()
	for _, sl := range low {
		if j := plan.Before.Index(sl.Name); j >= 0 && plan.Before.Slots[j].Tokens-sl.Tokens >= bucket.Milli {
			return Write{b, plan.Update}, true
		}
	}
	return w, false
}

// lifetime returns the correction of the ttl; due is false if the ttl is right. A split bucket must
// not expire, and an unsplit one not before it is full.
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
