package poll

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// record is a record in the form that Lambda delivers.
type record struct {
	EventID        string    `json:"eventID"`
	EventName      string    `json:"eventName"`
	EventVersion   string    `json:"eventVersion"`
	EventSource    string    `json:"eventSource"`
	AWSRegion      string    `json:"awsRegion"`
	DynamoDB       change    `json:"dynamodb"`
	UserIdentity   *identity `json:"userIdentity,omitempty"`
	EventSourceARN string    `json:"eventSourceARN"`
}

type change struct {
	ApproximateCreationDateTime int64          `json:"ApproximateCreationDateTime,omitempty"` // epoch seconds
	Keys                        map[string]any `json:"Keys"`
	NewImage                    map[string]any `json:"NewImage,omitempty"`
	OldImage                    map[string]any `json:"OldImage,omitempty"`
	SequenceNumber              string         `json:"SequenceNumber"`
	SizeBytes                   int64          `json:"SizeBytes"`
	StreamViewType              string         `json:"StreamViewType"`
}

type identity struct {
	Type        string `json:"type"`
	PrincipalID string `json:"principalId"`
}

// payloadOf returns the payload in which Lambda would deliver the records of a stream.
func payloadOf(arn string, records []types.Record) ([]byte, error) {
	var out struct{ Records []record }
	for _, r := range records {
		c := r.Dynamodb
		if c == nil {
			c = &types.StreamRecord{}
		}
		to := record{
			EventID: aws.ToString(r.EventID), EventName: string(r.EventName), EventVersion: aws.ToString(r.EventVersion),
			EventSource: "aws:dynamodb", AWSRegion: aws.ToString(r.AwsRegion), EventSourceARN: arn,
			DynamoDB: change{
				Keys: item(c.Keys), NewImage: item(c.NewImage), OldImage: item(c.OldImage),
				SequenceNumber: aws.ToString(c.SequenceNumber), SizeBytes: aws.ToInt64(c.SizeBytes),
				StreamViewType: string(c.StreamViewType),
			},
		}
		if at := c.ApproximateCreationDateTime; at != nil {
			to.DynamoDB.ApproximateCreationDateTime = at.Unix()
		}
		if id := r.UserIdentity; id != nil {
			to.UserIdentity = &identity{aws.ToString(id.Type), aws.ToString(id.PrincipalId)}
		}
		out.Records = append(out.Records, to)
	}
	return json.Marshal(out)
}

func item(attributes map[string]types.AttributeValue) map[string]any {
	out := make(map[string]any, len(attributes))
	for name, v := range attributes {
		out[name] = value(v)
	}
	return out
}

// value returns a value in DynamoDB's JSON.
func value(v types.AttributeValue) map[string]any {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return map[string]any{"S": v.Value}
	case *types.AttributeValueMemberN:
		return map[string]any{"N": v.Value}
	case *types.AttributeValueMemberB:
		return map[string]any{"B": v.Value}
	case *types.AttributeValueMemberBOOL:
		return map[string]any{"BOOL": v.Value}
	case *types.AttributeValueMemberNULL:
		return map[string]any{"NULL": v.Value}
	case *types.AttributeValueMemberSS:
		return map[string]any{"SS": v.Value}
	case *types.AttributeValueMemberNS:
		return map[string]any{"NS": v.Value}
	case *types.AttributeValueMemberBS:
		return map[string]any{"BS": v.Value}
	case *types.AttributeValueMemberM:
		return map[string]any{"M": item(v.Value)}
	case *types.AttributeValueMemberL:
		all := make([]any, 0, len(v.Value))
		for _, e := range v.Value {
			all = append(all, value(e))
		}
		return map[string]any{"L": all}
	}
	return nil // a type unknown to the SDK: its reader treats it as malformed
}

func sequence(r types.Record) string {
	if r.Dynamodb == nil {
		return ""
	}
	return aws.ToString(r.Dynamodb.SequenceNumber)
}

// undone reads a partial batch response, and returns the index of the first record that is not
// done, or the number of records. An identifier that is empty, or belongs to none of them, means
// all.
func undone(answer []byte, records []types.Record) (int, error) {
	var report struct {
		BatchItemFailures []struct {
			ItemIdentifier string `json:"itemIdentifier"`
		} `json:"batchItemFailures"`
	}
	if err := json.Unmarshal(answer, &report); err != nil {
		return 0, fmt.Errorf("answer %.100q: %w", answer, err)
	}
	first := len(records)
	for _, f := range report.BatchItemFailures {
		at := slices.IndexFunc(records, func(r types.Record) bool {
			number := sequence(r)
			return number != "" && number == f.ItemIdentifier
		})
		first = min(first, max(at, 0))
	}
	return first, nil
}
