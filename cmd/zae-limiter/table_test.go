package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/limitertable"
)

// Templates and policies are printed without a table, or for the one that is there.
func TestTemplatesAndPolicies(t *testing.T) {
	s := &shell{T: t}
	out, _ := s.run(0, "table", "template", "cloudformation")
	if !json.Valid([]byte(out)) || !strings.Contains(out, "AWS::DynamoDB::Table") {
		t.Errorf("template: %s", out)
	}
	s.says(0, "table template terraform", `resource "aws_dynamodb_table" "limiter"`, `"namespace-read" = {`)
	const arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/x"
	all, err := limitertable.Policies(arn)
	names := tablePolicy(&app{}).ValidArgs
	if err != nil || len(names) != len(all) {
		t.Errorf("%d policies, %v, and the tool knows %q", len(all), err, names)
	}
	for _, name := range names {
		s.says(0, "table policy "+name+" --arn "+arn, `"Resource": "`+arn+`"`)
	}
}

// A table has the capacity that was asked for, or is not made.
func TestTableOfSoMuchCapacity(t *testing.T) {
	aws := &anAWS{}
	s := onAWS(t, aws)
	s.says(1, "table create --read-units 5", "WriteUnits=0: accepted: a whole number from 1 to")
	if aws.There {
		t.Error("it is made without a capacity of writes")
	}
	s.run(0, "table", "create", "--read-units", "5", "--write-units", "7")
	units := aws.Created.ProvisionedThroughput
	if units["ReadCapacityUnits"] != 5. || units["WriteCapacityUnits"] != 7. || aws.Created.BillingMode != "PROVISIONED" {
		t.Errorf("created: %+v", aws.Created)
	}
}
