package function

import (
	"reflect"
	"strconv"
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
	longest := strings.Repeat("x", 128)
	for _, days := range []int64{0, 1, 3650} { // the smallest value first
		got, err := SetupFromProperties(map[string]any{
			SetupNamespaces: []any{longest}, SetupAuditRetention: strconv.FormatInt(days, 10),
		})
		want := Setup{Namespaces: []string{longest}, AuditRetentionDays: days}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, error %v, want %+v", got, err, want)
		}
	}
}

func TestTableFromEnv(t *testing.T) {
	for name, want := range map[string]string{
		"limits":                 "",
		" limits\n":              "",
		strings.Repeat("x", 255): "",
		"AZaz09_.-":              "",
		"A@Z":                    `TABLE_NAME="A@Z": want ` + wantTableName,
		"A[Z":                    `TABLE_NAME="A[Z": want ` + wantTableName,
		"":                       `TABLE_NAME="": want ` + wantTableName,
		"a b":                    `TABLE_NAME="a b": want ` + wantTableName,
	} {
		got, err := TableFromEnv(getenv(map[string]string{EnvTableName: name}))
		said := ""
		if err != nil {
			said = err.Error()
		}
		if got != strings.TrimSpace(name) || said != want {
			t.Errorf("%q: %q, error %v, want %s", name, got, err, want)
		}
	}
}

func TestSetupFromPropertiesNamesEveryProblem(t *testing.T) {
	for i, namespaces := range []any{nil, "default", []any{}, []any{""}, []any{"_", "a"}, []any{7.0},
		[]any{strings.Repeat("x", 129)}, []any{"a/b#c"}, []any{"a", "b,c"}, []any{"a=b"}, []any{"a\nb"}, []any{".a"}} {
		days := []any{"3651", "-1", "", "1.5", 7.0, "0x5a"}[i%6]
		got, err := SetupFromProperties(map[string]any{
			SetupNamespaces: namespaces, SetupAuditRetention: days, SetupManifests: []any{7.0, "namespace: default"},
			SetupStream: 7.0,
		})
		for _, name := range []string{SetupNamespaces, SetupAuditRetention, SetupManifests, SetupStream} {
			if err == nil || strings.Count(err.Error(), name+"=") != 1 {
				t.Errorf("namespaces %v: %s is not named once in: %v", namespaces, name, err)
			}
		}
		if !reflect.DeepEqual(got, Setup{}) {
			t.Errorf("namespaces %v: %+v with an error", namespaces, got)
		}
	}
	got, err := SetupFromProperties(map[string]any{SetupNamespaces: []any{"a"}, SetupAuditRetention: "x"})
	const want = "AuditRetentionDays=x: want a whole number from 0 to 3650"
	if err == nil || err.Error() != want || !reflect.DeepEqual(got, Setup{}) {
		t.Errorf("one problem: %+v, %v, want %s", got, err, want)
	}
}
