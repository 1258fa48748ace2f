package waitqueue

import "github.com/zeroae/zae-limiter-go/internal/decide"

// rooms exist while they are pinned.
type rooms map[decide.Name]*pinned

type pinned struct {
	Room
	pins int
}

// Find implements [Rooms].
func (all rooms) Find(n decide.Name) *Room {
	if all[n] == nil {
		return nil
	}
	return &all[n].Room
}

// Pin implements [Rooms].
func (all rooms) Pin(n decide.Name) *Room {
	if all[n] == nil {
		all[n] = &pinned{}
	}
	all[n].pins++
	return &all[n].Room
}

// Unpin implements [Rooms].
func (all rooms) Unpin(n decide.Name) {
	if all[n].pins--; all[n].pins > 0 {
		return
	}
	if r := all[n]; len(r.lines)+len(r.behind)+len(r.sleepers) > 0 {
		panic("somebody waits in a room that is not pinned")
	}
	delete(all, n)
}
