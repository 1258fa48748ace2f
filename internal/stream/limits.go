package stream

import (
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// image is an item, as far as it has been read: of the new one the whole bucket, of the old one the
// counters, the clock and the shard count.
type image struct {
	problem string

	rf, count, ttl          int64
	heldUntil               int64
	undivided               bool  // it has slots, which the stream does not decode
	generation              int64 // 0: none, or in another form than ours
	hasGeneration           bool
	born                    int64 // 0: none, or in another form than ours
	hasBorn                 bool
	hasRF, hasCount, hasTTL bool
	hasCascade, hasParent   bool
	cascade                 bool
	parent                  string
	limits                  []limit        // in the order of the image
	last                    int            // index of the last limit found
	at                      map[string]int // index by name, if there are many
	rr                      remainders
	quota                   item.Item // further attributes of quotas; nil: none
}

type limit struct {
	name string
	soft bool
	has  uint8
	v    [parts]int64

	used  table.Counter // v has its low bits
	held  int64         // prefetched tokens that may be held, not negative
	ended table.Counter // expired unspent
}

// spent returns the counter minus the tokens that expired unspent; ok is false, and it is zero, if
// there is no counter.
func (l *limit) spent() (c table.Counter, ok bool) {
	if l.has&(1<<used) == 0 {
		return c, false
	}
	return l.used.Minus(l.ended), true
}

// remainders is the item's remainder map. A map in another form than ours counts as absent, which
// loses less than a millitoken.
type remainders struct {
	seen, bad bool
	hasRF     bool
	rf        int64
	rests     []rest
}

type rest struct {
	limit string
	n     int64
}

func (im *image) reset() {
	*im = image{limits: im.limits[:0], rr: remainders{rests: im.rr.rests[:0]}}
}

func (im *image) wrong(problem string) {
	if im.problem == "" {
		im.problem = problem
	}
}

// shards returns the shard count, or one if the item has none.
func (im *image) shards() int {
	if !im.hasCount {
		return 1
	}
	return int(im.count)
}

// whole reports whether the limit has everything that a refill needs.
func (l *limit) whole() bool {
	return l.has == 1<<parts-1 && l.v[capacity] > 0 && l.v[amount] >= 0 && l.v[period] > 0
}

// rest returns the remainder of a limit's last refill.
func (im *image) rest(l *limit) int64 {
	if !im.rr.seen || im.rr.bad || !im.rr.hasRF || !im.hasRF || im.rr.rf != im.rf {
		return 0
	}
	for _, r := range im.rr.rests {
		if r.limit == l.name && r.n >= 0 && r.n < l.v[period] {
			return r.n
		}
	}
	return 0
}

// sortLimits orders the limits by name.
func (im *image) sortLimits() {
	slices.SortFunc(im.limits, func(a, b limit) int { return strings.Compare(a.name, b.name) })
}

// limitOf returns the named limit, adding it if it is new.
func (d *decoder) limitOf(im *image, name []byte) *limit {
	if len(im.limits) >= searched {
		return d.limitOfMany(im, name)
	}
	for n := range im.limits { // from the last one found, to which the next attribute often belongs
		if i := (im.last + n) % len(im.limits); im.limits[i].name == string(name) {
			im.last = i
			return &im.limits[i]
		}
	}
	im.last = len(im.limits)
	im.limits = append(im.limits, limit{name: d.intern(name)})
	return &im.limits[im.last]
}

// limitOfMany is limitOf for items with too many limits for a linear search.
func (d *decoder) limitOfMany(im *image, name []byte) *limit {
	if im.at == nil {
		im.at = make(map[string]int, 4*searched)
		for i := range im.limits {
			im.at[im.limits[i].name] = i
		}
	}
	i, ok := im.at[string(name)]
	if !ok {
		i = len(im.limits)
		im.limits = append(im.limits, limit{name: d.intern(name)})
		im.at[im.limits[i].name] = i
	}
	return &im.limits[i]
}

// aheadPart reads how much of a limit may be held, stored as a negative number, or how much expired
// unspent, if the attribute is one of these. It ignores another client's attribute. It also records
// whether the item has slots.
func (d *decoder) aheadPart(im *image, name []byte, full bool) bool {
	const prefix = len(table.HeldPrefix)
	if len(name) <= prefix || name[1] != '_' || string(name[prefix:]) == bucket.WCU {
		return false
	}
	switch string(name[:prefix]) {
	case table.HeldPrefix:
		if !full {
			return false
		}
		l := d.limitOf(im, name[prefix:])
		n, _ := d.saturated()
		l.held = max(0, bucket.SubSat(0, n))
	case table.EndedPrefix:
		l := d.limitOf(im, name[prefix:])
		l.ended, _ = d.counter()
	default:
		im.undivided = im.undivided || table.HasSlots(name)
		return false
	}
	return true
}

var softSuffix = []byte("_" + layout.FieldSoft)
