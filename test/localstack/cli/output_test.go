package cli

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// With -o json every result and every error is JSON.
func TestEverythingInJSON(t *testing.T) {
	s := onTable(t)
	for _, command := range []string{
		"limits set -y -r api rpm=10", "limits get -r api", "limits list", "limits resolve acme api", "limits reach",
		"policy set --on-unavailable allow", "policy get", "entity create acme", "entity get acme",
		"entity children acme", "namespace register other", "namespace list", "namespace delete other", "peek acme api",
		"usage -e acme", "usage -e acme -w hourly --sum", "audit", "table describe", "table check", "status",
		"limits delete -r api -y", "entity delete acme --yes",
	} {
		out, _ := s.run(0, append(strings.Fields(command), "-o", "json")...)
		if !json.Valid([]byte(out)) {
			t.Errorf("zae-limiter %s -o json: %q", command, out)
		}
	}
	for command, status := range map[string]int{"limits get -r none -o json": 1, "limits set -o json": 2,
		"peek a b -o json": 3} {
		out, errs := s.run(status, strings.Fields(command)...)
		var told struct {
			Error, Advice string
			Status        int
		}
		if err := json.Unmarshal([]byte(errs), &told); err != nil || out != "" || told.Status != status || told.Error == "" {
			t.Errorf("zae-limiter %s: %v\n%q\n%q", command, err, out, errs)
		}
	}
}

// What programs read keeps its names: the keys of every result, in order, however deep.
func TestKeysOfJSON(t *testing.T) {
	s := onTable(t)
	s.run(0, "limits", "set", "-y", "-e", "key", "rpm=10/m:20")
	s.run(0, "entity", "create", "acme", "--name", "Acme")
	for command, want := range map[string]string{
		"limits list":            "entity limits capacity name refill_amount refill_period",
		"limits resolve key api": "from entity limits capacity name refill_amount refill_period shadowed",
		"peek key api": "cascade entity exists levels capacity full_in_seconds name refill_amount refill_period remaining " +
			"used limits_from resource shards",
		"policy get":      "audit_retention_days on_unavailable",
		"entity get acme": "cascade created_at id name",
		"namespace list":  "created_at id name status",
		"audit -e key":    "action at details limits capacity name refill_amount refill_period_seconds entity id resource",
		"table describe":  "arn billing bytes indexes items status stream stream_arn table ttl_attribute",
		"status": "ok parts detail figures arn billing bytes items name part state client_min schema names " +
			"open_shards shards view",
		"cost --rate 1":   "dollars kind part units",
		"limits reach":    "buckets changed",
		"reset key api":   "added",
		"usage -e nobody": "",
	} {
		out, _ := s.run(0, append(strings.Fields(command), "-o", "json")...)
		var v any
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if got := strings.Join(keys(v, map[string]bool{}), " "); got != want {
			t.Errorf("zae-limiter %s -o json has the keys\n%s\nwant\n%s", command, got, want)
		}
	}
}

// keys returns the keys of objects, those of each in order of name, each once.
func keys(v any, seen map[string]bool) (out []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			out = append(out, keys(e, seen)...)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if !seen[k] {
				seen[k] = true
				out = append(out, k)
			}
			out = append(out, keys(v[k], seen)...)
		}
	}
	return out
}

// The shell is offered commands, and the values of flags.
func TestCompletion(t *testing.T) {
	s := &shell{T: t, env: []string{"HOME=" + t.TempDir()}}
	for _, name := range []string{"bash", "zsh", "fish", "powershell"} {
		s.says(0, "completion "+name, "zae-limiter")
	}
	out, _ := s.run(0, "__complete", "usage", "--window", "")
	if !strings.HasPrefix(out, "hourly\ndaily\nmonthly\n") {
		t.Errorf("values of --window: %q", out)
	}
	if out, _ := s.run(0, "__complete", "limits", "re"); !strings.Contains(out, "resolve\t") {
		t.Errorf("commands: %q", out)
	}
}

// Templates and policies are printed without a table, or for the one that is there.
func TestTemplatesAndPolicies(t *testing.T) {
	s := &shell{T: t, env: []string{"HOME=" + t.TempDir(), "AWS_EC2_METADATA_DISABLED=true"}}
	out, _ := s.run(0, "table", "template", "cloudformation")
	if !json.Valid([]byte(out)) || !strings.Contains(out, "AWS::DynamoDB::Table") {
		t.Errorf("template: %s", out)
	}
	s.says(0, "table template terraform", `resource "aws_dynamodb_table" "limiter"`, `"namespace-read" = {`)
	s.says(0, "cost --rate 100 --limits-in-code --windows 0 --table-only", "acquire 262.8 M write units 164.25", "sum")
	s.says(2, "cost", "want --rate above 0")
	s.says(2, "table template pulumi", "accepted are cloudformation and terraform")
	s.says(2, "table policy write", "accepted are acquire, admin, read")
	s.says(0, "table policy acquire --arn arn:aws:dynamodb:eu-west-1:123456789012:table/x", "dynamodb:UpdateItem",
		`"Resource": "arn:aws:dynamodb:eu-west-1:123456789012:table/x"`)
	s.says(1, "table policy read --arn table/x", "want one like arn:aws:dynamodb")
}
