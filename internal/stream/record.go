package stream

import (
	"bytes"
	"math"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

type event uint8

const (
	eventInsert event = iota + 1
	eventModify
	eventRemove
)

// record is what has been read of one stream record.
type record struct {
	event    event
	stream   int64
	sequence string
	created  int64
	key      *shardKey
	isState  bool // the sort key is that of a bucket

	seen    seen
	problem string // the first thing wrong with the envelope
	new     image
	old     image
}

// seen notes which members of the record have been there.
type seen uint16

const (
	seenEvent seen = 1 << iota
	seenDynamoDB
	seenStream
	seenCreated
	seenKeys
	seenPK
	seenSK
	seenSequence
	seenNew
	seenOld
)

func (r *record) reset() {
	r.event, r.stream, r.sequence, r.created = 0, 0, "", 0
	r.key, r.isState, r.seen, r.problem = nil, false, 0, ""
	r.new.reset()
	r.old.reset()
}

func (r *record) wrong(problem string) {
	if r.problem == "" {
		r.problem = problem
	}
}

// once notes a member and objects to its second appearance.
func (r *record) once(m seen, duplicate string) bool {
	if r.seen&m != 0 {
		r.wrong(duplicate)
		return false
	}
	r.seen |= m
	return true
}

// complete returns what is wrong with the envelope, empty if nothing is.
func (r *record) complete() string {
	switch {
	case r.problem != "":
		return r.problem
	case r.seen&seenEvent == 0:
		return `no "eventName"`
	case r.seen&seenDynamoDB == 0:
		return `no "dynamodb"`
	case r.seen&seenSequence == 0:
		return `no "SequenceNumber"`
	case r.seen&seenKeys == 0:
		return `no "Keys"`
	case r.seen&seenPK == 0:
		return `no "PK" in "Keys"`
	case r.seen&seenSK == 0:
		return `no "SK" in "Keys"`
	}
	return ""
}

// imagesComplete returns what is wrong with the change of a bucket, empty if
// nothing is.
func (r *record) imagesComplete() string {
	switch {
	case !r.key.ok:
		return "partition key is none of a bucket"
	case r.seen&seenCreated == 0:
		return `no "ApproximateCreationDateTime"`
	case r.event == eventRemove:
		return r.oldComplete(`REMOVE without "OldImage"`)
	case r.seen&seenNew == 0:
		return `no "NewImage"`
	case r.new.problem != "":
		return "NewImage: " + r.new.problem
	case r.event == eventInsert && r.seen&seenOld != 0:
		return `INSERT with "OldImage"`
	case r.event == eventModify:
		return r.oldComplete(`MODIFY without "OldImage"`)
	}
	return ""
}

func (r *record) oldComplete(missing string) string {
	switch {
	case r.seen&seenOld == 0:
		return missing
	case r.old.problem != "":
		return "OldImage: " + r.old.problem
	}
	return ""
}

// record reads one element of "Records".
func (d *decoder) record() {
	r := &d.rec
	r.reset()
	if !d.s.open('{') {
		d.s.skip()
		r.wrong("record is no object")
		return
	}
	for first := true; d.s.more('}', &first); {
		switch string(d.name(d.s.key())) {
		case "eventName":
			d.eventName(r)
		case "eventSourceARN":
			d.source(r)
		case "dynamodb":
			if !r.once(seenDynamoDB, `"dynamodb" twice`) {
				d.s.skip()
				continue
			}
			d.streamRecord(r)
		default:
			d.s.skip()
		}
	}
}

func (d *decoder) eventName(r *record) {
	if !r.once(seenEvent, `"eventName" twice`) || d.s.peek() != '"' {
		r.wrong(`"eventName" is no string`)
		d.s.skip()
		return
	}
	switch string(d.value(d.s.text())) {
	case "INSERT":
		r.event = eventInsert
	case "MODIFY":
		r.event = eventModify
	case "REMOVE":
		r.event = eventRemove
	default:
		r.wrong(`"eventName" is none of INSERT, MODIFY, REMOVE`)
	}
}

// source reads the name of the stream. A record without one is as good as
// another: within one payload all have it or none.
func (d *decoder) source(r *record) {
	if !r.once(seenStream, `"eventSourceARN" twice`) || d.s.peek() != '"' {
		r.wrong(`"eventSourceARN" is no string`)
		d.s.skip()
		return
	}
	if arn := d.value(d.s.text()); string(arn) != d.arn {
		d.arn = d.keep(arn)
		d.stream = enabled(d.arn)
	}
	r.stream = d.stream
}

// maxEnabled is the last second of ten digits, in the year 2286.
const maxEnabled = 9_999_999_999

// enabled returns when a stream was enabled, epoch seconds: its ARN ends in
// /stream/2024-01-01T00:00:00.000. It is 0 for other ARNs: stand-ins make up
// names of their own.
func enabled(arn string) int64 {
	i := strings.LastIndex(arn, "/stream/")
	if i < 0 {
		return 0
	}
	t, err := time.Parse("2006-01-02T15:04:05", arn[i+len("/stream/"):])
	if s := t.Unix(); err == nil && s >= 0 && s <= maxEnabled {
		return s
	}
	return 0
}

// streamRecord reads the member "dynamodb".
func (d *decoder) streamRecord(r *record) {
	if !d.s.open('{') {
		d.s.skip()
		r.wrong(`"dynamodb" is no object`)
		return
	}
	for first := true; d.s.more('}', &first); {
		switch string(d.name(d.s.key())) {
		case "ApproximateCreationDateTime":
			d.created(r)
		case "Keys":
			d.itemKeys(r)
		case "NewImage":
			if r.once(seenNew, `"NewImage" twice`) {
				d.image(&r.new, true)
			} else {
				d.s.skip()
			}
		case "OldImage":
			if r.once(seenOld, `"OldImage" twice`) {
				d.image(&r.old, false)
			} else {
				d.s.skip()
			}
		case "SequenceNumber":
			d.sequence(r)
		default:
			d.s.skip()
		}
	}
}

func (d *decoder) sequence(r *record) {
	if !r.once(seenSequence, `"SequenceNumber" twice`) || d.s.peek() != '"' {
		r.wrong(`"SequenceNumber" is no string`)
		d.s.skip()
		return
	}
	t := d.value(d.s.text())
	if len(t) == 0 || len(t) > maxSequence || bytes.ContainsFunc(t, func(c rune) bool { return c < '0' || c > '9' }) {
		r.wrong(`"SequenceNumber" is not 1 to 40 digits`)
		return
	}
	r.sequence = d.keep(t)
}

func (d *decoder) created(r *record) {
	c := d.s.peek()
	if !r.once(seenCreated, `"ApproximateCreationDateTime" twice`) || c != '-' && (c < '0' || c > '9') {
		r.wrong(`"ApproximateCreationDateTime" is no number`)
		d.s.skip()
		return
	}
	ms, ok := millis(d.s.number())
	if !ok {
		r.wrong(`"ApproximateCreationDateTime" is no instant in seconds before the year 10000`)
		return
	}
	r.created = ms
}

// maxMillis is the last millisecond of the year 9999.
const maxMillis = 253402300799_999

// millis converts a JSON number of epoch seconds to milliseconds, rounding
// down. It is exact: no floating point. ok is false outside 1 to maxMillis.
func millis(num []byte) (ms int64, ok bool) {
	exp, fraction := 3, false
	for i, c := range num {
		switch {
		case c == '.':
			fraction = true
		case c == 'e' || c == 'E':
			e, ok := smallInt(num[i+1:])
			if !ok {
				return 0, false
			}
			return scale(ms, exp+e)
		case c == '-':
			return 0, false
		case ms >= math.MaxInt64/100: // digits beyond that cannot matter within range
			if !fraction {
				exp++
			}
		default:
			ms = ms*10 + int64(c-'0')
			if fraction {
				exp--
			}
		}
	}
	return scale(ms, exp)
}

func scale(m int64, exp int) (int64, bool) {
	for ; exp > 0 && m != 0; exp-- {
		if m > maxMillis {
			return 0, false
		}
		m *= 10
	}
	for ; exp < 0 && m != 0; exp++ {
		m /= 10
	}
	return m, m >= 1 && m <= maxMillis
}

// smallInt reads an exponent of a JSON number.
func smallInt(b []byte) (int, bool) {
	sign := 1
	if b[0] == '-' || b[0] == '+' {
		if b[0] == '-' {
			sign = -1
		}
		b = b[1:]
	}
	n := 0
	for _, c := range b {
		if n = n*10 + int(c-'0'); n > 10_000 {
			return 0, false
		}
	}
	return sign * n, true
}

// itemKeys reads the member "Keys".
func (d *decoder) itemKeys(r *record) {
	if !r.once(seenKeys, `"Keys" twice`) || !d.s.open('{') {
		r.wrong(`"Keys" is no object`)
		d.s.skip()
		return
	}
	for first := true; d.s.more('}', &first); {
		switch string(d.name(d.s.key())) {
		case item.AttrPK:
			t, ok := d.attr("S")
			if !r.once(seenPK, `"PK" twice in "Keys"`) || !ok {
				r.wrong(`"PK" in "Keys" is no string`)
				continue
			}
			r.key = d.shardKey(d.value(t))
		case item.AttrSK:
			t, ok := d.attr("S")
			if !r.once(seenSK, `"SK" twice in "Keys"`) || !ok {
				r.wrong(`"SK" in "Keys" is no string`)
				continue
			}
			r.isState = string(d.value(t)) == table.SKBucketState
		default:
			d.s.skip()
		}
	}
}

// attr reads an attribute value and returns its text if it is of the wanted
// type, one whose JSON form is a string.
func (d *decoder) attr(want string) (t text, ok bool) {
	if !d.s.open('{') {
		d.s.skip()
		return text{}, false
	}
	members := 0
	for first := true; d.s.more('}', &first); {
		members++
		if string(d.name(d.s.key())) == want && d.s.peek() == '"' {
			t, ok = d.s.text(), true
			continue
		}
		d.s.skip()
	}
	return t, ok && members == 1
}
