// Package archive converts a stream payload to the archive objects of the audit events that expired
// in it. It is pure: bytes in, object keys and bytes out, without a clock or I/O. The same payload
// always gives the same objects.
//
// # One object per event
//
// Lambda delivers a record at least once, and not always with the same neighbours. A batch is split
// after an error, resumed at a failed record, or delivered again with other records after an answer
// was lost. So an object that holds "the events of a batch" cannot be both complete and free of
// duplicates, whatever its key. Example: [1..10] is stored, then [1..5] and [6..10] arrive. There
// are only three solutions: readers drop duplicates by id, objects are read, merged and written
// back, or the content of an object does not depend on the batch. This package uses the third:
// every event is an object of its own (a sequence range of one record). Its key depends only on the
// event: its namespace, day and id, and a hash of its primary key in the table and its content.
//
// If the caller writes each object with "only if there is none", the consequences are:
//
//   - Any number of deliveries in any order, by any number of concurrent
//     writers, leaves exactly one object with exactly one line per event.
//   - The archiver never reads, changes or replaces an archived event, so it
//     only needs permission to put objects, and object lock works.
//   - Progress is kept: only the unwritten rest of a batch is written again.
//
// The cost is one put per event ($5 per million, once per event that an administrator caused), and
// small objects. If you often query years of events, compact closed days.
//
// Limitation: an event that never reaches the stream's consumer (retention of 24 hours exceeded,
// mapping disabled, manual delete) is not archived, and the archive does not show the gap.
package archive

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Batch is the archive's view of a payload. Every record of the payload is in exactly one of
// Events, Malformed and Skipped.
type Batch struct {
	Records   int         // records in the payload
	Events    []Event     // expired audit events, in stream order
	Malformed []Malformed // records set aside, in stream order
	Skipped   int         // records that the archive does not need

	// OldestMs is the earliest creation time of any record, in epoch milliseconds, or 0 if no
	// record has one.
	OldestMs int64
}

// Event is one expired audit event. Its zero value is not valid; events come from Decode.
type Event struct {
	NamespaceID string
	EventID     string
	Action      string
	EntityID    string
	Timestamp   *string // as stored; nil when the item has none
	Principal   *string
	Resource    *string

	// Details and TTL are the stored values in plain JSON types, see the method plain of value.
	// They are nil if the item has none.
	Details any
	TTL     any

	// Subject is the subject of the partition key if it differs from EntityID, otherwise empty.
	Subject string

	// Other holds attributes that this version does not use. They are kept, because the item is
	// gone.
	Other map[string]any

	// Day is the UTC day under which the event is filed: the day of Timestamp, or if that is not a
	// valid instant, the day on which the record was created; then DayFromRecord is set.
	Day           Day
	DayFromRecord bool

	// Sequence is the record's sequence number, empty if it has none.
	Sequence string

	pk, sk   string
	position int
}

// Malformed is a record that can never be archived as an event: it is, or may be, an expired audit
// event, and cannot be decoded. It is kept as delivered.
type Malformed struct {
	Reason   string
	Record   json.RawMessage // the record as delivered
	Day      Day             // day of the record's creation, zero if unknown
	Sequence string          // empty if the record has none

	position int
}

// Day is a calendar day in UTC. The zero value means unknown.
type Day struct {
	Year  int
	Month time.Month
	Date  int
}

func dayOf(t time.Time) Day {
	y, m, d := t.UTC().Date()
	return Day{y, m, d}
}

// Created returns the day of a record's creation, epoch milliseconds; 0 is unknown.
func Created(ms int64) Day {
	if ms == 0 {
		return Day{}
	}
	return dayOf(time.UnixMilli(ms))
}

// prefix returns the day as key prefix, with the trailing slash. Readers partition by it.
func (d Day) prefix() string {
	if d == (Day{}) {
		return "undated/"
	}
	return fmt.Sprintf("year=%04d/month=%02d/day=%02d/", d.Year, d.Month, d.Date)
}

// Object is one archive object. It must only be written if no object with its key exists; an
// existing one means that it is already archived.
type Object struct {
	Key  string
	Body []byte // one JSON line, compressed with gzip; the caller must not change it

	// Sequence is the lowest sequence number of the object's records: where to resume if it cannot
	// be written. Empty if unknown.
	Sequence string

	// Malformed is why the record was set aside, or empty if the object holds an event.
	Malformed string
}

// Attributes of every object that a reader needs besides the key.
const (
	ContentType     = "application/x-ndjson"
	ContentEncoding = "gzip"
)

// Objects returns the archive objects of the batch in stream order, each key once. If a payload
// holds a record twice, the first occurrence decides. Records of a stream with the wrong view
// contain only keys: one object represents all of them.
func (b Batch) Objects() []Object {
	type placed struct {
		Object
		position int
	}
	// One compressor serves many small bodies. The fastest level costs about 2 % of size for one
	// line (265 instead of 261 bytes), and avoids clearing large tables for each body.
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	all := make([]placed, 0, len(b.Events)+len(b.Malformed))
	for _, e := range b.Events {
		line := e.line()
		all = append(all, placed{Object{Key: e.key(line), Body: compressed(w, line), Sequence: e.Sequence}, e.position})
	}
	for _, m := range foldViews(b.Malformed) {
		o := Object{Key: m.key(), Body: compressed(w, m.line()), Sequence: m.Sequence, Malformed: m.Reason}
		all = append(all, placed{o, m.position})
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.position - b.position })
	seen := make(map[string]bool, len(all))
	objects := make([]Object, 0, len(all))
	for _, p := range all {
		if !seen[p.Key] {
			seen[p.Key] = true
			objects = append(objects, p.Object)
		}
	}
	return objects
}
