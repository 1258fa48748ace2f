package cdk_test

import (
	"regexp"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// existing is a table as the stack creates it, with changes.
func existing(in constructs.Construct, change func(*awsdynamodb.TableProps)) awsdynamodb.Table {
	key := func(name string) *awsdynamodb.Attribute {
		return &awsdynamodb.Attribute{Name: jsii.String(name), Type: awsdynamodb.AttributeType_STRING}
	}
	props := &awsdynamodb.TableProps{PartitionKey: key("PK"), SortKey: key("SK"), TimeToLiveAttribute: jsii.String("ttl"),
		Stream: awsdynamodb.StreamViewType_NEW_AND_OLD_IMAGES, BillingMode: awsdynamodb.BillingMode_PAY_PER_REQUEST,
		DeletionProtection: jsii.Bool(true)}
	if change != nil {
		change(props)
	}
	t := awsdynamodb.NewTable(in, jsii.String("Existing"), props)
	for i, name := range []string{"GSI1", "GSI2", "GSI3", "GSI4"} {
		index := &awsdynamodb.GlobalSecondaryIndexProps{IndexName: jsii.String(name), PartitionKey: key(name + "PK"),
			SortKey: key(name + "SK"), ProjectionType: awsdynamodb.ProjectionType_KEYS_ONLY}
		if i == 0 {
			index.ProjectionType = awsdynamodb.ProjectionType_ALL
		}
		t.AddGlobalSecondaryIndex(index)
	}
	return t
}

// global is such a table created by CDK's other construct.
func global(in constructs.Construct, replicas ...string) awsdynamodb.TableV2 {
	key := func(name string) *awsdynamodb.Attribute {
		return &awsdynamodb.Attribute{Name: jsii.String(name), Type: awsdynamodb.AttributeType_STRING}
	}
	props := &awsdynamodb.TablePropsV2{PartitionKey: key("PK"), SortKey: key("SK"),
		TimeToLiveAttribute: jsii.String("ttl"), DynamoStream: awsdynamodb.StreamViewType_NEW_AND_OLD_IMAGES,
		DeletionProtection: jsii.Bool(true)}
	var indexes []*awsdynamodb.GlobalSecondaryIndexPropsV2
	for _, name := range []string{"GSI1", "GSI2", "GSI3", "GSI4"} {
		indexes = append(indexes, &awsdynamodb.GlobalSecondaryIndexPropsV2{IndexName: jsii.String(name),
			PartitionKey: key(name + "PK"), SortKey: key(name + "SK")})
	}
	props.GlobalSecondaryIndexes = &indexes
	t := awsdynamodb.NewTableV2(in, jsii.String("Global"), props)
	for _, region := range replicas {
		t.AddReplica(&awsdynamodb.ReplicaTableProps{Region: jsii.String(region)})
	}
	return t
}

// An existing table in this app that cannot work is refused at synthesis. One at risk causes a
// warning.
func TestExistingTablesAreChecked(t *testing.T) {
	const both, archiver, none = 0, 1, 2 // functions that the stream feeds
	type props = awsdynamodb.TableProps
	like := func(change func(*props)) func(awscdk.Stack) awsdynamodb.ITable {
		return func(in awscdk.Stack) awsdynamodb.ITable { return existing(in, change) }
	}
	keysOnly := like(func(p *props) { p.Stream = awsdynamodb.StreamViewType_KEYS_ONLY })
	for _, c := range []struct {
		name  string
		table func(in awscdk.Stack) awsdynamodb.ITable
		fails string // empty: accepted
		warns string // empty: no warning
		feeds int
	}{
		{"as it must be", like(nil), "", "", both},
		{"keys only", keysOnly, "ExistingTable: stream: is KEYS_ONLY, must be NEW_AND_OLD_IMAGES", "", both},
		{"new images only", like(func(p *props) { p.Stream = awsdynamodb.StreamViewType_NEW_IMAGE }),
			"stream: is NEW_IMAGE", "", both},
		{"keys only, for the archiver alone", keysOnly, "ExistingTable: stream: is KEYS_ONLY", "", archiver},
		{"keys only, for no function", keysOnly, "", "", none},
		{"without a time to live", like(func(p *props) { p.TimeToLiveAttribute = nil }),
			"", "no time to live by \"ttl\"", both},
		{"with another time to live", like(func(p *props) { p.TimeToLiveAttribute = jsii.String("expires") }),
			"", "no time to live by \"ttl\"", both},
		{"with a time to live that is off", func(in awscdk.Stack) awsdynamodb.ITable {
			table := existing(in, nil)
			resource := table.Node().DefaultChild().(awsdynamodb.CfnTable)
			resource.SetTimeToLiveSpecification(&awsdynamodb.CfnTable_TimeToLiveSpecificationProperty{
				AttributeName: jsii.String("ttl"), Enabled: jsii.Bool(false)})
			return table
		}, "", "no time to live by \"ttl\"", both},
		{"another key", func(in awscdk.Stack) awsdynamodb.ITable {
			return existing(in, func(p *awsdynamodb.TableProps) {
				p.SortKey = &awsdynamodb.Attribute{Name: jsii.String("SK"), Type: awsdynamodb.AttributeType_NUMBER}
			})
		}, "ExistingTable: key: is PK:S HASH, SK:N RANGE", "", both},
		{"without indexes", func(in awscdk.Stack) awsdynamodb.ITable {
			key := &awsdynamodb.Attribute{Name: jsii.String("PK"), Type: awsdynamodb.AttributeType_STRING}
			return awsdynamodb.NewTable(in, jsii.String("Bare"), &awsdynamodb.TableProps{PartitionKey: key,
				Stream: awsdynamodb.StreamViewType_NEW_AND_OLD_IMAGES})
		}, "index GSI4: is missing", "", both},
		{"not protected", like(func(p *props) { p.DeletionProtection = nil }),
			"", "no deletion protection", both},
		{"of the other construct", func(in awscdk.Stack) awsdynamodb.ITable { return global(in) }, "", "", both},
		{"a global table with replicas", func(in awscdk.Stack) awsdynamodb.ITable { return global(in, "us-east-1") },
			"", "a global table with 2 replicas", both},
		{"a replica made by the older construct", like(func(p *props) { p.ReplicationRegions = jsii.Strings("us-east-1") }),
			"", "a global table with 2 replicas", both},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStacks(t)
			in := awscdk.NewStack(s.app, jsii.String("Data"), &awscdk.StackProps{
				Env: &awscdk.Environment{Account: jsii.String("123456789012"), Region: jsii.String("eu-west-1")}})
			s.props.ExistingTable = c.table(in)
			s.props.Aggregator.Off, s.props.Archiver.Off = c.feeds != both, c.feeds == none
			cdk.New(in, "Limits", &s.props)
			err := s.synth()
			if c.fails != "" {
				check.Says(t, err, c.fails)
				return
			}
			check.Must(t, err)
			warnings(t, in, c.warns)
		})
	}
}

