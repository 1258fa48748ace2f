package limitertable

import (
	"encoding/json"
	"errors"
	"flag"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

var update = flag.Bool("update", false, "take the table of the committed template over")

// The table here is the one of the template that is deployed.
func TestTableIsTheOneOfTheTemplate(t *testing.T) {
	want := golden(t)["Table"]
	delete(want, "Metadata") // for rule packs over the stack
	out, err := json.MarshalIndent(want, "", " ")
	check.Must(t, err)
	check.Golden(t, "table.json", string(out)+"\n", *update)
	if s := Deployed(); len(s.GlobalIndexes) != 4 || s.TTLAttribute != "ttl" || len(s.KeySchema) != 2 {
		t.Errorf("deployed: %+v", s)
	}
}

// A table that can do less is not accepted, and one that can do more is.
func TestCheck(t *testing.T) {
	all := &types.Projection{ProjectionType: types.ProjectionTypeAll}
	for _, tt := range []struct {
		name   string
		change func(*Spec)
		want   string // part of the error; empty: accepted
	}{
		{"as deployed", func(*Spec) {}, ""},
		{"whole items in an index", func(s *Spec) { s.GlobalIndexes[1].Projection = all }, ""},
		{"one more index", func(s *Spec) {
			s.GlobalIndexes = append(s.GlobalIndexes, types.GlobalSecondaryIndex{IndexName: aws.String("mine")})
		}, ""},
		{"provisioned", func(s *Spec) { s.BillingMode = types.BillingModeProvisioned }, ""},
		{"other key", func(s *Spec) { s.KeySchema = s.KeySchema[:1] }, "key: is PK:S HASH, must be PK:S HASH, SK:S RANGE"},
		{"number as key", func(s *Spec) { s.Attributes[0].AttributeType = "N" }, "key: is PK:N HASH"},
		{"number as key of an index", func(s *Spec) { s.Attributes[2].AttributeType = "N" },
			"key of index GSI1: is GSI1PK:N HASH, GSI1SK:S RANGE, must be GSI1PK:S HASH"},
		{"an index less", func(s *Spec) { s.GlobalIndexes = s.GlobalIndexes[:3] }, "index GSI4: is missing"},
		{"keys only", func(s *Spec) {
			s.GlobalIndexes[0].Projection = &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}
		}, "projection of index GSI1: is KEYS_ONLY, must be ALL"},
		{"some attributes", func(s *Spec) {
			s.GlobalIndexes[0].Projection = &types.Projection{ProjectionType: types.ProjectionTypeInclude,
				NonKeyAttributes: []string{"b", "a"}}
		}, "projection of index GSI1: is INCLUDE a,b, must be ALL"},
		{"one attribute", func(s *Spec) {
			s.GlobalIndexes[0].Projection = &types.Projection{ProjectionType: types.ProjectionTypeInclude,
				NonKeyAttributes: []string{"a"}}
		}, "projection of index GSI1: is INCLUDE a, must be ALL"},
		{"no projection", func(s *Spec) { s.GlobalIndexes[0].Projection = nil },
			"projection of index GSI1: is off, must be ALL"},
		{"other key of an index", func(s *Spec) { s.GlobalIndexes[2].KeySchema = s.GlobalIndexes[2].KeySchema[:1] },
			"key of index GSI3: is GSI3PK:S HASH, must be GSI3PK:S HASH, GSI3SK:S RANGE"},
		{"no stream", func(s *Spec) { s.StreamViewType = "" }, "stream: is off, must be NEW_AND_OLD_IMAGES"},
		{"nothing expires", func(s *Spec) { s.TTLAttribute = "" }, "time to live: is off, must be ttl"},
		{"expires by another", func(s *Spec) { s.TTLAttribute = "expires" }, "time to live: is expires, must be ttl"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := Deployed()
			tt.change(&is)
			err := Deployed().Check(Description{Name: "x", Spec: is})
			if tt.want == "" {
				check.NoError(t, err)
				return
			}
			diff, ok := errors.AsType[*DiffError](err)
			if !ok || len(diff.Diffs) != 1 || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one difference: %s", err, tt.want)
			}
		})
	}
}

