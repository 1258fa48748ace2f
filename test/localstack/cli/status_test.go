package cli

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// Status tells of a table what is right, and of one that is not, what is wrong.
func TestStatus(t *testing.T) {
	s := onTable(t)
	s.says(0, "status", "ACTIVE", "as it must be", "schema 0.9.0", "default", "ENABLED NEW_AND_OLD_IMAGES",
		"functions none local")
	type status struct {
		OK    bool
		Parts []struct {
			Part, State string
			OK          bool
			Figures     map[string]any
		}
	}
	got := prints[status](s, "status")
	if !got.OK || len(got.Parts) != 5 || got.Parts[3].Part != "stream" || got.Parts[3].Figures["shards"] != 1.0 {
		t.Errorf("status: %+v", got)
	}
	s.says(1, "status -t no-such-table", "There is no table", "zae-limiter table create")
}

func TestStatusOfATableWithoutAStream(t *testing.T) {
	e := engine.ForTest(t, engine.Dynoxide)
	name := engine.UniqueName("bare")
	t.Cleanup(func() { e.RemoveTable(t, name) })
	_, err := e.DynamoDB().CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String(name), BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("PK"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("SK"), KeyType: types.KeyTypeRange},
		},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("PK"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("SK"), AttributeType: types.ScalarAttributeTypeS},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := newShell(t, e, name)
	s.says(3, "status", "index GSI1: is missing", "stream none off", "no usage, no archive")
	s.says(3, "table check", "index GSI1: is missing", "stream: is off")
	out, _ := s.run(3, "status", "-o", "csv")
	if lines := strings.Count(out, "\n"); lines < 4 {
		t.Errorf("%d lines of csv:\n%s", lines, out)
	}
}

// Replay and status say what to do where there is no stack.
func TestReplayWithoutAStack(t *testing.T) {
	s := onTable(t)
	s.env = append(s.env, "AWS_ENDPOINT_URL_CLOUDFORMATION=http://127.0.0.1:1", "AWS_MAX_ATTEMPTS=1")
	s.says(1, "replay", `stack "zae-limiter-go"`)
	s.says(2, "replay now", "want: zae-limiter replay")
}
