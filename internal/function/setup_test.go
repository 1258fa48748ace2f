package function

import (
	"reflect"
	"strings"
	"testing"
)

func TestSetupFromProperties(t *testing.T) {
	got, err := SetupFromProperties(map[string]any{
		"ServiceToken": "arn", SetupNamespaces: []any{"default", "team-a"},
		SetupAuditRetention: "90", SetupManifests: []any{"namespace: default"}, SetupStream: "arn:of:stream",
	})
	want := Setup{Namespaces: []string{"default", "team-a"}, AuditRetentionDays: 90,
		Manifests: []string{"namespace: default"}, StreamARN: "arn:of:stream"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, error %v, want %+v", got, err, want)
	}
}

func TestSetupFromPropertiesNamesEveryProblem(t *testing.T) {
	for _, namespaces := range []any{nil, "default", []any{}, []any{""}, []any{"_"}, []any{7.0},
		[]any{strings.Repeat("x", 257)}} {
		_, err := SetupFromProperties(map[string]any{
			SetupNamespaces: namespaces, SetupAuditRetention: "3651", SetupManifests: []any{7.0}, SetupStream: 7.0,
		})
		for _, name := range []string{SetupNamespaces, SetupAuditRetention, SetupManifests, SetupStream} {
			if err == nil || strings.Count(err.Error(), name+"=") != 1 {
				t.Errorf("namespaces %v: %s is not named once in: %v", namespaces, name, err)
			}
		}
	}
}
