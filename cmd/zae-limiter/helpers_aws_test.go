package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/smithy-go/encoding/cbor"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

const (
	tableARN  = "arn:aws:dynamodb:us-east-1:123456789012:table/zae-limiter"
	streamARN = tableARN + "/stream/2026-01-01"
)

// anAWS answers as AWS documents it what the commands ask about the table itself and its
// functions. What is in the table is asked of the table in memory.
type anAWS struct {
	*testing.T
	There, Bare, Expires bool // the table: it exists; without indexes and stream; its items expire
	Streamless           bool // the table has no stream
	Protected, Kept      bool // from deletion; and it can be restored
	Replicas             []string
	Mapping              string // state of the aggregator's mapping; empty: there is none
	Denied               string // what is not allowed: an operation, "all", or empty
	State                string // of the table; empty: ACTIVE
	Quiet                bool   // CloudWatch has seen nothing
	Created              struct {
		BillingMode           string
		ProvisionedThroughput map[string]any
	}
}

// onAWS has the SDK ask an AWS.
func onAWS(t *testing.T, a *anAWS) *shell {
	anyCredentials(t)
	a.T = t
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", server.URL)
	s := newShell(t)
	s.aws = a
	return s
}

func (a *anAWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch {
	case a.Denied == "all", a.Denied != "" && (a.Denied == operation || strings.Contains(r.URL.Path, a.Denied)):
		a.refuse(w, "AccessDeniedException")
	case operation != "":
		a.dynamoDB(w, r, operation)
	case strings.HasPrefix(r.URL.Path, "/2015-03-31/event-source-mappings"):
		a.lambda(w, r)
	case strings.HasSuffix(r.URL.Path, "/operation/GetMetricStatistics"):
		a.cloudWatch(w, r)
	default:
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "Action=DescribeStacks") {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, "<ErrorResponse><Error><Code>ValidationError</Code></Error></ErrorResponse>")
			return
		}
		a.Errorf("AWS is asked %s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusNotImplemented)
	}
}

