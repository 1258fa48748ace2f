package queue

import "github.com/zeroae/zae-limiter-go/internal/decide"

// Room is where the requests of this process wait for one bucket. The zero value is empty.
type Room struct {
	// Guarded by the Lines.
	lines  map[string]*oneLine // by class: who leaves more does not stand before others
	behind []*oneLine          // whose first is denied by this bucket, that of a parent, as they came

	sleepers []*Sleeper // guarded by the Sleepers
}

// Rooms are the rooms of all buckets. The locks of Lines and Sleepers are held when it is called.
type Rooms interface {
	// Find returns the room of a bucket, nil if it has none.
	Find(decide.Name) *Room
	// Pin returns the room of a bucket, a new one if it has none. It stays that of the bucket until
	// Unpin was called as often.
	Pin(decide.Name) *Room
	Unpin(decide.Name)
}
