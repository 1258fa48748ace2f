package waitqueue

import "github.com/zeroae/zae-limiter-go/internal/decide"

// Room is where the requests of this process wait for one bucket. The zero value is empty.
type Room struct {
	// Guarded by the Lines.
	lines  map[string]*oneLine // by class: a request that leaves more to others must not stand before them
	behind []*oneLine          // lines whose first this bucket, a parent's, has denied, as they came

	sleepers []*Sleeper // guarded by the Sleepers
}

// Rooms are the rooms of all buckets. Lines and Sleepers call it with their locks held.
type Rooms interface {
	// Find returns the room of a bucket, nil if it has none.
	Find(decide.Name) *Room
	// Pin returns the room of a bucket, a new one if it has none. The bucket keeps it until Unpin
	// was called as often.
	Pin(decide.Name) *Room
	Unpin(decide.Name)
}
