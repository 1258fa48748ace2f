package decide

import (
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// Settings are the same for all buckets of a process.
type Settings struct {
	DenyFor   int64 // how long, in ms, an image may deny without asking
	Slack     int64 // how much lower than it is a full limit may be shown, in percent of its capacity
	MaxShards int   // the most shards that a bucket is split into
}

// facts is the process's knowledge of a bucket. A function that has one holds its lock.
type facts struct {
	*Settings
	ahead     int64   // the last request's Want.Ahead
	trip      float64 // the last Now.Trip: how long, in ms, a write and its answer are under way
	count     int     // largest shard count seen, at least 1
	shards    map[int]*seen
	home      home
	lookedAt  int64            // when the last look went out, epoch ms
	raisedAt  int64            // when an image last showed more than refill explains, epoch ms
	readAt    int64            // when all shards were last read for this reason, epoch ms
	drained   int64            // before it nothing is granted of what this process has at hand, epoch ms
	adoptedAt int64            // when limits were last brought in force for a denial, epoch ms
	largest   map[string]int64 // by limit: the largest cost seen
	several   several          // requests that take from several shards at once
	denials   denials
	denied    *denied // the last denial, for as long as nothing new is seen
	yields    []yield // limits of this process that others have replaced
	replaced  int     // how often they have
}

func (k *facts) at(shard int) *seen {
	s := k.shards[shard]
	if s == nil {
		s = &seen{}
		if k.shards == nil {
			k.shards = make(map[int]*seen, 1)
		}
		k.shards[shard] = s
	}
	return s
}

// each goes through the known shards, in any order. Most buckets have one.
func (k *facts) each() iter.Seq[*seen] {
	return func(yield func(*seen) bool) {
		if s := k.shards[0]; s != nil && len(k.shards) == 1 {
			yield(s)
			return
		}
		for _, s := range k.shards {
			if !yield(s) {
				return
			}
		}
	}
}

// seen is the knowledge of one shard.
type seen struct {
	image    table.Shard      // the last one seen; without a key if there is none
	at       int64            // when it was seen, epoch ms
	rules    int64            // when it was given the limits that it has, as far as was seen, see table.Began
	serial   int              // counts the images seen
	absent   bool             // the item was not there
	added    bool             // a plain add has just been refused
	others   others           // what other processes take
	shares   map[int64]*share // of the refill, while others take, too, by Want.floor
	underWay underWay
	holding  *holding      // with Settings.Ahead
	due      []*Difference // to be settled with a charge, or on their way with one
	asks     time.Time     // when the driver calls Due; zero: it does not
	settling time.Time     // when the last write began that settles alone; zero once it has ended
	call     *Call         // the last one that others may wait behind; nil once it has landed
	// confirmed are limits of this process that were seen in force, of some calls.
	confirmed [][]bucket.Limit
}

func (s *seen) imaged() bool { return s != nil && s.image.Entity != "" }
