// Package archive turns a stream payload into the archive objects of the audit
// events that expired in it. It is pure: bytes in, object keys and bytes out,
// no clock, no I/O, and the same payload always gives the same objects.
//
// # One object per event
//
// Lambda delivers a record at least once, and not always in the same company. A batch is cut in two
// after an error, resumed at a failed record, or delivered again with other neighbours after an
// answer was lost. So an object that holds "the events of a batch" cannot be both complete and free
// of duplicates, whatever its key is made of. Example: [1..10] is stored, then [1..5] and [6..10]
// come again. Only three ways lead out: readers that drop duplicates by id, objects that are read,
// merged and written back, or objects whose content does not depend on the cut. This package takes
// the third: every event is an object of its own (a sequence range of one record). Its key is made
// from the event alone: its namespace, day and id, and a hash of its primary key in the table and
// its content.
//
// What follows, if the caller writes each object with "only if there is none":
//
//   - Any number of deliveries in any order, by any number of concurrent
//     writers, leaves exactly one object with exactly one line per event.
//   - An archived event is never read, changed or replaced by the archiver, so
//     it needs no permission but to put objects, and object lock works.
//   - Progress survives: of a half-written batch only the rest is written again.
//
// What it costs: one put per event ($5 per million, once per event that an
// administrator caused), and small objects. If you often query years of events,
// compact closed days.
//
// What it does not do: an event that never reaches the stream's consumer
// (retention of 24 hours missed, mapping disabled, manual delete) is not
// archived, and the archive does not show it.
package archive

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Batch is what a payload holds for the archive. Every record of the payload
// is in exactly one of Events, Malformed and Skipped.
type Batch struct {
	Records   int         // records in the payload
	Events    []Event     // expired audit events, in stream order
	Malformed []Malformed // records set aside, in stream order
	Skipped   int         // records that are none of the archive's business

	// OldestMs is the earliest creation time of any record, in epoch
	// milliseconds, or 0 when no record says.
	OldestMs int64
}

// Event is one expired audit event. Its zero value is not a valid event; events
// come from Decode.
type Event struct {
	NamespaceID string
	EventID     string
	Action      string
	EntityID    string
	Timestamp   *string // as stored; nil when the item has none
	Principal   *string
	Resource    *string

	// Details and TTL are the stored values in plain JSON types, see the
	// package's value rules on plain. nil when the item has none.
	Details any
	TTL     any

	// Subject is the subject of the partition key where it differs from
	// EntityID, else empty.
	Subject string

	// Other are attributes that this version does not know. They are kept,
	// because the item they come from is gone.
	Other map[string]any

	// Day is the UTC day the event is filed under: the day of Timestamp, or, if
	// DayFromRecord, the day its record was created, because Timestamp is no
	// valid instant.
	Day           Day
	DayFromRecord bool

	// Sequence is the record's sequence number. Empty if the record has none.
	Sequence string

	pk, sk   string
	position int
}

// Malformed is a record that can never be archived as an event: it is, or might
// be, an expired audit event and cannot be read. It is kept as it came.
type Malformed struct {
	Reason   string
	Record   json.RawMessage // the record as delivered
	Day      Day             // day of the record's creation, zero if it does not say
	Sequence string          // empty if the record has none

	position int
}

// Day is a calendar day in UTC. The zero value means no day is known.
type Day struct {
	Year  int
	Month time.Month
	Date  int
}

func dayOf(t time.Time) Day {
	y, m, d := t.UTC().Date()
	return Day{y, m, d}
}

// prefix is the day as key prefix, with the trailing slash. Readers partition by it.
func (d Day) prefix() string {
	if d == (Day{}) {
		return "undated/"
	}
	return fmt.Sprintf("year=%04d/month=%02d/day=%02d/", d.Year, d.Month, d.Date)
}

// Object is one archive object. It has to be written only if no object of its
// key exists; that one exists already means that this one is archived.
type Object struct {
	Key  string
	Body []byte // one JSON line, gzip; the caller must not change it

	// Sequence is the lowest sequence number of the records behind the
	// object: where to resume if it cannot be written. Empty if unknown.
	Sequence string

	// Malformed is the reason why the record was set aside, or empty if the
	// object holds an event.
	Malformed string
}

// What a reader needs to know of an object besides its key.
const (
	ContentType     = "application/x-ndjson"
	ContentEncoding = "gzip"
)

// Objects are the archive objects of the batch in stream order, each key once.
// A payload that holds a record twice gives the object of its first occurrence. Records
// of a stream with the wrong view hold nothing but keys: one object stands for all.
func (b Batch) Objects() []Object {
	type placed struct {
		Object
		position int
	}
	// One compressor for many small bodies. The fastest level costs about 2 % of size on bodies of
	// one line (265 against 261 bytes) and spares clearing large tables for each of them.
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
