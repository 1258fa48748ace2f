package ledger

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A snapshot stores how far it has counted in binary attributes, because other clients take every
// number attribute of a snapshot for a limit. One attribute per bucket shard is its mark, and one,
// the legend, holds the common part of all marks. Marks are short, so that writing a snapshot of 32
// shards still costs one unit:
//
//	mark      byte of the generation, counter of each limit of the legend, position
//	byte      see GenerationByte of internal/table
//	counter   1 to 9 bytes, see appendCounter; 0xE0 where the shard had none
//	position  0xE2 + n and n bytes of sequence number, in the legend's stream;
//	          in an earlier or later one 0xE1 or 0xFD, 8 bytes, 1 byte n, n bytes
//	gone      0xFE instead of the counters
//
// Encoded positions compare like positions if the bytes before them are equal, so a condition can
// require a mark with these counters and any earlier position.
const (
	attrLegend = "_#"
	// prefixMark precedes the shard in the name of a mark, in base 32; from
	// 1,024 shards on, prefixFarMark. No limit's count has such a name.
	prefixMark    = "_"
	prefixFarMark = "_."
	farShards     = 1024

	earlier     = 0xE1
	inStream    = 0xE2
	later       = 0xFD
	goneCounter = 0xFE
)

// Legend is the key to the marks of one snapshot.
type Legend struct {
	Stream int64    // the stream of positions without a stream of their own
	Limits []string // the order of the counters in marks; it only grows at the end
}

// Mark is how far a snapshot has counted one bucket shard: all records up to At, after which the
// counters were Used.
type Mark struct {
	At   Position
	Used []Count // by name; a zero counter differs from no counter
	Gone bool    // the shard was removed at At; there are no counters
	Gen  uint8   // of the shard, see GenerationByte of internal/table
}

// With returns the legend with missing limits appended.
func (l Legend) With(used []Count) Legend {
	for _, c := range used {
		if !slices.Contains(l.Limits, c.Limit) {
			l.Limits = append(slices.Clip(l.Limits), c.Limit)
		}
	}
	return l
}

func (l Legend) bytes() []byte {
	b := binary.AppendUvarint(nil, uint64(l.Stream))
	for _, name := range l.Limits {
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
	}
	return b
}

func parseLegend(b []byte) (l Legend, ok bool) {
	stream, n := binary.Uvarint(b)
	if n <= 0 || stream > math.MaxInt64 {
		return l, false
	}
	l.Stream = int64(stream)
	for b = b[n:]; len(b) > 0; {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return l, false
		}
		l.Limits = append(l.Limits, string(b[n:n+int(size)]))
		b = b[n+int(size):]
	}
	return l, true
}

// prefix returns the bytes of a mark before its position.
func (l Legend) prefix(m Mark) []byte {
	b := []byte{m.Gen}
	if m.Gone {
		return append(b, goneCounter)
	}
	end := len(b)
	for _, name := range l.Limits {
		if n, ok := CountOf(m.Used, name); ok {
			b = appendCounter(b, n)
			end = len(b)
		} else {
			b = append(b, noCounter)
		}
	}
	return b[:end]
}

func (l Legend) position(p Position) []byte {
	n := p.Pack()
	if p.Stream == l.Stream {
		return append([]byte{byte(inStream + len(n))}, n...)
	}
	b := []byte{later}
	if p.Stream < l.Stream {
		b[0] = earlier
	}
	b = binary.BigEndian.AppendUint64(b, uint64(p.Stream))
	return append(append(b, byte(len(n))), n...)
}

func (l Legend) mark(m Mark) []byte { return append(l.prefix(m), l.position(m.At)...) }

// parse is the inverse of mark; ok is false if b is not a mark.
func (l Legend) parse(b []byte) (m Mark, ok bool) {
	if len(b) < 2 {
		return m, false
	}
	m.Gen, b = b[0], b[1:]
	if b[0] == goneCounter {
		m.Gone, b = true, b[1:]
	}
	for _, name := range l.Limits {
		if m.Gone || len(b) == 0 || b[0] > noCounter {
			break
		}
		n, rest, ok := takeCounter(b)
		if !ok {
			return m, false
		}
		if b[0] != noCounter {
			m.Used = append(m.Used, Count{Limit: name, Tokens: n})
		}
		b = rest
	}
	slices.SortFunc(m.Used, func(a, b Count) int { return strings.Compare(a.Limit, b.Limit) })
	stream := l.Stream
	switch {
	case len(b) > 0 && b[0] >= inStream && int(b[0]) <= inStream+packedNumber:
		ok = len(b) == 1+int(b[0]-inStream)
		b = b[1:]
	case len(b) >= 10 && (b[0] == earlier || b[0] == later):
		stream = int64(binary.BigEndian.Uint64(b[1:]))
		ok = len(b) == 10+int(b[9])
		b = b[10:]
	}
	if ok {
		m.At, ok = UnpackPosition(stream, b)
	}
	return m, ok
}

// CountOf returns the count of a limit in a list; ok is false if the list lacks it.
func CountOf(list []Count, limit string) (n int64, ok bool) {
	for _, c := range list {
		if c.Limit == limit {
			return c.Tokens, true
		}
	}
	return 0, false
}

func attrMark(shard int) string {
	digits := strconv.FormatInt(int64(shard), 32)
	if shard < farShards {
		return prefixMark + digits
	}
	return prefixFarMark + digits
}

func shardOfMark(attr string) (int, bool) {
	digits, ok := strings.CutPrefix(attr, prefixFarMark)
	if !ok {
		digits, _ = strings.CutPrefix(attr, prefixMark)
	}
	n, err := strconv.ParseInt(digits, 32, 32)
	return int(n), err == nil && n >= 0 && attrMark(int(n)) == attr
}

// Marks is how far a snapshot has counted. A nil snapshot has no marks, and neither has one that
// another client made.
type Marks struct {
	Legend Legend
	Any    bool // some shard is counted here

	snapshot item.Item
	legend   []byte // as stored; nil: none
}

// MarksOf decodes the marks of a snapshot. An attribute in another form counts as no mark.
func MarksOf(snapshot item.Item) Marks {
	m := Marks{snapshot: snapshot}
	v, ok := snapshot[attrLegend].(*types.AttributeValueMemberB)
	if !ok {
		return m
	}
	if l, ok := parseLegend(v.Value); ok {
		m.Legend, m.Any = l, true
	}
	m.legend = v.Value
	return m
}

// Snapshot returns the snapshot to which the marks belong.
func (m Marks) Snapshot() item.Item { return m.snapshot }

// Shard returns the mark of a shard; ok is false if there is none.
func (m Marks) Shard(shard int) (mark Mark, ok bool) {
	if !m.Any {
		return Mark{}, false
	}
	return m.Legend.parse(m.raw(shard))
}

func (m Marks) raw(shard int) []byte {
	if v, ok := m.snapshot[attrMark(shard)].(*types.AttributeValueMemberB); ok {
		return v.Value
	}
	return nil
}

// Shards returns the shards that are counted here, in order.
func (m Marks) Shards() []int {
	var out []int
	for attr := range m.snapshot {
		if shard, ok := shardOfMark(attr); ok {
			out = append(out, shard)
		}
	}
	slices.Sort(out)
	return out
}
