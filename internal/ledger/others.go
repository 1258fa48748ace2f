package ledger

import (
	"encoding/binary"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Another aggregator, without marks, may have counted in a snapshot while ours did not run. The
// consumption between a mark and the next record is then already counted. The snapshot shows it: as
// long as only our aggregator counts, each limit's count is the sum of the counters in all marks
// minus an origin. The origin is the sum of the counters when counting began, including everything
// that was given up; it is stored, and ordinary writes do not change it.
//
// Counts that others made before the first mark are part of the origin, and do not show later. So a
// separate attribute permanently records that others have counted.
//
//	origin    1 and the origins of the legend's limits, as zigzag varints;
//	          0 and the position of the write that gave them up, if they are unknown
//	shared    1
const (
	attrOrigin = "_="
	attrShared = "_+"
)

// givenUp returns an unknown origin. It differs for every write, so a write planned from a snapshot
// before another one gave up its origin is refused.
func (u Usage) givenUp() []byte { return append([]byte{0}, u.Moves[0].To.At.Pack()...) }

// Shared reports whether others have certainly counted in the snapshot, before ours or since.
func (m Marks) Shared() bool {
	return !m.Any || m.snapshot[attrShared] != nil || len(m.Others()) > 0
}

// Others returns how much more the snapshot has counted, by limit, than our aggregator, without
// zeros. It may be too little, never too much.
func (m Marks) Others() (out []Count) {
	origin, ok := m.origin()
	sums, complete := m.sums()
	if !ok || !complete {
		return nil
	}
	for i, limit := range m.Legend.Limits {
		n, ok := countedIn(m.snapshot, limit)
		if more := n - (sums[limit] - origin[i]); ok && more > 0 {
			out = append(out, Count{Limit: limit, Tokens: more})
		}
	}
	return out
}

// origin returns the origins in the order of the legend; ok is false if they are unknown.
func (m Marks) origin() (out []int64, ok bool) {
	b := m.rawOrigin()
	if len(b) == 0 || b[0] != 1 {
		return nil, false
	}
	for b = b[1:]; len(b) > 0; {
		v, n := binary.Varint(b)
		if n <= 0 {
			return nil, false
		}
		out, b = append(out, v), b[n:]
	}
	return out, len(out) == len(m.Legend.Limits)
}

func (m Marks) rawOrigin() []byte {
	if v, ok := m.snapshot[attrOrigin].(*types.AttributeValueMemberB); ok {
		return v.Value
	}
	return nil
}

// sums adds up the counters of all marks by limit; complete is false if some mark lacks them.
func (m Marks) sums() (out map[string]int64, complete bool) {
	out, complete = map[string]int64{}, true
	for _, shard := range m.Shards() {
		mark, ok := m.Shard(shard)
		complete = complete && ok && mark.counts()
		mark.addTo(out, 1)
	}
	return out, complete
}

// counts reports whether the mark has counters, or its shard was removed.
func (m Mark) counts() bool { return m.Gone || len(m.Used) > 0 }

// addTo adds sign times the mark's counters to sums.
func (m Mark) addTo(sums map[string]int64, sign int64) {
	for _, c := range m.Used {
		sums[c.Limit] += sign * c.Tokens
	}
}

func (l Legend) packOrigin(origin map[string]int64) []byte {
	b := []byte{1}
	for _, limit := range l.Limits {
		b = binary.AppendVarint(b, origin[limit])
	}
	return b
}

// keepOrigin adds to an update that writes marks the attributes that keep the origin correct, and
// returns the condition for them.
func (u Usage) keepOrigin(up *item.Update, l Legend) []item.Cond {
	if u.Seen == nil {
		u.assumeOrigin(up, l)
		return nil
	}
	// The origin is the sum of the marks minus our part of the snapshot's new count.
	sums, complete := u.Seen.after(l, u.Moves).sums()
	for _, limit := range l.Limits {
		n, ok := countedIn(u.Seen.snapshot, limit)
		more, _ := CountOf(u.Counts, limit)
		others, _ := CountOf(u.Others, limit)
		sums[limit] -= n + more - others
		complete = complete && ok
	}
	origin := u.givenUp()
	if complete {
		origin = l.packOrigin(sums)
	}
	if u.Seen.snapshot != nil && u.Seen.Shared() {
		up.Set = append(up.Set, item.Attr{Name: attrShared, Value: item.B([]byte{1})})
	}
	stored := u.Seen.rawOrigin()
	if !slices.Equal(stored, origin) {
		up.Set = append(up.Set, item.Attr{Name: attrOrigin, Value: item.B(origin)})
	}
	return []item.Cond{item.AsIn(u.Seen.snapshot, attrOrigin)}
}

// assumeOrigin is keepOrigin for a snapshot that was not read: it is new, or continues from the
// expected marks. An origin that would be too low is given up; one that is too high only finds too
// few counts of others.
func (u Usage) assumeOrigin(up *item.Update, l Legend) {
	origin := map[string]int64{}
	known, fresh := true, true
	for _, m := range u.Moves {
		known = known && m.To.counts()
		m.To.addTo(origin, 1)
		if m.Counted != nil {
			fresh = false
			known = known && m.Counted.counts()
			m.Counted.addTo(origin, -1)
		}
	}
	for _, limit := range l.Limits {
		n, _ := CountOf(u.Counts, limit)
		origin[limit] -= n
		known = known && origin[limit] >= 0
	}
	switch {
	case !known:
		up.Set = append(up.Set, item.Attr{Name: attrOrigin, Value: item.B(u.givenUp())})
	case fresh:
		up.SetIfAbsent = append(up.SetIfAbsent, item.Attr{Name: attrOrigin, Value: item.B(l.packOrigin(origin))})
	}
}

// after returns the marks after the moves.
func (m Marks) after(l Legend, moves []Move) Marks {
	next := item.Item{}
	for name, value := range m.snapshot {
		next[name] = value
	}
	for _, move := range moves {
		next[attrMark(move.Shard)] = item.B(l.mark(move.To))
	}
	return Marks{Legend: l, Any: true, snapshot: next}
}
