package twin

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/internal/dbtest"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

func client(t *testing.T) *dynamodb.Client { return clientOf(t, memdb.New(nil)) }

func clientOf(t *testing.T, db *memdb.DB) *dynamodb.Client {
	t.Helper()
	s, err := Start(db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return dynamodb.New(dynamodb.Options{BaseEndpoint: aws.String(s.URL()), Region: engine.Region,
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", "")})
}

// TestConformance: through the real client, the server is a table like the engines'.
func TestConformance(t *testing.T) {
	dbtest.Run(t, dbtest.Deviations{}, func(t *testing.T) store.Lister { return store.NewListing(client(t), "limits") })
}

// TestDifferential compares it with the table in memory itself, call by call.
func TestDifferential(t *testing.T) {
	for seed := range uint64(4) {
		dbtest.Compare(t, dbtest.Deviations{}, seed, 300, memdb.New(nil), store.NewDynamo(client(t), "limits"))
	}
}

// What a hook of the table in memory does to a call arrives as what DynamoDB says.
func TestFailures(t *testing.T) {
	for kind, code := range map[store.Kind]string{store.Throttled: "ProvisionedThroughputExceededException",
		store.Conflict: "TransactionConflictException", store.Setup: "ValidationException"} {
		db := memdb.New(nil)
		db.SetHook(func(memdb.Op) (bool, error) { return false, memdb.Fail(kind) })
		_, err := clientOf(t, db).DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("limits"),
			Key: item.Key{PK: "a", SK: "b"}.Item()}, func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 })
		if api, ok := errors.AsType[smithy.APIError](err); !ok || api.ErrorCode() != code {
			t.Errorf("%v arrives as %v, want %s", kind, err, code)
		}
	}
}
