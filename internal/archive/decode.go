package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// The identity with which DynamoDB's time-to-live process deletes items.
const (
	ttlIdentityType      = "Service"
	ttlIdentityPrincipal = "dynamodb.amazonaws.com"
)

// Decode reads the payload that Lambda delivers for a DynamoDB stream, and selects the expired
// audit events: records of a REMOVE by DynamoDB's time-to-live service whose sort key starts with
// #AUDIT#. Other deletes and records of other items are skipped. If a record is or may be an
// expired audit event and cannot be decoded, it is set aside with the reason, and does not affect
// the others.
//
// It returns an error only if the payload as a whole is not a stream payload. It never panics,
// whatever the payload.
func Decode(payload []byte) (Batch, error) {
	var envelope struct {
		Records *[]json.RawMessage `json:"Records"`
	}
	if err := json.Unmarshal(payload, &envelope); err != nil {
		return Batch{}, fmt.Errorf("stream payload: %w", err)
	}
	if envelope.Records == nil {
		return Batch{}, errors.New(`stream payload: no "Records"`)
	}
	b := Batch{Records: len(*envelope.Records)}
	for i, raw := range *envelope.Records {
		b.add(i, raw)
	}
	return b, nil
}

// record is the part of a stream record that decides how it is treated.
type record struct {
	EventName    string `json:"eventName"`
	UserIdentity struct {
		Type        string `json:"type"`
		PrincipalID string `json:"principalId"`
	} `json:"userIdentity"`
	Dynamodb struct {
		Created        json.RawMessage `json:"ApproximateCreationDateTime"`
		SequenceNumber string          `json:"SequenceNumber"`
		Keys           json.RawMessage `json:"Keys"`
		OldImage       json.RawMessage `json:"OldImage"`
	} `json:"dynamodb"`
}

func (b *Batch) add(position int, raw json.RawMessage) {
	var r record
	err := json.Unmarshal(raw, &r) // after a wrong type, the other fields are still decoded
	created := r.createdMs()
	if created > 0 && (b.OldestMs == 0 || created < b.OldestMs) {
		b.OldestMs = created
	}
	if err != nil {
		err = wrongType("record", err)
	}
	mine := false
	if err == nil {
		mine, err = r.expiredAuditEvent()
	}
	var e Event
	if err == nil && mine {
		e, err = r.event()
	}
	switch {
	case err != nil:
		b.Malformed = append(b.Malformed, Malformed{Reason: err.Error(), Record: raw, Day: Created(created),
			Sequence: r.Dynamodb.SequenceNumber, position: position})
	case mine:
		e.position = position
		b.Events = append(b.Events, e)
	default:
		b.Skipped++
	}
}

// createdMs returns the creation time in epoch milliseconds, or 0 if the record has no plausible
// one. The stream stores it in seconds.
func (r *record) createdMs() int64 {
	s, err := strconv.ParseFloat(string(r.Dynamodb.Created), 64)
	const year10000 = 253402300800
	if err != nil || !(s >= 1 && s < year10000) {
		return 0
	}
	return int64(math.Floor(s * 1000))
}

// expiredAuditEvent reports whether the record belongs in the archive.
func (r *record) expiredAuditEvent() (bool, error) {
	switch r.EventName {
	case "REMOVE":
	case "INSERT", "MODIFY":
		return false, nil
	default:
		return false, fmt.Errorf("eventName %q is none of INSERT, MODIFY, REMOVE", r.EventName)
	}
	if r.UserIdentity.Type != ttlIdentityType || r.UserIdentity.PrincipalID != ttlIdentityPrincipal {
		return false, nil // deleted by a client, not by expiry
	}
	key := r.Dynamodb.OldImage
	if absent(key) {
		key = r.Dynamodb.Keys
	}
	if absent(key) {
		return false, errors.New("expired item has neither OldImage nor Keys")
	}
	var it map[string]json.RawMessage // a struct would accept "sk" for "SK"
	if err := json.Unmarshal(key, &it); err != nil {
		return false, wrongType("expired item", err)
	}
	var sk value
	if raw := it[item.AttrSK]; !absent(raw) {
		if err := json.Unmarshal(raw, &sk); err != nil {
			return false, wrongType("expired item: SK", err)
		}
	}
	if sk.S == nil {
		return false, errors.New("sort key: SK is not a string")
	}
	if !strings.HasPrefix(*sk.S, layout.SKAuditPrefix) {
		return false, nil // another kind of item expired
	}
	if absent(r.Dynamodb.OldImage) {
		return false, errors.New("expired audit event without OldImage: the stream's view type must include old images")
	}
	return true, nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// event decodes the expired item.
func (r *record) event() (Event, error) {
	var image map[string]value
	if err := json.Unmarshal(r.Dynamodb.OldImage, &image); err != nil {
		return Event{}, wrongType("OldImage", err)
	}
	f := fields{image: image}
	e := Event{
		pk:        f.required(item.AttrPK),
		sk:        f.required(item.AttrSK),
		Action:    f.required(ledger.AttrAction),
		Timestamp: f.optional(ledger.AttrAt),
		Principal: f.optional(ledger.AttrPrincipal),
		Resource:  f.optional(layout.AttrResource),
		Details:   f.any(ledger.AttrDetails),
		TTL:       f.any(layout.AttrTTL),
		Sequence:  r.Dynamodb.SequenceNumber,
	}
	id, entity := f.optional(ledger.AttrEventID), f.optional(layout.AttrEntityID)
	delete(image, item.AttrGSI4PK) // where the item was stored, not its content
	delete(image, item.AttrGSI4SK)
	e.Other = f.rest()
	if f.err != nil {
		return Event{}, f.err
	}
	namespace, rest, ok := strings.Cut(e.pk, "/")
	subject, audit := strings.CutPrefix(rest, layout.AuditPKPart)
	if !ok || !audit || namespace == "" || subject == "" {
		return Event{}, fmt.Errorf("partition key %q is not {namespace}/%s{subject}", clip(e.pk), layout.AuditPKPart)
	}
	e.NamespaceID = namespace
	e.EventID = strings.TrimPrefix(e.sk, layout.SKAuditPrefix)
	if id != nil {
		e.EventID = *id
	}
	if e.EventID == "" {
		return Event{}, fmt.Errorf("sort key %q and event_id name no event", clip(e.sk))
	}
	e.EntityID = subject
	if entity != nil && *entity != subject {
		e.EntityID, e.Subject = *entity, subject
	}
	return e, e.file(r.createdMs())
}

// file determines the day under which the event is filed.
func (e *Event) file(createdMs int64) error {
	if e.Timestamp != nil {
		if t, err := time.Parse(time.RFC3339, *e.Timestamp); err == nil && t.UTC().Year() >= 1 && t.UTC().Year() <= 9999 {
			e.Day = dayOf(t)
			return nil
		}
	}
	if createdMs == 0 {
		return errors.New("neither timestamp nor ApproximateCreationDateTime is a valid instant")
	}
	e.Day, e.DayFromRecord = Created(createdMs), true
	return nil
}

// clip shortens text of the payload for a message.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// wrongType describes a value of a wrong type in the payload's words, not in Go's.
func wrongType(what string, err error) error {
	typed, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return fmt.Errorf("%s: %w", what, err)
	case typed.Field == "":
		return fmt.Errorf("%s is a JSON %s", what, typed.Value)
	default:
		return fmt.Errorf("%s: %s is a JSON %s", what, clip(typed.Field), typed.Value)
	}
}
