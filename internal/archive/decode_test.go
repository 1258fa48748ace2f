package archive

import (
	"strings"
	"testing"
)

// An event is archived under its own day, or under the day of its record if it has none. The result
// says which.
func TestEventsAreArchivedUnderTheirDay(t *testing.T) {
	const created = 1_700_000_000_000 // 2023-11-14
	for _, c := range []struct {
		timestamp  string
		created    int64
		day        string
		fromRecord bool
	}{
		{"2026-03-01T23:30:00Z", created, "year=2026/month=03/day=01/", false},
		{"2026-03-01T23:30:00-01:00", created, "year=2026/month=03/day=02/", false},
		{"0001-01-01T00:00:00Z", created, "year=0001/month=01/day=01/", false},
		{"9999-12-31T23:59:59Z", created, "year=9999/month=12/day=31/", false},
		{"0001-01-01T00:00:00+01:00", created, "year=2023/month=11/day=14/", true}, // in the year 0
		{"9999-12-31T23:59:59-01:00", created, "year=2023/month=11/day=14/", true}, // in the year 10000
		{"yesterday", created, "year=2023/month=11/day=14/", true},
		{"", created, "year=2023/month=11/day=14/", true},
		{"yesterday", 0, "undated/", false},
	} {
		e := Event{Timestamp: &c.timestamp}
		if c.timestamp == "" {
			e.Timestamp = nil
		}
		err := e.file(c.created)
		if e.Day.prefix() != c.day || e.DayFromRecord != c.fromRecord || (err == nil) != (c.day != "undated/") {
			t.Errorf("%q, created at %d: %s, %t, error %v, want %s, %t", c.timestamp, c.created, e.Day.prefix(),
				e.DayFromRecord, err, c.day, c.fromRecord)
		}
	}
}

// Text of a payload is cut between characters in messages.
func TestClip(t *testing.T) {
	long := strings.Repeat("x", 99)
	for text, want := range map[string]string{"": "", long + "y": long + "y", long + "yz": long + "y…",
		long + "üz": long + "…"} {
		if got := clip(text); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
}

// A null text is missing. A text of another type, or a null that is false, is a problem. The first
// problem is reported.
func TestNullTextsAreMissing(t *testing.T) {
	no := false
	text, number := "a", "1"
	f := fields{image: map[string]value{"text": {S: &text}, "number": {N: &number}, "null": {NULL: new(true)},
		"odd": {NULL: &no}}}
	if got := f.optional("text"); got == nil || *got != text || f.err != nil {
		t.Errorf("%v, %v, want %q", got, f.err, text)
	}
	for _, name := range []string{"null", "none", "text"} { // the last text was taken
		if got := f.optional(name); got != nil || f.err != nil {
			t.Errorf("%s: %v, %v, want nothing", name, got, f.err)
		}
	}
	for _, name := range []string{"odd", "number"} {
		if got := f.optional(name); got != nil || f.err == nil || f.err.Error() != `attribute "odd": is NULL false` {
			t.Errorf("%s: %v, %v", name, got, f.err)
		}
	}
}

// The key of an event has a namespace and a subject.
func TestKeysOfEventsNameTheirSubject(t *testing.T) {
	for pk, ok := range map[string]bool{"ns/AUDIT#a": true, "/AUDIT#a": false, "ns/AUDIT#": false,
		"AUDIT#a": false, "ns/a": false} {
		b, err := Decode([]byte(`{"Records":[{"eventName":"REMOVE",` +
			`"userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},"dynamodb":{"SequenceNumber":"1",` +
			`"ApproximateCreationDateTime":1,"OldImage":{"PK":{"S":"` + pk + `"},"SK":{"S":"#AUDIT#1"},"action":{"S":"x"}}}}]}`))
		if err != nil || len(b.Events) == 1 != ok || len(b.Malformed) == 1 == ok {
			t.Errorf("%s: %+v, %v", pk, b, err)
		}
	}
}
