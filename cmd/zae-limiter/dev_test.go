package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The line that dev prints gives a shell the environment, whatever is in it, and is of no
// use any more when dev has ended.
func TestAShellTakesTheLineOfDev(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	a := &app{out: &out, format: "table", table: "mine", namespace: "team a"}
	forget, err := a.printEnvironment([]variable{{"ZAEL_STACK", "mine"}, {"ZAEL_NAMESPACE", "team's $HOME `x`"}})
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^\. .*$`).FindString(out.String())
	shell := func() (string, error) {
		said, err := exec.Command("sh", "-c", line+` && printf %s "$ZAEL_STACK, $ZAEL_NAMESPACE"`).Output()
		return string(said), err
	}
	if said, err := shell(); err != nil || said != "mine, team's $HOME `x`" {
		t.Errorf("%q: %q, %v", line, said, err)
	}
	forget()
	if said, err := shell(); err == nil {
		t.Errorf("after its end the line still sets %q", said)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// On a table of dev no stack of AWS is asked for what was given up.
func TestReplayOfALocalTable(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local",
		"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:1", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	a := &app{}
	cfg, err := a.awsConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !a.local(cfg) {
		t.Error("at 127.0.0.1: not local")
	}
	a.endpoint = "https://vpce-1.dynamodb.us-east-1.vpce.amazonaws.com"
	if a.local(cfg) {
		t.Error("at an interface endpoint: local")
	}
	a.endpoint = ""
	t.Setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", "http://127.0.0.1:1")
	if cfg, err = a.awsConfig(t.Context()); err != nil || a.local(cfg) {
		t.Errorf("with a CloudFormation beside it: local, %v", err)
	}
}
