package tablespec

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// TestGoldenTableOnEveryEngine creates the deployed table and reads it back.
func TestGoldenTableOnEveryEngine(t *testing.T) {
	template, err := Load(GoldenPath())
	if err != nil {
		t.Fatal(err)
	}
	table, err := template.Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range engine.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			e := engine.ForTest(t, kind)
			db := e.DynamoDB()
			name := ForTest(t, e)
			out, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
			if err != nil {
				t.Fatal(err)
			}
			projections := map[string]types.ProjectionType{}
			for _, index := range out.Table.GlobalSecondaryIndexes {
				projections[*index.IndexName] = index.Projection.ProjectionType
			}
			if len(projections) != len(table.GlobalIndexes) || len(projections) != 4 {
				t.Errorf("indexes %v", projections)
			}
			for _, want := range table.GlobalIndexes {
				if got := projections[*want.IndexName]; got != want.Projection.ProjectionType {
					t.Errorf("index %s projects %q, the template says %q", *want.IndexName, got, want.Projection.ProjectionType)
				}
			}
			ttl, err := db.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &name})
			if err != nil || ttl.TimeToLiveDescription.AttributeName == nil ||
				*ttl.TimeToLiveDescription.AttributeName != "ttl" {
				t.Errorf("time to live %+v, error %v", ttl, err)
			}
			if arn, err := StreamARN(t.Context(), db, name); err != nil ||
				out.Table.StreamSpecification.StreamViewType != types.StreamViewTypeNewAndOldImages {
				t.Errorf("stream %q %+v, error %v", arn, out.Table.StreamSpecification, err)
			}
		})
	}
}

// TestGoldenMappings holds the deployed mappings to design D12 and D14.
func TestGoldenMappings(t *testing.T) {
	template, err := Load(GoldenPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"aggregator", "archiver"} {
		m, err := template.Mapping(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %+v", name, m)
		if !m.ReportBatchItemFailures || !m.BisectBatchOnFunctionError || m.MaximumRetryAttempts < 0 ||
			m.MaximumRecordAgeInSeconds < 0 {
			t.Errorf("%s: no partial responses, no bisecting, or unbounded: %+v", name, m)
		}
		if m.DestinationKind != DestinationS3 {
			t.Errorf("%s: on-failure destination %q drops the payload", name, m.DestinationKind)
		}
		if len(m.Filters) == 0 {
			t.Errorf("%s: no filters", name)
		}
	}
}
