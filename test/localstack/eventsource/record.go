package eventsource

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
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

// lambdaRecord has its fields in the order AWS writes them.
type lambdaRecord struct {
	EventID        string        `json:"eventID"`
	EventName      string        `json:"eventName"`
	EventVersion   string        `json:"eventVersion"`
	EventSource    string        `json:"eventSource"`
	AWSRegion      string        `json:"awsRegion"`
	DynamoDB       lambdaChange  `json:"dynamodb"`
	EventSourceARN string        `json:"eventSourceARN"`
	UserIdentity   *userIdentity `json:"userIdentity,omitempty"`
}

type lambdaChange struct {
	ApproximateCreationDateTime int64  `json:"ApproximateCreationDateTime"` // epoch seconds
	Keys                        image  `json:"Keys"`
	NewImage                    image  `json:"NewImage,omitempty"`
	OldImage                    image  `json:"OldImage,omitempty"`
	SequenceNumber              string `json:"SequenceNumber"`
	SizeBytes                   int64  `json:"SizeBytes"`
	StreamViewType              string `json:"StreamViewType"`
}

type userIdentity struct {
	Type        string `json:"type"`
	PrincipalID string `json:"principalId"`
}

// ttlIdentity is the identity of DynamoDB's time-to-live service in its deletes.
var ttlIdentity = userIdentity{Type: "Service", PrincipalID: "dynamodb.amazonaws.com"}

// newRecord makes the record Lambda would deliver for r. expired stamps it as a delete by the time-to-live
// service; an identity that the stream itself carries is kept.
func newRecord(r streams.Record, streamARN string, expired bool) (Record, error) {
	change := r.Dynamodb
	if change == nil {
		change = &streams.StreamRecord{}
	}
	keys, err := imageOf(change.Keys)
	if err != nil {
		return Record{}, err
	}
	after, err := imageOf(change.NewImage)
	if err != nil {
		return Record{}, err
	}
	before, err := imageOf(change.OldImage)
	if err != nil {
		return Record{}, err
	}
	out := lambdaRecord{
		EventID: aws.ToString(r.EventID), EventName: string(r.EventName),
		EventVersion: "1.1", EventSource: "aws:dynamodb", AWSRegion: engine.Region,
		DynamoDB: lambdaChange{
			ApproximateCreationDateTime: aws.ToTime(change.ApproximateCreationDateTime).Unix(),
			Keys:                        keys,
			NewImage:                    after,
			OldImage:                    before,
			SequenceNumber:              aws.ToString(change.SequenceNumber),
			SizeBytes:                   aws.ToInt64(change.SizeBytes),
			StreamViewType:              string(change.StreamViewType),
		},
		EventSourceARN: streamARN,
	}
	if id := r.UserIdentity; id != nil {
		out.UserIdentity = &userIdentity{Type: aws.ToString(id.Type), PrincipalID: aws.ToString(id.PrincipalId)}
	} else if expired {
		out.UserIdentity = &ttlIdentity
	}
	body, err := json.Marshal(out)
	if err != nil {
		return Record{}, err
	}
	partition, _ := json.Marshal(keys["PK"])
	item, _ := json.Marshal(keys)
	return Record{
		Sequence:  out.DynamoDB.SequenceNumber,
		Created:   out.DynamoDB.ApproximateCreationDateTime * 1000,
		Body:      body,
		partition: string(partition),
		item:      string(item),
	}, nil
}

// image is an image or a key as DynamoDB JSON, for example {"rf":{"N":"5"}}. Names come out sorted, unlike
// the SDK's.
type image map[string]any

// imageOf renders an image; nil stays nil.
func imageOf(in map[string]streams.AttributeValue) (out image, err error) {
	if in == nil {
		return nil, nil
	}
	it, err := attributevalue.FromDynamoDBStreamsMap(in)
	if err != nil {
		return nil, err
	}
	text, err := attributevalue.MarshalMapJSON(it)
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(text, &out)
}

// RawRecord is a record made of any JSON value, malformed ones included, to be
// injected into a batch. Its sequence number is the one in the body, if any.
func RawRecord(body string, created int64) Record {
	var peek struct {
		Dynamodb struct{ SequenceNumber any } `json:"dynamodb"`
	}
	_ = json.Unmarshal([]byte(body), &peek)
	sequence, _ := peek.Dynamodb.SequenceNumber.(string)
	return Record{Sequence: sequence, Created: created, Body: json.RawMessage(body)}
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
