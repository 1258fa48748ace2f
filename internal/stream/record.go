package stream

import (
	"bytes"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/sequence"
)

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
		switch string(d.s.key()) {
		case "eventName":
			d.operation(r)
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

// textOnce reads a text that a record may have once; otherwise it is malformed, for one of two reasons.
func (d *decoder) textOnce(r *record, m seen, twice, noText string) (text []byte, ok bool) {
	if !r.once(m, twice) || d.s.peek() != '"' {
		r.wrong(noText)
		d.s.skip()
		return nil, false
	}
	return d.s.text(), true
}

func (d *decoder) operation(r *record) {
	name, ok := d.textOnce(r, seenOperation, `"eventName" twice`, `"eventName" is no string`)
	if !ok {
		return
	}
	switch string(name) {
	case "INSERT":
		r.operation = Insert
	case "MODIFY":
		r.operation = Modify
	case "REMOVE":
		r.operation = Remove
	default:
		r.wrong(`"eventName" is none of INSERT, MODIFY, REMOVE`)
	}
}

// source reads the name of the stream. A record without one is accepted: within one payload, all
// records have it, or none.
func (d *decoder) source(r *record) {
	arn, ok := d.textOnce(r, seenStream, `"eventSourceARN" twice`, `"eventSourceARN" is no string`)
	if !ok {
		return
	}
	if string(arn) != d.arn {
		d.arn = string(arn)
		d.stream = enabled(d.arn)
	}
	r.stream = d.stream
}

// streamRecord reads the member "dynamodb".
func (d *decoder) streamRecord(r *record) {
	if !d.s.open('{') {
		d.s.skip()
		r.wrong(`"dynamodb" is no object`)
		return
	}
	for first := true; d.s.more('}', &first); {
		switch string(d.s.key()) {
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
	t, ok := d.textOnce(r, seenSequence, `"SequenceNumber" twice`, `"SequenceNumber" is no string`)
	if !ok {
		return
	}
	if len(t) == 0 || len(t) > sequence.MaxDigits ||
		bytes.ContainsFunc(t, func(c rune) bool { return c < '0' || c > '9' }) {
		r.wrong(`"SequenceNumber" is not 1 to 40 digits`)
		return
	}
	r.sequence = string(t)
}

func (d *decoder) created(r *record) {
	c := d.s.peek()
	if !r.once(seenCreated, `"ApproximateCreationDateTime" twice`) || c != '-' && (c < '0' || c > '9') {
		r.wrong(`"ApproximateCreationDateTime" is no number`)
		d.s.skip()
		return
	}
	ms, ok := millis(d.s.word())
	if !ok {
		r.wrong(`"ApproximateCreationDateTime" is no instant in seconds before the year 10000`)
		return
	}
	r.created = ms
}

// itemKeys reads the member "Keys".
func (d *decoder) itemKeys(r *record) {
	if !r.once(seenKeys, `"Keys" twice`) || !d.s.open('{') {
		r.wrong(`"Keys" is no object`)
		d.s.skip()
		return
	}
	for first := true; d.s.more('}', &first); {
		switch string(d.s.key()) {
		case item.AttrPK:
			t, ok := d.attr("S")
			if !r.once(seenPK, `"PK" twice in "Keys"`) || !ok {
				r.wrong(`"PK" in "Keys" is no string`)
				continue
			}
			r.key = d.shardKey(t)
		case item.AttrSK:
			t, ok := d.attr("S")
			if !r.once(seenSK, `"SK" twice in "Keys"`) || !ok {
				r.wrong(`"SK" in "Keys" is no string`)
				continue
			}
			r.isState = string(t) == layout.SKBucketState
		default:
			d.s.skip()
		}
	}
}

// attr reads an attribute value, and returns its text if it has the wanted type, one whose JSON
// form is a string.
func (d *decoder) attr(want string) (text []byte, ok bool) {
	if !d.s.open('{') {
		d.s.skip()
		return nil, false
	}
	members := 0
	for first := true; d.s.more('}', &first); {
		members++
		if string(d.s.key()) == want && d.s.peek() == '"' {
			text, ok = d.s.text(), true
			continue
		}
		d.s.skip()
	}
	return text, ok && members == 1
}
