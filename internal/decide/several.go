package decide

import "github.com/zeroae/zae-limiter-go/internal/bucket"

// A request for several shards reads all of them first, and then sends a transaction. The
// tokens in the images may be gone by then: others take them, or this process has another such
// request under way. So costs under way count as taken; and after two late requests in a row,
// one is sent once in DenyFor, until it is granted. The first time the images may have been
// old; the second time they were just read, and others took the refill since.

// several is what a process has under way on several shards of a bucket at once, and how
// that went. The zero value has nothing.
type several struct {
	underWay underWay
	vain     int // requests in a row that were denied after all shards were read
}

// vainAtMost is how many requests in a row may read all shards in vain before they pause.
const vainAtMost = 2

// gathers decides on taking the costs from several shards, which hold them together. It
// denies for as long as is known to be of no use.
func (d decider) gathers(denial Choice) Choice {
	if d.attempt.Waits {
		return Choice{Do: Several}
	}
	denial.Do, denial.guess = Deny, true
	if until, paused := d.paused(); paused {
		denial.at = until
		return denial
	}
	for _, c := range d.want.Costs {
		own := d.several.underWay.of(c.Limit.Name)
		if c.Milli == 0 || own == 0 || c.Limit.Soft {
			continue
		}
		if short := bucket.SubSat(bucket.AddSat(c.Milli, own), d.holds(c, d.now)); short > 0 {
			at := bucket.AddSat(d.now, max(1, min(bucket.Wait(0, 0, c.Limit.Whole(), short), d.DenyFor)))
			denial.at, denial.Limit = at, c.Limit.Name
			return denial
		}
	}
	return Choice{Do: Several}
}

// until denies until the shards hold the costs together, and no pause is left.
func (d decider) until(denial Choice, at int64) Choice {
	denial.Do, denial.at = Deny, max(at, d.now+1)
	denial.guess = denial.guess || at <= d.now // others were faster
	if until, paused := d.paused(); paused && !d.attempt.Waits {
		denial.at, denial.guess = max(denial.at, until), true
	}
	return denial
}

// paused returns until when no request reads all shards, and whether that is still to come.
func (d decider) paused() (until int64, paused bool) {
	return bucket.AddSat(d.readAt, d.DenyFor), d.several.vain >= vainAtMost && !d.again(d.readAt)
}

// Gather notes that a request for which [Several] was decided goes on to read all shards.
// [Bucket.Gathered] is to follow, whatever comes of it: a decision alone may come to nothing.
func (b *Bucket) Gather(w Want) {
	k := b.lock()
	defer b.mu.Unlock()
	k.several.underWay.add(w.Costs)
}

// Gathered notes what became of it: whether it was granted, or found that the shards do not
// hold enough. Of one that failed it is not known.
func (b *Bucket) Gathered(w Want, granted, short bool) {
	k := b.lock()
	defer b.mu.Unlock()
	k.several.underWay.remove(w.Costs)
	k.denied = nil
	switch {
	case granted:
		k.several.vain = 0
	case short:
		k.several.vain++
	}
}