// warnings checks the warnings of a stack: none if want is empty, otherwise one with want.
func warnings(t *testing.T, in awscdk.Stack, want string) {
	t.Helper()
	found := func(m assertions.Matcher) int {
		return len(*assertions.Annotations_FromStack(in).FindWarning(jsii.String("*"), m))
	}
	all, right := found(assertions.Match_AnyValue()), 0
	if want != "" {
		right = found(assertions.Match_StringLikeRegexp(jsii.String(".*" + regexp.QuoteMeta(want) + ".*")))
	}
	if all != right || want != "" && all != 1 {
		t.Errorf("%d warnings, %d of them with %q", all, right, want)
	}
}

// A table without deletion protection causes a warning, unless it is deleted with the stack.
func TestMissingDeletionProtectionCausesAWarning(t *testing.T) {
	for _, c := range []struct {
		change func(*cdk.Props)
		want   string
	}{
		{func(*cdk.Props) {}, "no deletion protection"},
		{func(p *cdk.Props) { p.Table.DeletionProtection = true }, ""},
		{func(p *cdk.Props) { p.RemovalPolicy = "destroy" }, ""},
	} {
		s := newStacks(t)
		c.change(&s.props)
		cdk.New(s.limits, "Limits", &s.props)
		warnings(t, s.limits, c.want)
	}
}

// Functions that use an existing table have permissions for the table's key. Functions that write
// to the limiter's S3 buckets have permissions for the limiter's key.
func TestFunctionsMayUseTheKeyOfAnExistingTable(t *testing.T) {
	for _, own := range []bool{false, true} {
		s := newStacks(t)
		s.props.ExistingTable = existing(s.platform, func(p *awsdynamodb.TableProps) {
			p.Encryption, p.EncryptionKey = awsdynamodb.TableEncryption_CUSTOMER_MANAGED, s.key(s.platform, "TableKey")
		})
		if own {
			s.props.Key = s.key(s.limits, "OwnKey")
		}
		cdk.New(s.limits, "Limits", &s.props).Grant(s.role("App"), cdk.Acquire)
		check.Must(t, s.synth())
		uses := func(stack, kind, key, service string) int {
			via := `"kms:ViaService":\{"Fn::Join":\["",\["` + service + `\.",[^}]*\},"\.amazonaws\.com"\]\]\}\}\},`
			granted := regexp.MustCompile(via + `"Effect":"Allow","Resource":\{[^}]*` + key)
			return len(granted.FindAllString(s.template(t, stack)[kind], -1))
		}
		const role = "AWS::IAM::Role"
		check.Equal(t, uses("Limits", role, "TableKey", "dynamodb"), 4, "statements of functions on the table's key")
		check.Equal(t, uses("Limits", role, "TableKey", "s3"), 0, "statements on objects and the table's key")
		check.Equal(t, uses("Limits", role, "OwnKey", "dynamodb"), 0, "statements on the table and the limiter's key")
		check.Equal(t, uses("Limits", role, "OwnKey", "s3") == 2, own, "statements on objects and the limiter's key")
		check.Equal(t, uses("Limits", "AWS::IAM::ManagedPolicy", "TableKey", "dynamodb"), 6, "policies of applications")
	}
}
