package tablespec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// Table is a table of the template. Its name in the template, tags,
// encryption, point-in-time recovery and deletion protection are not carried
// over to a local table; PointInTimeRecovery only reports.
type Table struct {
	limitertable.Spec
	LogicalID           string
	PointInTimeRecovery bool
}

func parseTable(id string, raw json.RawMessage) (Table, error) {
	spec, err := limitertable.Parse(raw)
	if err != nil {
		return Table{}, err
	}
	var p struct {
		PointInTimeRecoverySpecification struct{ PointInTimeRecoveryEnabled bool }
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return Table{}, err
	}
	recovery := p.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled
	return Table{Spec: spec, LogicalID: id, PointInTimeRecovery: recovery}, nil
}

// Create creates the table under the given name, waits until it is active and
// switches on its time to live. On an error after the first step the table may
// exist.
func (t Table) Create(ctx context.Context, db *dynamodb.Client, name string) error {
	_, err := t.Spec.Create(ctx, db, name)
	return err
}

// StreamARN returns the ARN of the named table's current stream.
func StreamARN(ctx context.Context, db *dynamodb.Client, name string) (string, error) {
	out, err := db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(name)})
	if err != nil {
		return "", fmt.Errorf("describe table %q: %w", name, err)
	}
	if arn := aws.ToString(out.Table.LatestStreamArn); arn != "" {
		return arn, nil
	}
	return "", errors.New("table " + name + " has no stream")
}

// ForTest creates the table of the committed template under a new name and
// removes it when the test ends.
func ForTest(t testing.TB, e *engine.Engine) string {
	t.Helper()
	template, err := Load(GoldenPath())
	if err != nil {
		t.Fatal(err)
	}
	table, err := template.Table()
	if err != nil {
		t.Fatal(err)
	}
	name := engine.UniqueName("limiter")
	t.Cleanup(func() { e.RemoveTable(t, name) })
	if err := table.Create(t.Context(), e.DynamoDB(), name); err != nil {
		t.Fatal(err)
	}
	return name
}
