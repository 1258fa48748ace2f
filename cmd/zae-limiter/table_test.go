package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
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

// A table is created once, described, and told from one that lacks something.
func TestTable(t *testing.T) {
	aws := &anAWS{}
	s := onAWS(t, aws)
	s.says(1, "table describe", "There is no table", "zae-limiter table create")
	s.says(1, "table check", "There is no table")
	s.says(0, "table create", "ACTIVE", "NEW_AND_OLD_IMAGES", "ttl")
	if !aws.there || !aws.expires {
		t.Errorf("created: %+v", aws)
	}
	s.says(0, "table create", "ACTIVE")
	s.says(0, "table check", "TABLE STATUS BILLING INDEXES STREAM EXPIRES BY ITEMS BYTES "+
		"zae-limiter ACTIVE PAY_PER_REQUEST 4 NEW_AND_OLD_IMAGES ttl 3 1000")
	out, _ := s.run(0, "table", "describe", "-o", "json")
	check.Golden(t, "testdata/table.json", out, *update)
	s.says(0, "table policy read", tableARN)
	aws.bare = true
	s.says(3, "table check", "index GSI1: is missing", "stream: is off")
}

// A restored table gets what it lacks, in every order of failures; one of another shape is left alone.
func TestRepairOfATable(t *testing.T) {
	aws := &anAWS{}
	s := onAWS(t, aws)
	s.says(1, "table repair", "There is no table")
	aws.there, aws.streamless = true, true
	s.says(3, "table check", "stream: is off", "time to live: is off")
	aws.denied = "UpdateContinuousBackups"
	s.says(1, "table repair", "deletion protection switched on", "stream switched on",
		"point-in-time recovery not looked at, or not switched on", "The credentials do not allow this")
	aws.denied = ""
	s.says(0, "table repair", "PART STATE deletion protection was on time to live was on stream was on "+
		"point-in-time recovery switched on stream ARN "+streamARN)
	out, _ := s.run(0, "table", "repair", "-o", "json")
	if !strings.Contains(out, `"repaired": []`) || !strings.Contains(out, `"stream_arn": "`+streamARN) {
		t.Error(out)
	}
	if !aws.protected || !aws.expires || aws.streamless || !aws.kept {
		t.Errorf("%+v", aws)
	}
	s.says(0, "table check")
	aws.expires = false
	s.says(0, "table repair", "deletion protection was on time to live switched on stream was on "+
		"point-in-time recovery was on")
	aws.bare = true
	s.says(3, "table repair", "index GSI1: is missing")
}

// A table has the capacity that was asked for, or is not made.
func TestTableOfSoMuchCapacity(t *testing.T) {
	aws := &anAWS{}
	s := onAWS(t, aws)
	s.says(1, "table create --read-units 5", "WriteUnits=0: accepted: a whole number from 1 to")
	if aws.there {
		t.Error("it is made without a capacity of writes")
	}
	s.run(0, "table", "create", "--read-units", "5", "--write-units", "7")
	units := aws.created.ProvisionedThroughput
	if units["ReadCapacityUnits"] != 5. || units["WriteCapacityUnits"] != 7. || aws.created.BillingMode != "PROVISIONED" {
		t.Errorf("created: %+v", aws.created)
	}
}
