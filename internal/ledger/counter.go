package ledger

import (
	"encoding/binary"
	"math/bits"
)

const (
	negative  = 0xDF
	noCounter = 0xE0
)

// appendCounter encodes a counter: a small one in one byte below 0xC0, others after 0xC0 to 0xDF, a
// byte with the number of following bytes minus one and the two highest bits. A negative one, which
// is rare, is 0xDF and eight bytes.
func appendCounter(b []byte, n int64) []byte {
	u := uint64(n)
	switch {
	case n < 0:
		return binary.BigEndian.AppendUint64(append(b, negative), u)
	case u < 0xC0:
		return append(b, byte(u))
	}
	more := (bits.Len64(u) - 2 + 7) / 8
	top := byte(u >> (8 * more))
	b = append(b, 0xC0|byte(more-1)<<2|top)
	for i := more - 1; i >= 0; i-- {
		b = append(b, byte(u>>(8*i)))
	}
	return b
}

func takeCounter(b []byte) (n int64, rest []byte, ok bool) {
	first := b[0]
	if b = b[1:]; first >= noCounter {
		return 0, b, true
	}
	if first < 0xC0 {
		return int64(first), b, true
	}
	more := int(first>>2&7) + 1
	if len(b) < more {
		return 0, nil, false
	}
	u := uint64(first & 3)
	if first == negative {
		u = 0
	}
	for _, c := range b[:more] {
		u = u<<8 | uint64(c)
	}
	return int64(u), b[more:], (int64(u) < 0) == (first == negative)
}
