package cdk

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

func TestPropsWithoutAnythingAreValid(t *testing.T) {
	var none *Props
	check.NoError(t, none.Validate())
	p := none.withDefaults()
	check.NoError(t, p.Validate())
	if p.TableName != "zae-limiter" || p.MaxShards != 32 || len(p.SnapshotWindows) != 2 || p.Key != nil ||
		p.Namespaces[0] != "default" {
		t.Errorf("defaults %+v", p)
	}
	if none := (&Props{Namespaces: []string{}}).withDefaults(); len(none.Namespaces) != 0 {
		t.Error("no namespaces became the default")
	}
}

// Namespaces of manifests are registered with the others, each once. The caller's list does not
// change.
func TestNamespacesOfManifestsAreRegistered(t *testing.T) {
	list := []string{"a", "b", "kept"}
	p := &Props{Namespaces: list[:2], Manifests: []string{"namespace: b", "namespace: c"}}
	got := p.withDefaults().Namespaces
	check.Equal(t, strings.Join(got, " "), "a b c", "registered %q", got)
	if list[2] != "kept" || len(p.Namespaces) != 2 {
		t.Errorf("the list is %q", list)
	}
}

func TestAllInvalidPropsAreNamed(t *testing.T) {
	err := (&Props{TableName: "a b", MaxShards: 3, Aggregator: AggregatorProps{BatchSize: 10001},
		LogLevel: "debug"}).Validate()
	for _, want := range []string{"TableName=a b: accepted: 3 to 255", "MaxShards=3", "BatchSize=10001",
		"LogLevel=debug"} {
		check.Says(t, err, want)
	}
}
