package main

import "testing"

// Status tells of a table what is right, and of one that is not, what is wrong.
func TestStatus(t *testing.T) {
	aws := &anAWS{there: true, expires: true, mapping: "Enabled"}
	s := onAWS(t, aws)
	s.says(0, "status", "ACTIVE", "as it must be", "schema 0.9.0", "default",
		"ENABLED NEW_AND_OLD_IMAGES, 2 shards, 1 of", `function aggregator Enabled last result "OK", lag 1.5s, 2 errors, 2 throttles`)
	out, _ := s.run(0, "status", "-o", "json")
	golden(t, "testdata/status.json", out)
	aws.mapping = "Disabled"
	s.says(3, "status", "function aggregator Disabled", "not right: function aggregator")
	aws.mapping = ""
	s.says(0, "status", "nothing reads the stream")
	aws.bare = true
	s.says(3, "status", "index GSI1: is missing", "stream none off", "no usage, no archive")
	aws.there = false
	s.says(1, "status", "There is no table", "zae-limiter table create")
	aws.denied = true
	s.says(1, "status", "The credentials do not allow this")
}

// Replay says what to do where there is no stack.
func TestReplayWithoutAStack(t *testing.T) {
	s := onAWS(t, &anAWS{})
	s.says(1, "replay", `stack "zae-limiter-go"`, "without the stack of infra/cdk nothing is given up")
	s.says(2, "replay now", "want: zae-limiter replay")
}
