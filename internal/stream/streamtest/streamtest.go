// Package streamtest builds stream payloads as Lambda delivers them, for tests.
package streamtest

import (
	"encoding/json"
	"strconv"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
)

// Record is one stream record. A nil Old is an INSERT, a nil New a REMOVE.
type Record struct {
	Sequence string
	Created  int64 // epoch milliseconds; delivered in seconds, with a fraction if there is one
	Old, New item.Item
	Label    string // of the stream; empty: 2024-01-01T00:00:00.000
}

// Payload returns the records as the payload of one invocation.
func Payload(records ...Record) []byte {
	all := make([]json.RawMessage, 0, len(records))
	for _, r := range records {
		all = append(all, r.JSON())
	}
	return PayloadOf(all...)
}

// PayloadOf returns records that already are JSON, or meant to be, as the
// payload of one invocation.
func PayloadOf(records ...json.RawMessage) []byte {
	out := []byte(`{"Records":[`)
	for i, r := range records {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, r...)
	}
	return append(out, "]}"...)
}

// JSON returns the record as Lambda delivers it.
func (r Record) JSON() json.RawMessage {
	name, it := "MODIFY", r.New
	switch {
	case r.Old == nil:
		name = "INSERT"
	case r.New == nil:
		name, it = "REMOVE", r.Old
	}
	body := map[string]any{
		"ApproximateCreationDateTime": json.Number(seconds(r.Created)),
		"Keys":                        json.RawMessage(itemtest.JSON(item.KeyOf(it).Item())),
		"SequenceNumber":              r.Sequence,
		"SizeBytes":                   1000,
		"StreamViewType":              "NEW_AND_OLD_IMAGES",
	}
	label := r.Label
	if label == "" {
		label = "2024-01-01T00:00:00.000"
	}
	if r.New != nil {
		body["NewImage"] = json.RawMessage(itemtest.JSON(r.New))
	}
	if r.Old != nil {
		body["OldImage"] = json.RawMessage(itemtest.JSON(r.Old))
	}
	out, err := json.Marshal(map[string]any{
		"eventID": "c4ca4238a0b923820dcc509a6f75849b", "eventName": name, "eventVersion": "1.1",
		"eventSource": "aws:dynamodb", "awsRegion": "us-east-1", "dynamodb": body,
		"eventSourceARN": "arn:aws:dynamodb:us-east-1:123456789012:table/limits/stream/" + label,
	})
	if err != nil {
		panic("streamtest: bug: " + err.Error())
	}
	return out
}

func seconds(ms int64) string {
	s := strconv.FormatInt(ms/1000, 10)
	if ms%1000 != 0 {
		s += "." + strconv.FormatInt(1000+ms%1000, 10)[1:]
	}
	return s
}
