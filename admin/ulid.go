package admin

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"sync"
	"time"
)

// ulids makes identifiers of audit events: 48 bits of milliseconds and 80 random
// bits in Crockford's base 32, 26 characters that sort by time. Within one
// millisecond, and while the clock stands back, they count up, so that
// events of one process sort in the order in which they were made.
type ulids struct {
	mu   sync.Mutex
	last [16]byte
}

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

var digits = base32.NewEncoding(crockford)

func (u *ulids) next(ms int64) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	id := at(ms)
	if string(id[:6]) > string(u.last[:6]) {
		rand.Read(id[6:])
		id[6] &= 0x7f // room to count up
	} else {
		id = u.last
		for i := 15; i >= 0; i-- {
			if id[i]++; id[i] != 0 {
				break
			}
		}
	}
	u.last = id
	return encode(id)
}

// idAt is the least identifier of an instant.
func idAt(t time.Time) string { return encode(at(max(0, t.UnixMilli()))) }

// at is the least identifier of a millisecond.
func at(ms int64) (id [16]byte) {
	binary.BigEndian.PutUint64(id[:], uint64(ms)<<16)
	return id
}

// encode renders 128 bits as 26 digits of 5 bits, the first of which has 3.
func encode(id [16]byte) string {
	return digits.EncodeToString(append(make([]byte, 4), id[:]...))[6:] // of the 32 digits of 160 bits
}
