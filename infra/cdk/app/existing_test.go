package main

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// A table made elsewhere that the functions could not work with is refused before anything is deployed, if
// it can be looked at.
func TestTablesMadeElsewhereAreLookedAt(t *testing.T) {
	const arn = "arn:aws:dynamodb:eu-west-1:" + account + ":table/zae-limiter"
	const stream = arn + "/stream/2026-01-01T00:00:00.000"
	properties := golden.one(t, "AWS::DynamoDB::Table", "Table").Properties
	was := properties["StreamSpecification"]
	properties["TableArn"], properties["LatestStreamArn"] = arn, stream
	properties["StreamSpecification"] = map[string]any{"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}
	fits := text(t, properties)
	delete(properties, "TableArn")
	delete(properties, "LatestStreamArn")
	properties["StreamSpecification"] = was
	for _, c := range []struct{ what, table, stream, want string }{
		{"as it must be", fits, stream, ""},
		{"keys only", strings.Replace(fits, "NEW_AND_OLD_IMAGES", "KEYS_ONLY", 1), stream,
			"stream: is KEYS_ONLY, must be NEW_AND_OLD_IMAGES"},
		{"without an index", strings.Replace(fits, `"IndexName":"GSI3"`, `"IndexName":"Mine"`, 1), stream,
			"index GSI3: is missing"},
		{"a stream that is over", fits, arn + "/stream/2025-01-01T00:00:00.000", "writes to " + stream},
		{"not there, or not to be looked at", "", stream, ""},
		{"none", "", "", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			cloudWithTable(t, account, "", nil, c.table, `[]`)
			o := options{StackName: "zae-limiter-go", ExistingStreamARN: c.stream}
			check.Says(t, checkUpdate(t.Context(), o, bare.text), c.want)
		})
	}
}
