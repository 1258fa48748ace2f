package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// What is wrong with a command is told before anything is asked of AWS.
func TestWrongCommands(t *testing.T) {
	noAWS(t)
	s := &shell{T: t}
	s.says(2, "limit", "there is no command", "limits")
	s.says(2, "limits sett", "set")
	s.says(2, "limits set", "want: zae-limiter limits set")
	s.says(2, "limits set rpm", "like rpm=600")
	s.says(2, "limits delete", "--everybody")
	s.says(2, "limits set rpm=1", "--everybody")
	s.says(2, "limits set -e acme --everybody rpm=1", "acme/* is named")
	s.says(2, "limits list --nonsense", "unknown flag", "--help")
	s.says(2, "limits list -o xml", "accepted are table, csv and json")
	s.says(2, "credit acme gpt-4 rpm", "like tpm=5000")
	s.says(2, "audit -e a -r b", "either")
	s.says(2, "audit --all -e a", "--all lists everything")
	s.says(2, "entity move a", "--parent or --no-parent?")
	s.says(2, "entity move a --parent b --no-parent", "--parent or --no-parent?")
	s.says(2, "audit --from yesterday", "yesterday", "want dates like")
	s.says(1, "limits list", "Set AWS_REGION")
	t.Setenv("AWS_REGION", "us-east-1")
	s.says(1, "limits list", "No AWS credentials were found")
	s.says(0, "", "Available Commands")
	s.says(0, "completion bash", "zae-limiter")
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	s.says(1, "limits list --endpoint-url http://127.0.0.1:1", "Is DynamoDB reachable?")
}

// With -o json errors are JSON, on the standard error.
func TestErrorsInJSON(t *testing.T) {
	s := newShell(t)
	for command, status := range map[string]int{
		"limits get -r none -o json": 1, "limits set -o json": 2, "peek a b -o json": 3,
	} {
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

// The shell is offered commands, and the values of flags.
func TestCompletion(t *testing.T) {
	s := &shell{T: t}
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
