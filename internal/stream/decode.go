package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Decode decodes the payload of one invocation. Changes and malformed records keep the order of the
// payload. It returns an error if the payload is not a JSON object with an array "Records"; a
// record that is valid JSON but cannot be decoded is in Malformed instead. Strings in the result
// are copies, Malformed.Raw is not.
func Decode(payload []byte) (Batch, error) {
	d := decoder{
		s:     scanner{data: payload},
		keys:  make(map[string]*shardKey),
		names: make(map[string]string),
	}
	if err := d.batch(); err != nil {
		return Batch{}, fmt.Errorf("decode stream payload of %d bytes: %w", len(payload), err)
	}
	return d.out, nil
}

// decoder is the state of one Decode.
type decoder struct {
	s   scanner
	out Batch
	rec record

	keys  map[string]*shardKey // parsed partition keys
	names map[string]string    // names of limits and parents

	arn    string // the last record's stream, which nearly all records share
	stream int64  // when that stream was enabled
}

// shardKey is a parsed partition key; ok is false if it is not a bucket's.
type shardKey struct {
	ns, entity, resource string
	shard                int
	ok                   bool
}

var errNoRecords = errors.New(`no array "Records"`)

func (d *decoder) batch() error {
	if !json.Valid(d.s.data) {
		return json.Unmarshal(d.s.data, new(json.RawMessage)) // reports the position of the error
	}
	if !d.s.open('{') {
		return errNoRecords
	}
	found, bad := false, false
	for first := true; d.s.more('}', &first); {
		if name := d.s.key(); string(name) != "Records" {
			d.windowPart(name)
			continue
		}
		if found || d.s.peek() != '[' {
			bad = true
			d.s.skip()
			continue
		}
		found = true
		d.records()
	}
	if !found || bad {
		return errNoRecords
	}
	return nil
}

func (d *decoder) records() {
	d.s.open('[')
	for first := true; d.s.more(']', &first); {
		d.s.peek()
		start := d.s.pos
		d.record()
		d.finish(d.s.data[start:d.s.pos])
		d.out.Records++
	}
}

// finish stores the record that was just read.
func (d *decoder) finish(raw []byte) {
	r := &d.rec
	problem := r.complete()
	if problem == "" && !r.isState {
		d.out.Ignored++
		return
	}
	if problem == "" {
		problem = r.imagesComplete()
	}
	if problem != "" {
		d.out.Malformed = append(d.out.Malformed, Malformed{
			Sequence: r.sequence, Created: r.created, Reason: problem, Raw: raw,
		})
		return
	}
	if d.out.Changes == nil {
		d.out.Changes = make([]Change, 0, len(d.s.data)/len(raw)+1)
	}
	d.out.Changes = append(d.out.Changes, d.change())
	if d.out.Oldest == 0 || r.created < d.out.Oldest {
		d.out.Oldest = r.created
	}
}

// intern returns b as a string, and the same string for equal bytes.
func (d *decoder) intern(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	s := string(b)
	d.names[s] = s
	return s
}

// shardKey returns the parsed partition key.
func (d *decoder) shardKey(pk []byte) *shardKey {
	if k, ok := d.keys[string(pk)]; ok {
		return k
	}
	k := new(shardKey)
	s := string(pk)
	k.ns, k.entity, k.resource, k.shard, k.ok = layout.ParseBucketPK(s)
	// Usage of longer names has no room in its keys.
	k.ok = k.ok && k.shard < math.MaxInt32 && max(len(k.entity), len(k.resource)) <= layout.MaxName
	d.keys[s] = k
	return k
}
