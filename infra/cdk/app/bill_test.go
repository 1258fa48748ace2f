package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/pricing"
)

// use has something of everything that is billed by use.
var use = pricing.Use{Rate: 100, Settled: 1, Levels: 2, Processes: 10, Entities: 200, Windows: 3, FoldSeconds: 60,
	SnapshotDays: 90, StreamShards: 4, Audits: 1000, Utilization: 0.5}

// TestBillIsOfTheTemplate: each type of resource is priced or known to be free; without the
// resources of a type that is priced the bill has less in it, without those of one that is
// free it is the same; and each line is of something that is there.
func TestBillIsOfTheTemplate(t *testing.T) {
	for name, text := range map[string][]byte{"default": golden.text, "every option": changed.text, "bare": bare.text,
		"provisioned": provisioned.text} {
		all := month(t, text, "")
		types := typesOf(t, text)
		for _, kind := range types {
			less := pricing.Sum(all) - pricing.Sum(month(t, text, kind))
			lines := len(all) - len(month(t, text, kind))
			if free := slices.Contains(pricing.Free(), kind); free != (less == 0 && lines == 0) {
				t.Errorf("%s: without %s the bill has %d lines and %.4f dollars less, known to be free: %v", name, kind, lines,
					less, free)
			}
		}
		for _, l := range all {
			keys := l.Of == "AWS::KMS::Key" && strings.Contains(string(text), `"KMSMasterKeyId"`) // made elsewhere
			if !slices.Contains(types, l.Of) && !keys {
				t.Errorf("%s: the bill has %q of %s, of which the template has none", name, l.Part, l.Of)
			}
		}
	}
}

// month returns the bill of a template without the resources of a type.
func month(t *testing.T, text []byte, without string) []pricing.Line {
	t.Helper()
	var doc struct{ Resources map[string]map[string]any }
	check.Must(t, json.Unmarshal(text, &doc))
	for id, r := range doc.Resources {
		if r["Type"] == without {
			delete(doc.Resources, id)
		}
	}
	left, err := json.Marshal(doc)
	check.Must(t, err)
	stack, err := pricing.Of(left)
	check.Must(t, err)
	return pricing.Month(use, stack)
}

func typesOf(t *testing.T, text []byte) (types []string) {
	t.Helper()
	var doc struct{ Resources map[string]resource }
	check.Must(t, json.Unmarshal(text, &doc))
	for _, r := range doc.Resources {
		if !slices.Contains(types, r.Type) {
			types = append(types, r.Type)
		}
	}
	return types
}

// TestPropertiesThatCost: what a property costs leaves the bill with it.
func TestPropertiesThatCost(t *testing.T) {
	for property, part := range map[string]string{
		`"PointInTimeRecoveryEnabled": true`: "point-in-time recovery", `"EventCount"`: "metrics of mappings",
		`"Mode": "Active"`: "traces", `"ProjectionType": "ALL"`: "whole items in GSI2", `"KMSMasterKeyId"`: "keys",
	} {
		text := strings.ReplaceAll(string(changed.text), property, map[string]string{
			`"EventCount"`: "", `"KMSMasterKeyId"`: `"None"`,
		}[property])
		if part != "metrics of mappings" && part != "keys" {
			text = strings.ReplaceAll(string(changed.text), property, strings.NewReplacer("true", "false", "Active",
				"PassThrough", "ALL", "KEYS_ONLY").Replace(property))
		}
		if with, less := units(t, changed.text, part), units(t, []byte(text), part); with == 0 || less >= with {
			t.Errorf("%s: %g of %q, without it %g", property, with, part, less)
		}
	}
}

func units(t *testing.T, text []byte, part string) float64 {
	t.Helper()
	for _, l := range month(t, text, "") {
		if l.Part == part {
			return l.Units
		}
	}
	return 0
}

// TestBillOfTheDefault: what the tool and the page take for the default options and for
// provisioned capacity is what is synthesized.
func TestBillOfTheDefault(t *testing.T) {
	for name, c := range map[string]struct {
		text []byte
		want pricing.Stack
	}{
		"default":     {golden.text, pricing.Default()},
		"provisioned": {provisioned.text, pricing.Provisioned(pricing.Default())},
	} {
		if got, err := pricing.Of(c.text); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, the bill has %+v", name, got, err, c.want)
		}
	}
	if idle := pricing.Month(pricing.Use{Utilization: 1, StreamShards: 4}, pricing.Default()); pricing.Sum(idle) > 5 {
		t.Errorf("without a request it costs %v", idle)
	}
}

// TestMetricsOfTheBill: what is counted as reported with nearly every batch is published,
// and what is published else is not.
func TestMetricsOfTheBill(t *testing.T) {
	seldom := []string{function.MetricMalformed, function.MetricWritesFailed, function.MetricShardSteps}
	var published []string
	for _, name := range []string{function.MetricRecords, function.MetricChanges, function.MetricMalformed,
		function.MetricWrites, function.MetricWritesFailed, function.MetricElapsedMs, function.MetricIteratorAgeMs,
		function.MetricRefills, function.MetricShardSteps, function.MetricUsageLagMs, function.MetricWriteUnits} {
		if function.Published(name, 1) && !slices.Contains(seldom, name) {
			published = append(published, name)
		}
	}
	slices.Sort(published)
	if !slices.Equal(published, pricing.Reported()) {
		t.Errorf("published %v, in the bill %v", published, pricing.Reported())
	}
}
