package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

func TestUpdatesThatLoseATableAreRefused(t *testing.T) {
	for _, c := range []struct {
		old, new string // replaced in the golden
		want     []string
	}{
		{`"TimeToLiveSpecification"`, `"TimeToLiveSpecification"`, nil},
		{`"BillingMode": "PAY_PER_REQUEST"`, `"BillingMode": "PROVISIONED"`, nil},
		{`"TableName": "zae-limiter"`, `"TableName": "other"`, []string{"its name would change from zae-limiter to other"}},
		{`"KeyType": "RANGE"`, `"KeyType": "HASH"`, []string{"its key would change", "the key of index GSI1 would change"}},
		{`"AttributeType": "S"`, `"AttributeType": "N"`, []string{"the type of PK would change"}},
		{`"ProjectionType": "KEYS_ONLY"`, `"ProjectionType": "ALL"`, []string{
			"the projection of index GSI2 would change from KEYS_ONLY to ALL", "the projection of index GSI3"}},
		{`"IndexName": "GSI4"`, `"IndexName": "GSI5"`, []string{"indexes GSI4, GSI5 would be made or dropped at once"}},
	} {
		next := bytes.ReplaceAll(released, []byte(c.old), []byte(c.new))
		err := checkLosses(released, next)
		check.Equal(t, err != nil, c.want != nil, "%s -> %s: error %v", c.old, c.new, err)
		for _, want := range c.want {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s -> %s: error %v, want it to say %q", c.old, c.new, err, want)
			}
		}
	}
}

// What our templates do not say, and those of others do, cannot be changed either.
func TestUpdatesOfOtherTemplatesAreRefused(t *testing.T) {
	holding := func(kind, property, value string) []byte {
		return fmt.Appendf(nil, `{"Resources":{"It":{"Type":%q,"Properties":{%q:%s}}}}`, kind, property, value)
	}
	const bucket, table = "AWS::S3::Bucket", "AWS::DynamoDB::Table"
	types := func(a, b string) string {
		return fmt.Sprintf(`[{"AttributeName":"a","AttributeType":%q},{"AttributeName":"b","AttributeType":%q}]`, a, b)
	}
	for _, c := range []struct{ kind, property, old, new, want string }{
		{bucket, "BucketName", `"a"`, `"b"`, "bucket It: its name would change from a to b"},
		{bucket, "BucketName", `"a"`, "null", "bucket It: its name would change from a to <nil>"},
		{table, "LocalSecondaryIndexes", `[{"IndexName":"L"}]`, "[]", "table It: its local indexes would change"},
		{table, "AttributeDefinitions", types("S", "N"), types("S", "B"), "table It: the type of b would change"},
		{table, "LocalSecondaryIndexes", "null", `[{"IndexName":"L"}]`, "table It: its local indexes would change"},
	} {
		old, next := holding(c.kind, c.property, c.old), holding(c.kind, c.property, c.new)
		check.Says(t, checkLosses(old, next), c.want, "%s -> %s", old, next)
		check.NoError(t, errors.Join(checkLosses(old, old), checkLosses(old, next, "It")),
			"%s, unchanged or meant", old)
	}
}

func TestOptionsAreNoChangeOfTheRelease(t *testing.T) {
	chosen := bytes.Replace(released, []byte(`"TableName": "zae-limiter"`), []byte(`"TableName": "other"`), 1)
	check.NoError(t, checkRelease(chosen))
	if err := checkRelease(
		bytes.ReplaceAll(chosen, []byte(`"AttributeType": "S"`), []byte(`"AttributeType": "N"`))); err == nil {
		t.Error("a changed key of the release is accepted")
	}
}

// A bucket of the deployed stack may have no properties.
func TestBucketsWithoutPropertiesAreKept(t *testing.T) {
	bare := []byte(`{"Resources":{"It":{"Type":"AWS::S3::Bucket"}}}`)
	check.NoError(t, checkLosses(bare, bare))
	check.Says(t, checkLosses(bare, released), "bucket It: it would leave the stack with its contents")
}

func TestInvalidTemplatesAreRefused(t *testing.T) {
	if err := checkLosses([]byte("Resources:\n  Table:"), released); err == nil {
		t.Error("YAML is accepted")
	}
	check.NoError(t, checkLosses([]byte(`{}`), released))
}
