package twin

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/dbtest"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

func client(t *testing.T) *dynamodb.Client {
	t.Helper()
	s, err := Start(memdb.New(nil))
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
