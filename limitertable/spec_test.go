package limitertable

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var update = flag.Bool("update", false, "take the table of the committed template over")

// The table here is the one of the template that is deployed.
func TestTableIsTheOneOfTheTemplate(t *testing.T) {
	text, err := os.ReadFile("../infra/cdk/template.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var template struct{ Resources map[string]map[string]any }
	if err := json.Unmarshal(text, &template); err != nil {
		t.Fatal(err)
	}
	var want []map[string]any
	for _, r := range template.Resources {
		if r["Type"] == "AWS::DynamoDB::Table" {
			delete(r, "Metadata") // for rule packs over the stack
			want = append(want, r)
		}
	}
	if len(want) != 1 {
		t.Fatalf("the template has %d tables", len(want))
	}
	if *update {
		out, err := json.MarshalIndent(want[0], "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("table.json", append(out, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	var got map[string]any
	if err := json.Unmarshal(resource, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want[0]) {
		t.Error("table.json is not the table of the template: go test ./limitertable -update")
	}
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
		{"an index less", func(s *Spec) { s.GlobalIndexes = s.GlobalIndexes[:3] }, "index GSI4: is missing"},
		{"keys only", func(s *Spec) {
			s.GlobalIndexes[0].Projection = &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}
		}, "projection of index GSI1: is KEYS_ONLY, must be ALL"},
		{"no stream", func(s *Spec) { s.StreamViewType = "" }, "stream: is off, must be NEW_AND_OLD_IMAGES"},
		{"nothing expires", func(s *Spec) { s.TTLAttribute = "" }, "time to live: is off, must be ttl"},
		{"expires by another", func(s *Spec) { s.TTLAttribute = "expires" }, "time to live: is expires, must be ttl"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := Deployed()
			tt.change(&is)
			err := Deployed().Check(Description{Name: "x", Spec: is})
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			diff, ok := errors.AsType[*DiffError](err)
			if !ok || len(diff.Diffs) != 1 || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one difference: %s", err, tt.want)
			}
		})
	}
}

func TestParseRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, text := range []string{
		`{"BillingMode": "PROVISIONED"}`, `{}`, `{"BillingMode": "PAY_PER_REQUEST", "Novelty": 1}`, `[]`,
	} {
		if s, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s is accepted: %+v", text, s)
		}
	}
}
