package limiter

import (
	"container/list"
	"sync"

	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// desks are all desks of a limiter, the only map by bucket. They are safe for concurrent use.
//
// A bounded number is remembered; the least recently used is evicted first. As many again are kept
// after that if they have taken tokens ahead: their next write reports what has expired unused. A
// desk that is pinned is in use, and stays until its last pin is off.
//
// mu is taken after all other locks of the limiter but that of a decide.Bucket. So who holds a
// desk's lock, or one of those that guard a part of all desks, may look for desks and pin them.
type desks struct {
	settings decide.Settings
	size     int
	mu       sync.Mutex
	by       map[decide.Name]*desk
	recent   list.List // of *desk, as owing, the least recently used first
	owing    list.List
}

// position is where a desk stands among the desks, whose mu guards it.
type position struct {
	pins int           // how many users keep it from being evicted
	in   *list.List    // recent or owing; nil: it is pinned
	at   *list.Element // of in
}

func newDesks(size int, settings decide.Settings) *desks {
	return &desks{settings: settings, size: size, by: make(map[decide.Name]*desk)}
}

// of returns the desk of a bucket.
func (ds *desks) of(n decide.Name) *desk {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	k := ds.at(n)
	ds.use(k)
	return k
}

// get is of, without making a desk: then nil.
func (ds *desks) get(n decide.Name) *desk {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	k := ds.by[n]
	if k != nil {
		ds.use(k)
	}
	return k
}

// peek is get, by which the bucket does not count as used.
func (ds *desks) peek(n decide.Name) *desk {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.by[n]
}

// pin is of, and keeps the desk from being evicted until unpin.
func (ds *desks) pin(n decide.Name) *desk {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	k := ds.at(n)
	k.position.pins++
	ds.move(k, nil)
	ds.trim()
	return k
}

// unpin ends one pin. The bucket counts as used by it.
func (ds *desks) unpin(n decide.Name) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	k := ds.by[n]
	if k == nil || k.position.pins == 0 {
		panic("bug: a desk is unpinned that is not pinned")
	}
	k.position.pins--
	ds.use(k)
}

// see remembers an image that came with the answer to a call that took nothing.
func (ds *desks) see(b table.Shard, now int64, since int) {
	ds.of(decide.Name{Entity: b.Entity, Resource: b.Resource}).See(b, now, since)
}

// at returns the desk of a bucket, a new one if there is none. mu is held, as by all that follow.
func (ds *desks) at(n decide.Name) *desk {
	k := ds.by[n]
	if k == nil {
		k = &desk{Bucket: decide.NewBucket(&ds.settings), name: n}
		ds.by[n] = k
	}
	return k
}

// use makes a desk the most recently used one, and evicts another if there are too many then.
func (ds *desks) use(k *desk) {
	if k.position.pins > 0 {
		return
	}
	ds.move(k, &ds.recent)
	ds.trim()
}

// trim evicts the desks that there are too many of. Those in use count too, but leave room for half as many
// others as are remembered.
func (ds *desks) trim() {
	used := len(ds.by) - ds.recent.Len() - ds.owing.Len()
	for ds.recent.Len() > max(ds.size-used, (ds.size+1)/2) {
		oldest := ds.recent.Front().Value.(*desk)
		if !oldest.TakesAhead() {
			ds.evict(oldest)
		} else if ds.move(oldest, &ds.owing); ds.owing.Len() > ds.size {
			ds.evict(ds.owing.Front().Value.(*desk))
		}
	}
}

// move puts a desk at the end of a list, nil for none.
func (ds *desks) move(k *desk, to *list.List) {
	p := &k.position
	if p.in == to && to != nil {
		to.MoveToBack(p.at)
		return
	}
	if p.in != nil {
		p.in.Remove(p.at)
	}
	if p.in, p.at = to, nil; to != nil {
		p.at = to.PushBack(k)
	}
}

func (ds *desks) evict(k *desk) {
	ds.move(k, nil)
	delete(ds.by, k.name)
}

// parts are the same part of all desks, as packages see it that know no desk.
type parts[T any] struct {
	*desks
	of func(*desk) *T
}

// Find returns the part of a bucket, nil if that has no desk.
func (p parts[T]) Find(n decide.Name) *T {
	if k := p.peek(n); k != nil {
		return p.of(k)
	}
	return nil
}

// Pin returns the part of a bucket, whose desk is pinned until Unpin.
func (p parts[T]) Pin(n decide.Name) *T { return p.of(p.pin(n)) }

// Unpin ends one pin.
func (p parts[T]) Unpin(n decide.Name) { p.unpin(n) }
