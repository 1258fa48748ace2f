package cdk_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/option"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Properties that are valid alone but contradict each other are refused, naming both. At the bound
// they are accepted.
func TestContradictingPropsAreRefused(t *testing.T) {
	manifest := func(namespace string, kilobytes int) string {
		return fmt.Sprintf("namespace: %s\n# %s\n", namespace, strings.Repeat("x", kilobytes<<10))
	}
	const provisioned = "provisioned"
	for _, c := range []struct {
		name  string
		props cdk.Props
		want  string // empty: accepted
	}{
		{"warm reads", cdk.Props{Table: cdk.TableProps{WarmReadUnits: 20_000, MaxReadUnits: 20_000}}, ""},
		{"more warm reads", cdk.Props{Table: cdk.TableProps{WarmReadUnits: 20_001, MaxReadUnits: 20_000}}, "WarmReadUnits"},
		{"warm writes", cdk.Props{Table: cdk.TableProps{WarmWriteUnits: 5_000, MaxWriteUnits: 5_000}}, ""},
		{"warm writes by default", cdk.Props{Table: cdk.TableProps{WarmReadUnits: 20_000, MaxWriteUnits: 3_999}},
			"WarmWriteUnits"},
		{"nothing warm", cdk.Props{Table: cdk.TableProps{MaxReadUnits: 100, MaxWriteUnits: 100}}, ""},
		{"more warm writes", cdk.Props{Table: cdk.TableProps{WarmWriteUnits: 5_001, MaxWriteUnits: 5_000}},
			"WarmWriteUnits"},
		{"a long name of a role",
			cdk.Props{TableName: strings.Repeat("x", 46), IAM: cdk.IAMProps{RoleNameFormat: "{}"}}, ""},
		{"a longer one", cdk.Props{TableName: strings.Repeat("x", 47), IAM: cdk.IAMProps{RoleNameFormat: "{}"}},
			"has 65 letters, IAM takes 64"},
		{"one of a policy", cdk.Props{TableName: strings.Repeat("x", 47), IAM: cdk.IAMProps{PolicyNameFormat: "{}"}},
			"has 65 letters, IAM takes 64"},
		{"manifests", cdk.Props{Manifests: []string{manifest("a", 49), manifest("b", 50)}}, ""},
		{"manifests that are too large together", cdk.Props{Manifests: []string{manifest("a", 50), manifest("b", 50)}},
			"accepted: up to 102400"},
		{"one namespace twice", cdk.Props{Manifests: []string{manifest("a", 1), manifest("a", 1)}},
			`two declare namespace "a"`},
		{"an archive that expires", cdk.Props{ArchiveTransitionDays: 30, ArchiveExpiryDays: 31}, ""},
		{"one that expires at once", cdk.Props{ArchiveTransitionDays: 30, ArchiveExpiryDays: 30},
			"ArchiveExpiryDays=30: want more than ArchiveTransitionDays=30"},
		{"a transition without an archive", cdk.Props{Archiver: cdk.ArchiverProps{Off: true}, ArchiveTransitionDays: 30},
			"without an archiver"},
		{"an expiry without an archive", cdk.Props{Archiver: cdk.ArchiverProps{Off: true}, ArchiveExpiryDays: 30},
			"without an archiver"},
		{"capacity", cdk.Props{Table: cdk.TableProps{BillingMode: provisioned, MinReadUnits: 9, MaxReadUnits: 9,
			MinWriteUnits: 9, MaxWriteUnits: 9}}, ""},
		{"no most reads",
			cdk.Props{Table: cdk.TableProps{BillingMode: provisioned, MaxWriteUnits: 9}}, "MaxReadUnits: want"},
		{"no most writes", cdk.Props{Table: cdk.TableProps{BillingMode: provisioned, MaxReadUnits: 9}},
			"MaxWriteUnits: want"},
		{"MinReadUnits above the maximum", cdk.Props{Table: cdk.TableProps{BillingMode: provisioned, MinReadUnits: 10,
			MaxReadUnits: 9, MaxWriteUnits: 9}}, "MinReadUnits=10: want no more than MaxReadUnits=9"},
		{"MinWriteUnits above the maximum", cdk.Props{Table: cdk.TableProps{BillingMode: provisioned, MinWriteUnits: 10,
			MaxReadUnits: 9, MaxWriteUnits: 9}}, "MinWriteUnits=10: want no more than MaxWriteUnits=9"},
		{"least reads on demand", cdk.Props{Table: cdk.TableProps{MinReadUnits: 6}}, "want BillingMode=provisioned"},
		{"least writes on demand", cdk.Props{Table: cdk.TableProps{MinWriteUnits: 6}}, "want BillingMode=provisioned"},
		{"a tag that AWS reserves", cdk.Props{Tags: map[string]string{"team": "a", "Aws:team": "a"}},
			`Props.Tags: name "Aws:team": names that begin with aws: are reserved`},
		{"a tag with a colon", cdk.Props{Tags: map[string]string{"team:aws:": "a"}}, ""},
		{"a target on demand", cdk.Props{Table: cdk.TableProps{TargetUtilizationPercent: 60}},
			"want BillingMode=provisioned"},
	} {
		if err := c.props.Validate(); (err == nil) != (c.want == "") || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// Alerts have one target, which must be able to reach a recipient.
func TestAlertsGoToOneTarget(t *testing.T) {
	stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Alerts"), nil)
	const account = ":eu-west-1:123456789012:"
	bus := awsevents.EventBus_FromEventBusArn(stack, jsii.String("Bus"),
		jsii.String("arn:aws:events"+account+"event-bus/b"))
	topic := awssns.Topic_FromTopicArn(stack, jsii.String("Topic"), jsii.String("arn:aws:sns"+account+"t"))
	fifo := awssns.Topic_FromTopicArn(stack, jsii.String("FIFO"), jsii.String("arn:aws:sns"+account+"t.fifo"))
	long := make([]string, 100)
	for i := range long {
		long[i] = fmt.Sprintf("a-limit-with-a-name=%d", i+1)
	}
	for _, c := range []struct {
		props cdk.Props
		want  string // empty: accepted
	}{
		{cdk.Props{Alerts: cdk.AlertProps{Bus: bus}}, ""},
		{cdk.Props{Alerts: cdk.AlertProps{Topic: topic}, Thresholds: []string{"1", "budget=100"}}, ""},
		{cdk.Props{Alerts: cdk.AlertProps{Bus: bus, Topic: topic}}, "Alerts.Bus=arn:aws:events" + account +
			"event-bus/b, Alerts.Topic=arn:aws:sns" + account + "t: want one of them"},
		{cdk.Props{Alerts: cdk.AlertProps{Topic: fifo}}, "t.fifo: want a standard topic"},
		{cdk.Props{Alerts: cdk.AlertProps{Bus: bus}, Aggregator: cdk.AggregatorProps{Off: true}}, "without an aggregator"},
		{cdk.Props{Thresholds: []string{"101"}}, "Thresholds=[101]: accepted: percents from 1 to 100"},
		{cdk.Props{Thresholds: long}, "letters, accepted: up to 2000"},
	} {
		if err := c.props.Validate(); (err == nil) != (c.want == "") || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// Policies need keys, not aliases: permissions for an alias have no effect. Several aliases are named
// in the order of the fields.
func TestKeysAreNotAliases(t *testing.T) {
	stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Keys"), nil)
	made := awskms.NewKey(stack, jsii.String("Made"), nil)
	encrypted := func(id string, key awskms.IKey) [3]awsdynamodb.ITable {
		hash := &awsdynamodb.Attribute{Name: jsii.String("PK"), Type: awsdynamodb.AttributeType_STRING}
		return [3]awsdynamodb.ITable{
			awsdynamodb.NewTable(stack, jsii.String(id), &awsdynamodb.TableProps{PartitionKey: hash, EncryptionKey: key,
				Stream: awsdynamodb.StreamViewType_NEW_AND_OLD_IMAGES}),
			awsdynamodb.NewTableV2(stack, jsii.String(id+"V2"), &awsdynamodb.TablePropsV2{PartitionKey: hash,
				Encryption:   awsdynamodb.TableEncryptionV2_CustomerManagedKey(key, nil),
				DynamoStream: awsdynamodb.StreamViewType_NEW_AND_OLD_IMAGES}),
			awsdynamodb.Table_FromTableAttributes(stack, jsii.String(id+"Imported"), &awsdynamodb.TableAttributes{
				TableName: jsii.String("limits"), EncryptionKey: key,
				TableStreamArn: jsii.String("arn:aws:dynamodb:eu-west-1:123456789012:table/limits/stream/1")}),
		}
	}
	for i, alias := range []awskms.IAlias{
		made.AddAlias(jsii.String("alias/made")),
		awskms.Alias_FromAliasName(stack, jsii.String("Imported"), jsii.String("alias/imported")),
	} {
		says := " " + *alias.AliasName() + " is an alias"
		for field, props := range map[string]cdk.Props{
			"Key": {Key: alias}, "LogKey": {Key: made, LogKey: alias}, "EnvironmentKey": {EnvironmentKey: alias},
		} {
			check.Says(t, props.Validate(), field+":"+says)
		}
		for _, table := range encrypted(fmt.Sprint("Table", i), alias) {
			props := cdk.Props{ExistingTable: table}
			check.Says(t, props.Validate(), "ExistingTable.EncryptionKey:"+says, *table.Node().Id())
			props.Key, props.LogKey, props.EnvironmentKey = alias, alias, alias
			named := regexp.MustCompile(`(?m)^[.\w]+`).FindAllString(fmt.Sprint(props.Validate()), -1)
			check.Slices(t, named, []string{"Key", "LogKey", "EnvironmentKey", "ExistingTable.EncryptionKey"})
		}
	}
	for _, table := range encrypted("Table", made) {
		check.NoError(t, (&cdk.Props{Key: made, LogKey: made, EnvironmentKey: made, ExistingTable: table}).Validate())
	}
}

// An option that may be given once is refused the second time, and keeps its first value.
func TestOptionsAreAcceptedOnce(t *testing.T) {
	var props cdk.Props
	for key, values := range map[string][2]string{
		"snapshotWindows": {"hourly,daily", "hourly,hourly"},
		"namespaces":      {"a,b", "a,b,a"},
		"tags":            {"team=a,cost=b", "team=a,team=b"},
		"tracing":         {"true", "false,true"},
		"maxShards":       {"8", "8,16"},
	} {
		for i, value := range values {
			if _, err := option.Set(&props, key, value); (err != nil) != (i == 1) {
				t.Errorf("%s=%s: %v", key, value, err)
			}
		}
	}
	w, n := props.SnapshotWindows, props.Namespaces
	if len(w) != 2 || len(n) != 2 || props.Tags["team"] != "a" || !props.Tracing || props.MaxShards != 8 {
		t.Errorf("%+v", props)
	}
}