func (a *anAWS) refuse(w http.ResponseWriter, code string) {
	w.Header().Set("X-Amzn-Errortype", code)
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"__type": %q}`, code)
}

// cloudWatch answers with figures of the aggregator within the last quarter of an hour.
func (a *anAWS) cloudWatch(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	in, err := cbor.Decode(body)
	asked, ok := in.(cbor.Map)
	if err != nil || !ok {
		a.Errorf("CloudWatch is asked %q: %v", body, err)
		return
	}
	seconds := func(name string) cbor.Float64 {
		tag, _ := asked[name].(*cbor.Tag)
		at, _ := tag.Value.(cbor.Float64)
		return at
	}
	of := fmt.Sprintf("%v of %v %v %v, period %v, %.0f s", asked["Statistics"], asked["Namespace"], asked["MetricName"],
		asked["Dimensions"], asked["Period"], seconds("EndTime")-seconds("StartTime"))
	const function = " [map[Name:FunctionName Value:aggregator]], period 900, 900 s"
	figures, ok := map[string]cbor.List{
		"[Maximum] of AWS/Lambda IteratorAge" + function: {
			cbor.Map{"Maximum": cbor.Float64(1500)}, cbor.Map{"Maximum": cbor.Float64(20)}},
		"[Sum] of AWS/Lambda Errors" + function:    {cbor.Map{"Sum": cbor.Float64(2)}},
		"[Sum] of AWS/Lambda Throttles" + function: {cbor.Map{"Sum": cbor.Float64(3)}},
	}[of]
	if !ok {
		a.Errorf("CloudWatch is asked for the %s", of)
	}
	if a.Quiet {
		figures = nil
	}
	w.Header().Set("Content-Type", "application/cbor")
	w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
	_, _ = w.Write(cbor.Encode(cbor.Map{"Datapoints": figures}))
}

func (a *anAWS) dynamoDB(w http.ResponseWriter, r *http.Request, operation string) {
	var answer any
	switch operation {
	case "CreateTable":
		if a.There {
			a.refuse(w, "ResourceInUseException")
			return
		}
		a.There = true
		check.NoError(a, json.NewDecoder(r.Body).Decode(&a.Created))
		answer = map[string]any{"TableDescription": a.table()}
	case "DescribeTable":
		if !a.There {
			a.refuse(w, "ResourceNotFoundException")
			return
		}
		answer = map[string]any{"Table": a.table()}
	case "UpdateTable":
		var in struct {
			DeletionProtectionEnabled bool
			StreamSpecification       struct{ StreamEnabled bool }
		}
		check.NoError(a, json.NewDecoder(r.Body).Decode(&in))
		a.Protected = a.Protected || in.DeletionProtectionEnabled
		a.Streamless = a.Streamless && !in.StreamSpecification.StreamEnabled
		answer = map[string]any{}
	case "UpdateContinuousBackups":
		a.Kept = true
		answer = map[string]any{}
	case "DescribeContinuousBackups":
		status := map[bool]string{true: "ENABLED", false: "DISABLED"}[a.Kept]
		answer = map[string]any{"ContinuousBackupsDescription": map[string]any{
			"PointInTimeRecoveryDescription": map[string]any{"PointInTimeRecoveryStatus": status}}}
	case "UpdateTimeToLive":
		a.Expires = true
		answer = map[string]any{}
	case "DescribeTimeToLive":
		ttl := map[string]any{"TimeToLiveStatus": "DISABLED"}
		if a.Expires {
			ttl = map[string]any{"TimeToLiveStatus": "ENABLED", "AttributeName": limitertable.Deployed().TTLAttribute}
		}
		answer = map[string]any{"TimeToLiveDescription": ttl}
	case "DescribeStream":
		var in struct{ ExclusiveStartShardId string }
		check.NoError(a, json.NewDecoder(r.Body).Decode(&in))
		stream := map[string]any{"StreamStatus": "ENABLED", "LastEvaluatedShardId": "2", "Shards": []any{
			map[string]any{"ShardId": "1", "SequenceNumberRange": map[string]any{"EndingSequenceNumber": "9"}},
			map[string]any{"ShardId": "2a", "SequenceNumberRange": map[string]any{}},
			map[string]any{"ShardId": "2", "SequenceNumberRange": map[string]any{}},
		}}
		if in.ExclusiveStartShardId == "2" {
			stream = map[string]any{"StreamStatus": "ENABLED", "Shards": []any{map[string]any{"ShardId": "3"}}}
		}
		answer = map[string]any{"StreamDescription": stream}
	default:
		a.Errorf("DynamoDB is asked %s", operation)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	check.NoError(a, json.NewEncoder(w).Encode(answer))
}

// table is the table as DescribeTable has it.
func (a *anAWS) table() map[string]any {
	spec := limitertable.Deployed()
	out := map[string]any{
		"TableName": "zae-limiter", "TableArn": tableARN, "TableStatus": cmp.Or(a.State, "ACTIVE"),
		"ItemCount": 3, "TableSizeBytes": 1000,
		"BillingModeSummary": map[string]any{"BillingMode": spec.BillingMode}, "KeySchema": spec.KeySchema,
		"AttributeDefinitions": spec.Attributes,
	}
	if a.Created.ProvisionedThroughput != nil {
		out["BillingModeSummary"], out["ProvisionedThroughput"] = nil, a.Created.ProvisionedThroughput
	}
	out["DeletionProtectionEnabled"] = a.Protected
	var replicas []any
	for _, region := range a.Replicas {
		replicas = append(replicas, map[string]any{"RegionName": region})
	}
	out["Replicas"] = replicas
	if !a.Bare {
		out["GlobalSecondaryIndexes"] = spec.GlobalIndexes
	}
	if !a.Bare && !a.Streamless {
		out["StreamSpecification"] = map[string]any{"StreamEnabled": true, "StreamViewType": spec.StreamViewType}
		out["LatestStreamArn"] = streamARN
	}
	return out
}

func (a *anAWS) lambda(w http.ResponseWriter, r *http.Request) {
	check.Equal(a, r.URL.Query().Get("EventSourceArn"), streamARN, "Lambda is asked for the mappings of")
	all := []map[string]any{}
	if a.Mapping != "" {
		all = append(all, map[string]any{"UUID": "u", "State": a.Mapping, "LastProcessingResult": "OK",
			"FunctionArn": "arn:aws:lambda:us-east-1:123456789012:function:aggregator:live"})
	}
	check.NoError(a, json.NewEncoder(w).Encode(map[string]any{"EventSourceMappings": all}))
}
