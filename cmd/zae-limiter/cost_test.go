package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/pricing"
)

// costs runs the command, and returns its lines by part.
func costs(t *testing.T, flags string) (map[string]pricing.Line, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := root(&app{out: &out, errs: &out})
	cmd.SetArgs(append([]string{"cost", "-o", "json"}, strings.Fields(flags)...))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		return nil, err
	}
	var lines []pricing.Line
	if err := json.Unmarshal(out.Bytes(), &lines); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	parts := map[string]pricing.Line{}
	for _, l := range lines {
		parts[l.Part] = l
	}
	return parts, nil
}

// The tool prints the bill of the default stack, of the table alone, of provisioned
// capacity and of a template.
func TestCost(t *testing.T) {
	const example = "--rate 10 --settle 1 --processes 4 --entities 200"
	var err error
	alone := filepath.Join(t.TempDir(), "alone.json")
	const template = `{"Resources":{"T":{"Type":"AWS::DynamoDB::Table","Properties":{"BillingMode":"PAY_PER_REQUEST"}}}}`
	check.Must(t, os.WriteFile(alone, []byte(template), 0o600))
	got := map[string]map[string]pricing.Line{}
	for name, flags := range map[string]string{
		"default": "", "table": "--table-only", "provisioned": "--provisioned --utilization 0.7",
		"template": "--template ../../infra/cdk/app/template.golden.json",
		"bare":     "--template ../../infra/cdk/app/testdata/bare.golden.json",
		"alone":    "--template " + alone,
	} {
		if got[name], err = costs(t, example+" "+flags); err != nil {
			t.Fatal(err)
		}
	}
	check.Equal(t, math.Round(got["table"]["sum"].Dollars), 47, "the example costs $")
	if a, b := got["default"]["sum"], got["template"]["sum"]; a != b || a.Dollars < got["table"]["sum"].Dollars+10 {
		t.Errorf("the default costs %v, its template %v", a, b)
	}
	if p := got["provisioned"]; p["write capacity not used"].Dollars == 0 || p["acquire"].Dollars > 5 {
		t.Errorf("provisioned: %v", p)
	}
	if b := got["bare"]; b["alarms"].Units != 0 || b["acquire"].Units != 0 || b["invocations"].Units == 0 {
		t.Errorf("a stack without table and alarms: %v", b)
	}
	if a := got["alone"]; a["acquire"] != got["table"]["acquire"] || a["usage"].Units != 0 {
		t.Errorf("a table without usage: %v", a)
	}
	other := filepath.Join(t.TempDir(), "other.json")
	check.Must(t, os.WriteFile(other, []byte(`{"Resources":{"A":{"Type":"AWS::Neptune::DBCluster"}}}`), 0o600))
	if _, err := costs(t, example+" --template "+other); err == nil ||
		!strings.Contains(err.Error(), "nothing is known of the price of AWS::Neptune::DBCluster") {
		t.Errorf("a stack of other things: %v", err)
	}
}
