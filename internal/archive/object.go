package archive

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
)

// Prefixes of the object keys. Readers of the archive only read below PrefixAudit; objects below
// PrefixMalformed need a person to examine them.
const (
	PrefixAudit     = "audit/"
	PrefixMalformed = "malformed/"

	// keySuffix lets readers choose by name how to read an object.
	keySuffix = ".jsonl.gz"
)

// maxKeyPart is the greatest number of bytes that a namespace id or an event id adds to a key. Ours
// have 11 and 26; a key may have 1,024 in total.
const maxKeyPart = 64

// key returns the object key of the event:
//
//	audit/year=2024/month=01/day=15/audit-{namespace}-{event id}-{hash}.jsonl.gz
//
// It depends only on the event. The hash covers the item's primary key and the event's line. So two
// items never share an object, whatever ids are in the table, and neither do two events that were
// stored under one key, one after the other. The name starts with "audit-" because a namespace id
// may start with an underscore, and query engines ignore objects whose names do.
func (e Event) key(line []byte) string {
	return PrefixAudit + e.Day.prefix() + "audit-" + keyPart(e.NamespaceID) + "-" + keyPart(e.EventID) +
		"-" + hash([]byte(e.pk), []byte(e.sk), line) + keySuffix
}

// key returns the object key of the malformed record:
//
//	malformed/year=2024/month=01/day=15/{sequence number}-{hash}.jsonl.gz
//
// The day is the day of the record's creation. The hash covers the whole record, because no part of
// it is reliable.
func (m Malformed) key() string {
	sequence := "nosequence"
	if m.Sequence != "" {
		sequence = keyPart(m.Sequence)
	}
	return PrefixMalformed + m.Day.prefix() + sequence + "-" + hash(compact(m.Record)) + keySuffix
}

// keyPart makes text safe for an object key: letters, digits, hyphens and underscores stay,
// everything else becomes an underscore. Two texts may give the same part; the hash in the key
// distinguishes them.
func keyPart(text string) string {
	if len(text) > maxKeyPart {
		text = text[:maxKeyPart]
	}
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, text)
}

// hash returns 96 bits of the SHA-256 of the parts, each with its length, in hex.
func hash(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		h.Write(size[:])
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// compact returns the JSON without insignificant space, so that a record is the same in every
// layout.
func compact(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return raw
	}
	return b.Bytes()
}

// line returns the event as one JSON object and a line feed: the same event always gives the same
// line. Readers rely on the names; members may be added, never renamed. If a release adds one, an
// event that is delivered to both releases is archived twice.
func (e Event) line() []byte {
	from := ""
	if e.DayFromRecord {
		from = "record"
	}
	return encodeLine(struct {
		NamespaceID string         `json:"namespace_id"`
		EventID     string         `json:"event_id"`
		Timestamp   *string        `json:"timestamp"`
		Action      string         `json:"action"`
		EntityID    string         `json:"entity_id"`
		Principal   *string        `json:"principal"`
		Resource    *string        `json:"resource"`
		Details     any            `json:"details"`
		TTL         any            `json:"ttl"`
		Subject     string         `json:"subject,omitempty"`
		DayFrom     string         `json:"day_from,omitempty"`
		Other       map[string]any `json:"other,omitempty"`
	}{e.NamespaceID, e.EventID, e.Timestamp, e.Action, e.EntityID, e.Principal, e.Resource,
		e.Details, e.TTL, e.Subject, from, e.Other})
}

// line returns the malformed record with its reason as one JSON object and a line feed.
func (m Malformed) line() []byte {
	return encodeLine(struct {
		Reason   string          `json:"reason"`
		Sequence string          `json:"sequence_number"`
		Record   json.RawMessage `json:"record"`
	}{m.Reason, m.Sequence, m.Record})
}

func encodeLine(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("archive: bug: decoded record does not encode: " + err.Error())
	}
	return b.Bytes()
}

// compressed compresses data with w, which can be reused. The header has neither time nor name, so
// equal data gives equal bytes.
func compressed(w *gzip.Writer, data []byte) []byte {
	var b bytes.Buffer
	w.Reset(&b)
	_, err := w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil {
		panic("archive: bug: writing to memory: " + err.Error())
	}
	return b.Bytes()
}
