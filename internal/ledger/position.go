package ledger

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/sequence"
)

// Position is the place of a stream record among all records of its bucket shard. Sequence numbers
// only order the records of one stream: if the stream is disabled and enabled again, or the table
// restored, the new stream's numbers may be lower. So the stream comes first. Positions can be
// compared with ==; the zero Position is before all records.
type Position struct {
	Stream    int64 // when the stream was enabled, epoch seconds; 0: unknown, before all others
	top       uint8 // the digits of the sequence number before the last 38
	high, low uint64
}

const (
	lowDigits      = 19
	tenToLowDigits = 10_000_000_000_000_000_000
	sequenceDigits = sequence.MaxDigits
	// packedNumber is the greatest length of a packed sequence number in bytes.
	packedNumber = 17
)

// PositionOf returns the position of the record with a sequence number, up to 40 decimal digits
// with or without leading zeros, in the stream enabled at the given time. Anything but digits
// counts as 0.
func PositionOf(stream int64, sequence string) Position {
	p := Position{Stream: stream}
	n := min(len(sequence), sequenceDigits)
	sequence = sequence[len(sequence)-n:]
	cut := func(from, to int) (v uint64) {
		for _, c := range []byte(sequence[max(0, from):max(0, to)]) {
			if v *= 10; '0' <= c && c <= '9' {
				v += uint64(c - '0')
			}
		}
		return v
	}
	p.low = cut(n-lowDigits, n)
	p.high = cut(n-2*lowDigits, n-lowDigits)
	p.top = uint8(cut(0, n-2*lowDigits))
	return p
}

// Compare returns -1, 0 or 1 if p is before, at or after o.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Stream, o.Stream), cmp.Compare(p.top, o.top), cmp.Compare(p.high, o.high),
		cmp.Compare(p.low, o.low))
}

// Before returns the last position before p in the same stream; for sequence number 0, p itself.
func (p Position) Before() Position {
	switch {
	case p.low > 0:
		p.low--
	case p.high > 0:
		p.high, p.low = p.high-1, tenToLowDigits-1
	case p.top > 0:
		p.top, p.high, p.low = p.top-1, tenToLowDigits-1, tenToLowDigits-1
	}
	return p
}

// Since returns the distance of p after o; ok is false if it is in another stream, or too far away.
// [Position.Plus] is the inverse.
func (p Position) Since(o Position) (distance uint64, ok bool) {
	near := p.Stream == o.Stream && p.top == o.top && p.high == o.high && p.low >= o.low
	return p.low - o.low, near
}

// Plus returns the position at a distance after p.
func (p Position) Plus(distance uint64) Position {
	p.low += distance
	return p
}

// Pack returns the sequence number in as few bytes as possible. Results of the same length compare
// like the numbers.
func (p Position) Pack() []byte {
	var b [packedNumber]byte
	b[0] = p.top
	binary.BigEndian.PutUint64(b[1:], p.high)
	binary.BigEndian.PutUint64(b[9:], p.low)
	return b[packedNumber-p.packed():]
}

// packed returns the length of the result of Pack.
func (p Position) packed() int {
	switch {
	case p.top > 0:
		return packedNumber
	case p.high > 0:
		return 8 + (bits.Len64(p.high)+7)/8
	}
	return (bits.Len64(p.low) + 7) / 8
}

// UnpackPosition is the inverse of [Position.Pack]; ok is false if b is not a result of Pack.
func UnpackPosition(stream int64, b []byte) (p Position, ok bool) {
	var all [packedNumber]byte
	if len(b) > packedNumber {
		return p, false
	}
	copy(all[packedNumber-len(b):], b)
	p = Position{Stream: stream, top: all[0], high: binary.BigEndian.Uint64(all[1:]),
		low: binary.BigEndian.Uint64(all[9:])}
	return p, p.packed() == len(b) && p.high < tenToLowDigits && p.low < tenToLowDigits
}

// String returns the sequence number with 40 digits.
func (p Position) String() string {
	digits := func(n uint64, width int) string {
		b := []byte(strings.Repeat("0", width))
		for i := width - 1; i >= 0; i-- {
			b[i] += byte(n % 10)
			n /= 10
		}
		return string(b)
	}
	return digits(uint64(p.top), 2) + digits(p.high, lowDigits) + digits(p.low, lowDigits)
}
