package eventsource

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
)

// Record is one stream record on its way to the function. It is never changed.
type Record struct {
	Sequence string          // sequence number as the stream has it; may be empty in an injected record
	Created  int64           // epoch ms, whole seconds
	Body     json.RawMessage // the record exactly as the function receives it

	partition string // canonical partition key, decides the virtual shard
	item      string // canonical whole key, decides the lane within the shard

	injected bool // not from the stream
}

// newRecord reads the sequence number, the time and the key of a record, as far as it has them.
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

// RawRecord is a record made of any JSON value, malformed ones included, to be
// injected into a batch. Its sequence number is the one in the body, if any.
func RawRecord(body string, created int64) Record {
	r := newRecord(json.RawMessage(body))
	r.Created = created
	return r
}

// Malformed is a record, to be injected, of the change of an item. Its image has attributes, given in
// JSON, that nobody can read. A REMOVE is by time to live.
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

// Payload is the event of an invocation with these records.
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
