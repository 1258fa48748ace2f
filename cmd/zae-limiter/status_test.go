package main

import (
	"encoding/json"
	"testing"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

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

// Status goes on where the content of the table cannot be read, and says so.
func TestStatusOfWhatIsInTheTable(t *testing.T) {
	type shownPart struct {
		Part, Name, State, Detail string
		OK                        bool
	}
	content := func(s *shell) (version, spaces shownPart) {
		t.Helper()
		out, errs, code := s.end("status", "-o", "json")
		var got struct{ Parts []shownPart }
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Parts) < 2 {
			t.Fatalf("%d, %v\n%s%s", code, err, out, errs)
		}
		for _, p := range got.Parts {
			switch p.Part {
			case "version":
				version = p
			case "namespaces":
				spaces = p
			}
		}
		return version, spaces
	}
	s := onAWS(t, &anAWS{there: true, expires: true})
	fresh := &shell{T: t, table: limitertest.New(t)}
	version, spaces := content(fresh)
	if want := (shownPart{"version", "schema", "none", "nobody has opened the table yet", true}); version != want {
		t.Errorf("a fresh table: %+v", version)
	}
	none := shownPart{"namespaces", "0", "none", "zae-limiter namespace register default makes one", true}
	if spaces != none {
		t.Errorf("a fresh table: %+v", spaces)
	}
	s.table.Trouble(limitertest.Trouble{Operations: []string{"Query"}, Err: limiter.ErrUnavailable})
	if _, spaces = content(s); spaces.OK || spaces.State != "unknown" || spaces.Detail == "" {
		t.Errorf("namespaces that cannot be listed: %+v", spaces)
	}
	s.table.Trouble(limitertest.Trouble{Operations: []string{"BatchGetItem"}, Err: limiter.ErrUnavailable})
	if version, _ = content(s); version.OK || version.State != "unusable" || version.Name != "zae-limiter" {
		t.Errorf("a table that cannot be opened: %+v", version)
	}
	s.says(3, "status", "PART NAME STATE DETAIL")
	s.table.Trouble()
	s.run(0, "namespace", "register", "prod")
	if _, spaces = content(s); spaces.Name != "2" || spaces.Detail != "default, prod" || !spaces.OK {
		t.Errorf("two namespaces: %+v", spaces)
	}
}

// Replay says what to do where there is no stack.
func TestReplayWithoutAStack(t *testing.T) {
	s := onAWS(t, &anAWS{})
	s.says(1, "replay", `stack "zae-limiter-go"`, "without the stack of infra/cdk nothing is given up")
	s.says(2, "replay now", "want: zae-limiter replay")
}
