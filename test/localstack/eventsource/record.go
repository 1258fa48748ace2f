package eventsource

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
)

// Record is one stream record for the function. It is immutable.
type Record struct {
	Sequence string          // sequence number as in the stream; may be empty in an injected record
	Created  int64           // epoch ms, whole seconds
	Body     json.RawMessage // the record exactly as the function receives it

	partition string // canonical partition key, which determines the virtual shard
	item      string // canonical complete key, which determines the lane within the shard

	injected bool // not from the stream
}

// newRecord reads the sequence number, the time and the key of a record, if present.
func newRecord(body json.RawMessage) Record {
	var peek struct {
		Dynamodb struct {
			ApproximateCreationDateTime int64 // epoch seconds
			Keys                        map[string]json.RawMessage
			SequenceNumber              string
		}
	}
	_ = json.Unmarshal(body, &peek)
	change := peek.Dynamodb
	item, _ := json.Marshal(change.Keys)
	return Record{Sequence: change.SequenceNumber, Created: 1000 * change.ApproximateCreationDateTime, Body: body,
		partition: string(change.Keys["PK"]), item: string(item)}
}

// RawRecord returns a record for injection from any JSON value, including malformed ones. Its
// sequence number is the one in the body, if any.
func RawRecord(body string, created int64) Record {
	r := newRecord(json.RawMessage(body))
	r.Created = created
	return r
}

// Malformed returns a record for injection that changes an item whose attributes, given in JSON,
// cannot be decoded. A REMOVE is by time to live.
func Malformed(event, pk, sk, attributes string, created int64) Record {
	keys := fmt.Sprintf(`"PK":{"S":%q},"SK":{"S":%q}`, pk, sk)
	image := "{" + keys + "," + attributes + "}"
	images, by := `"NewImage":`+image+`,"OldImage":`+image, ""
	if event == "REMOVE" {
		images, by = `"OldImage":`+image, `,"userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"}`
	}
	return RawRecord(fmt.Sprintf(`{"eventID":"malformed","eventName":%q,"eventSource":"aws:dynamodb","dynamodb":{`+
		`"ApproximateCreationDateTime":%d,"Keys":{%s},%s}%s}`, event, created/1000, keys, images, by), created)
}

// Payload returns the event of an invocation with these records.
func Payload(records []Record) []byte {
	var b strings.Builder
	b.WriteString(payloadOpen)
	for i, r := range records {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(r.Body)
	}
	b.WriteString(payloadClose)
	return []byte(b.String())
}

const payloadOpen, payloadClose = `{"Records":[`, `]}`

func pick(key string, n int) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % uint32(n))
}
