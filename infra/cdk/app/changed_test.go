package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/holding"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// TestIDsOfConstructsAreNoLogicalIDs: they may have hyphens, which CloudFormation does not take.
func TestIDsOfConstructsAreNoLogicalIDs(t *testing.T) {
	stack := awscdk.NewStack(newApp(t.TempDir(), nil), jsii.String("Platform"), nil)
	dist := t.TempDir()
	check.Must(t, writeStubs(dist))
	cdk.New(constructs.NewConstruct(stack, jsii.String("my-app")), "prod_limits", &cdk.Props{Code: cdk.Code{
		Aggregator: programIn(dist, "aggregator"), Archiver: programIn(dist, "archiver"), Setup: programIn(dist, "setup")}})
	got, err := decodeTemplate(assertions.Template_FromStack(stack, nil).ToJSON())
	check.Must(t, err)
	for _, id := range holding.IDs() {
		if _, ok := got.Resources["myappprodlimits"+id]; !ok {
			t.Errorf("no %s among %v", id, slices.Sorted(maps.Keys(got.Resources)))
		}
	}
}

// TestTablesWithoutAStream: an imported table has one only if it is said. It is missed with a sentence,
// where a function would read it.
func TestTablesWithoutAStream(t *testing.T) {
	stack := awscdk.NewStack(newApp(t.TempDir(), nil), jsii.String("Imported"), nil)
	props := cdk.Props{ExistingTable: awsdynamodb.Table_FromTableName(stack, jsii.String("T"), jsii.String("limits"))}
	check.Says(t, props.Validate(), "ExistingTable: it has no stream")
	props.Aggregator.Off = true
	if err := props.Validate(); err == nil {
		t.Error("the archiver needs none")
	}
	props.Archiver.Off = true
	check.NoError(t, props.Validate())
}

// TestModesChangeInPlace: a table that is deployed changes its mode, both ways.
func TestModesChangeInPlace(t *testing.T) {
	for _, err := range []error{checkLosses(golden.text, provisioned.text),
		checkLosses(provisioned.text, golden.text)} {
		check.NoError(t, err)
	}
}
