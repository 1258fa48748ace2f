package stream

import (
	"bytes"
	"strconv"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// The parts of a stored limit, as indexes and bits.
const (
	tokens = iota
	capacity
	amount
	period
	used
	parts
)

// maxRests is the greatest number of remainders read: none of our items has as many limits.
const maxRests = 256

// searched is the number of limits up to which a linear search is used; items of other clients may
// have any number.
const searched = 64

// image reads an item; only the new one is read completely.
func (d *decoder) image(im *image, full bool) {
	if !d.s.open('{') {
		d.s.skip()
		im.wrong("is no object")
		return
	}
	for first := true; d.s.more('}', &first); {
		name := d.s.key()
		if rest, ok := bytes.CutPrefix(name, []byte(table.LimitPrefix)); ok {
			d.limitPart(im, rest, full)
			continue
		}
		if d.aheadPart(im, name, full) {
			continue
		}
		switch string(name) {
		case layout.AttrRF:
			d.integer(im, &im.rf, &im.hasRF, `"rf" is no whole number of 64 bits, or there twice`)
		case table.AttrGeneration:
			// An attribute of this name from another client is not a generation.
			if im.generation, _ = d.whole(); im.hasGeneration {
				im.generation = 0
			}
			im.hasGeneration = true
		case table.AttrBorn:
			n, _ := d.whole()
			if im.born = max(0, n); im.hasBorn {
				im.born = 0
			}
			im.hasBorn = true
		case table.AttrDenied:
			d.denied(im)
		case table.AttrHeldUntil:
			im.heldUntil, _ = d.whole()
		case table.AttrShardCount:
			const problem = `"shard_count" is no whole number from 1 to 1048576, or there twice`
			d.integer(im, &im.count, &im.hasCount, problem)
			if im.hasCount && (im.count < 1 || im.count > 1<<20) {
				im.wrong(problem)
			}
		case layout.AttrTTL:
			if !full {
				d.s.skip()
				continue
			}
			d.integer(im, &im.ttl, &im.hasTTL, `"ttl" is no whole number of 64 bits, or there twice`)
		case layout.AttrCascade:
			d.cascade(im, full)
		case layout.AttrParentID:
			d.parent(im, full)
		case table.AttrRemainders:
			d.remainders(im, full)
		default:
			if full && table.OfQuotas(name) {
				d.quota(im, name)
				continue
			}
			d.s.skip()
		}
	}
}

// limitPart reads an attribute b_{limit}_{field}; rest is without the prefix. It ignores attributes
// with other endings, which are not ours.
func (d *decoder) limitPart(im *image, rest []byte, full bool) {
	part, cut := parts, len(rest)-3
	if cut > 0 && rest[cut] == '_' {
		part = partOf(rest[cut+1:])
	}
	if part == parts && full && table.OfQuotas(rest) {
		d.quota(im, append([]byte(table.LimitPrefix), rest...))
		return
	}
	if name, ok := bytes.CutSuffix(rest, softSuffix); ok && full && len(name) > 0 {
		d.limitOf(im, name).soft = true
	}
	if part == parts || (!full && part != used) {
		d.s.skip()
		return
	}
	l := d.limitOf(im, rest[:cut])
	ok := false
	if part == used {
		l.used, ok = d.counter()
		l.v[used] = l.used.Low()
	} else {
		l.v[part], ok = d.saturated()
	}
	if !ok || l.has&(1<<part) != 0 {
		im.wrong("limit " + strconv.Quote(l.name) + ": an attribute is no whole number, or there twice")
	}
	l.has |= 1 << part
}

// denied reads the counter of denied requests like the counter of a limit. It ignores another
// client's attribute of this name.
func (d *decoder) denied(im *image) {
	n, ok := d.whole()
	if !ok || n < 0 {
		return
	}
	l := d.limitOf(im, []byte(bucket.Denied))
	if l.has != 0 {
		im.wrong(`"dn" twice`)
	}
	l.used, l.v[used], l.has = table.CounterOf(n), n, 1<<used
}

func partOf(field []byte) int {
	switch string(field) {
	case table.FieldTokens:
		return tokens
	case layout.FieldCapacity:
		return capacity
	case layout.FieldAmount:
		return amount
	case layout.FieldPeriod:
		return period
	case table.FieldUsed:
		return used
	}
	return parts
}

// cascade and parent are copies maintained by other writers. In another form than ours, one counts
// as absent, without affecting the record.
func (d *decoder) cascade(im *image, full bool) {
	if im.hasCascade {
		im.wrong(`"cascade" twice`)
	}
	if im.hasCascade = full; !full || !d.s.open('{') {
		d.s.skip()
		return
	}
	members := 0
	for first := true; d.s.more('}', &first); {
		members++
		if string(d.s.key()) == "BOOL" && d.s.peek() == 't' {
			im.cascade = string(d.s.word()) == "true"
			continue
		}
		d.s.skip()
	}
	im.cascade = im.cascade && members == 1
}

func (d *decoder) parent(im *image, full bool) {
	if !full {
		d.s.skip()
		return
	}
	t, ok := d.attr("S")
	if im.hasParent {
		im.wrong(`"parent_id" twice`)
	}
	im.hasParent = true
	if ok {
		im.parent = d.intern(t)
	}
}

// remainders reads the map {"M":{"rf":{"N":…},"r":{"M":{limit:{"N":…}}}}}.
func (d *decoder) remainders(im *image, full bool) {
	rr := &im.rr
	if !full || rr.seen {
		rr.bad = rr.bad || full
		d.s.skip()
		return
	}
	rr.seen = true
	hasR := false
	d.members(rr, func(name []byte) {
		switch string(name) {
		case layout.AttrRF:
			n, ok := d.whole()
			rr.bad = rr.bad || !ok || rr.hasRF
			rr.rf, rr.hasRF = n, true
		case table.RemaindersOf:
			rr.bad = rr.bad || hasR
			hasR = true
			d.rests(rr)
		case table.EndsOf:
			d.ends(im)
		default:
			d.s.skip()
		}
	})
}

func (d *decoder) rests(rr *remainders) {
	d.members(rr, func(name []byte) {
		limit := d.intern(name)
		n, ok := d.whole()
		rr.bad = rr.bad || !ok || len(rr.rests) == maxRests
		for _, r := range rr.rests {
			rr.bad = rr.bad || r.limit == limit
		}
		if !rr.bad {
			rr.rests = append(rr.rests, rest{limit, n})
		}
	})
}

// members reads a map attribute, and calls each with the name of every member to read its value.
func (d *decoder) members(rr *remainders, each func(name []byte)) {
	if !d.s.open('{') {
		rr.bad = true
		d.s.skip()
		return
	}
	maps := 0
	for first := true; d.s.more('}', &first); {
		maps++
		if string(d.s.key()) != "M" || !d.s.open('{') {
			rr.bad = true
			d.s.skip()
			continue
		}
		for inner := true; d.s.more('}', &inner); {
			each(d.s.key())
		}
	}
	rr.bad = rr.bad || maps != 1
}