// All differences are told at once.
func TestCheckReportsAllDifferences(t *testing.T) {
	is := Deployed()
	is.GlobalIndexes, is.StreamViewType = is.GlobalIndexes[2:], ""
	diff, _ := errors.AsType[*DiffError](Deployed().Check(Description{Name: "x", Spec: is}))
	want := []string{"index GSI1: is missing", "index GSI2: is missing", "stream: is off, must be NEW_AND_OLD_IMAGES"}
	if diff == nil || !slices.Equal(diff.Diffs, want) {
		t.Errorf("%v, want %q", diff, want)
	}
}

// What a template says is taken over; without a billing mode it is provisioned.
func TestParse(t *testing.T) {
	for text, want := range map[string]Spec{
		`{"BillingMode": "PAY_PER_REQUEST", "TimeToLiveSpecification": {"AttributeName": "ttl", "Enabled": false}}`: {
			BillingMode: types.BillingModePayPerRequest},
		`{"ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6},
			"TimeToLiveSpecification": {"AttributeName": "ttl", "Enabled": true}}`: {
			BillingMode: types.BillingModeProvisioned, Capacity: Capacity{5, 6}, TTLAttribute: "ttl"},
	} {
		if got, err := parse([]byte(text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
	_, err := parse([]byte(`{"ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5},
		"GlobalSecondaryIndexes": [{"IndexName": "GSI1",
			"ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6}}]}`))
	if err == nil || err.Error() != "index GSI1: its capacity differs from the table's" {
		t.Errorf("an index with other capacity: %v", err)
	}
}

func TestParseRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, text := range []string{
		`{"BillingMode": "PROVISIONED"}`,
		`{"ProvisionedThroughput": {"ReadCapacityUnits": 0, "WriteCapacityUnits": 5}}`,
		`{"ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}, "GlobalSecondaryIndexes": [{}]}`,
		`{}`, `{"BillingMode": "PAY_PER_REQUEST", "Novelty": 1}`, `[]`,
		`{"BillingMode": "PAY_PER_REQUEST", "GlobalSecondaryIndexes": [{"IndexName": "GSI2", "Novelty": 1}]}`,
	} {
		if s, err := parse([]byte(text)); err == nil {
			t.Errorf("%s is accepted: %+v", text, s)
		}
	}
}

// The capacity is that of the table and of each index, in the template and in the call.
func TestProvisioned(t *testing.T) {
	want := Capacity{ReadUnits: 5, WriteUnits: 5}
	table := template(t, "../infra/cdk/app/testdata/provisioned.golden.json")["Table"]
	parsed, err := parse(indented(t, table["Properties"]))
	check.Must(t, err)
	made, err := Deployed().Provisioned(want)
	if err != nil || !reflect.DeepEqual(parsed, made) || parsed.Capacity != want {
		t.Errorf("made %+v, %v\nof the template %+v", made, err, parsed)
	}
	in := made.createInput("x")
	if in.BillingMode != types.BillingModeProvisioned || capacityOf(in.ProvisionedThroughput) != want {
		t.Errorf("the call has %v, %v", in.BillingMode, in.ProvisionedThroughput)
	}
	for _, i := range in.GlobalSecondaryIndexes {
		if i.ProvisionedThroughput == nil || capacityOf(i.ProvisionedThroughput) != want {
			t.Errorf("index %s has %v", *i.IndexName, i.ProvisionedThroughput)
		}
	}
	if in := Deployed().createInput("x"); in.ProvisionedThroughput != nil ||
		in.GlobalSecondaryIndexes[0].ProvisionedThroughput != nil {
		t.Errorf("on demand: %+v", in)
	}
	for c, name := range map[Capacity]string{{}: "ReadUnits=0", {5, 0}: "WriteUnits=0", {-1, 5}: "ReadUnits=-1",
		{5, 1_000_001}: "WriteUnits=1000001"} {
		_, err := Deployed().Provisioned(c)
		check.Says(t, err, name+": accepted: a whole number from 1 to 1000000", "%+v", c)
	}
	for _, c := range []Capacity{{1, 1_000_000}, {1_000_000, 1}} {
		if s, err := Deployed().Provisioned(c); err != nil || s.Capacity != c {
			t.Errorf("%+v: %+v, %v", c, s.Capacity, err)
		}
	}
}
