package cdk

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
)

// Props are the choices of a deployment. The zero value of every field is its default, named by the
// tag. A field with a tag "key" is also an option of the app; the other tags hold
// the accepted values, see [Props.Validate]. Texts may be tokens, such as an attribute of another
// construct; their resolved values are not checked. Manifests and fields tagged known may not be
// tokens: they decide which resources are declared.
type Props struct {
	// TableName is the name by which clients open the table.
	TableName string `key:"tableName" default:"zae-limiter" is:"tableName"`
	// ExistingTable is a table made elsewhere, with our keys, indexes and a
	// stream of new and old images. Everything below that shapes the table is
	// then without effect, and its EncryptionKey, if it has one, takes the place
	// of Key where the table is used.
	ExistingTable awsdynamodb.ITable
	// Code has the functions' programs, if you build them yourself.
	Code Code

	// Namespaces are registered by the deployment, if they are not yet; none
	// is ever removed.
	Namespaces []string `key:"namespaces" default:"default" is:"namespace" note:"registered on deployment"`
	// AuditRetentionDays is written to the system configuration of each of
	// Namespaces: how long audit events stay in the table.
	AuditRetentionDays int `key:"auditRetentionDays" range:"1-3650" note:"kept in the table; left alone by default"`
	// Manifests declare limits, each for one namespace, in YAML or JSON as package admin/manifest
	// reads them. The deployment registers the namespace and applies them whenever their text
	// changes: it deletes limits that only the manifest before declared, and leaves everything else
	// alone. Taking out a manifest changes nothing.
	Manifests []string

	// SnapshotWindows are the usage windows that are kept.
	SnapshotWindows []string `key:"snapshotWindows" default:"hourly,daily" oneOf:"hourly|daily|monthly"`
	// SnapshotTTLDays is how many days a usage snapshot outlives its window.
	SnapshotTTLDays int `key:"snapshotTtlDays" default:"90" range:"1-3650"`
	// MaxShards is the most shards a hot bucket is split into.
	MaxShards int `key:"maxShards" default:"32" oneOf:"1|2|4|8|16|32|64|128|256|512|1024"`
	// MergeAfterSeconds is how long after a split or a merge a bucket that has
	// cooled down is merged.
	MergeAfterSeconds int `key:"mergeAfterSeconds" default:"600" range:"1-86400" note:"then a cool bucket is merged"`
	// WriteConcurrency is how many writes one aggregator invocation has in
	// flight.
	WriteConcurrency int `key:"writeConcurrency" default:"16" range:"1-256"`
	// MaxWriteUnits is how many write units a second the aggregator takes for each shard of the
	// stream, so that usage leaves a table of bounded capacity to clients. Other writes wait; if it
	// is too low, the aggregator falls behind the stream.
	MaxWriteUnits int `key:"aggregatorMaxWriteUnits" default:"none" range:"1-40000" note:"for each shard of the stream"`

	// Thresholds are the percents of quotas that are reported when they are spent: 80, or
	// budget=80 for one limit, which then has no others.
	Thresholds []string `key:"thresholds" default:"50,80,100" is:"threshold" note:"of quotas, reported when spent"`
	// Alerts say where thresholds are sent.
	Alerts AlertProps

	// Aggregator counts usage, keeps buckets warm and splits hot ones.
	Aggregator AggregatorProps
	// Archiver writes expired audit events to a bucket. The two functions use
	// both readers that AWS allows each shard of a stream: with a third, such
	// as the Python aggregator during a migration, reads of the stream may be
	// throttled, so turn one of them off meanwhile.
	Archiver ArchiverProps
	// Setup registers namespaces when the stack is deployed.
	Setup SetupProps

	// LogLevel is the least level that the functions log.
	LogLevel string `key:"logLevel" default:"INFO" oneOf:"TRACE|DEBUG|INFO|WARN|ERROR|FATAL"`
	// LogRetentionDays is one of the periods that CloudWatch offers.
	LogRetentionDays int `key:"logRetentionDays" default:"30" oneOf:"1|3|5|7|14|30|60|90|120|150|180|365|400|545|731|1096|1827|2192|2557|2922|3288|3653"`
	// Tracing sends traces of the functions to X-Ray.
	Tracing bool `key:"tracing" default:"false"`
	// Alarms, and whom they notify.
	Alarms AlarmProps
	// DashboardOff leaves the dashboard out.
	DashboardOff bool `key:"dashboardOff" default:"false"`

	Table TableProps
	IAM   IAMProps
	// Network puts the functions into a VPC. By default they are in none.
	Network NetworkProps

	// ArchiveTransitionDays moves archive objects to Glacier Instant Retrieval after so
	// many days. S3 moves none below 128 KB, and ours have a few hundred bytes, so hardly
	// any moves.
	ArchiveTransitionDays int `key:"archiveTransitionDays" default:"never" range:"1-3650"`
	// ArchiveVersioned keeps deleted archive objects as versions: for good, or for 30 days where
	// objects expire.
	ArchiveVersioned bool `key:"archiveVersioned" default:"false" note:"what is deleted can be had back"`
	// ArchiveExpiryDays deletes archive objects after so many days.
	ArchiveExpiryDays int `key:"archiveExpiryDays" default:"never" range:"1-36500"`
	// Key is a customer key, not an alias of one, for the table and the buckets. Its users then
	// need rights on the key too: the functions' roles, the policies and the grants have them. Nil:
	// keys that AWS owns.
	Key awskms.IKey
	// LogKey encrypts the functions' log groups, and EnvironmentKey their environments; they may be
	// the same as Key. The policy of LogKey must let CloudWatch Logs use it: the policy of a key
	// made in this app is extended. Nil: keys of AWS.
	LogKey, EnvironmentKey awskms.IKey
	// RemovalPolicy decides whether table and buckets outlive the stack. Whatever it is, a first
	// deployment that fails leaves nothing.
	RemovalPolicy string `key:"removalPolicy" default:"retain" oneOf:"retain|destroy" known:"true"`
	// Tags are put on everything.
	Tags map[string]string `key:"tags" default:"none" is:"tags"`
}

// Code has the programs of the functions, each with an executable "bootstrap" for arm64 Linux. A
// nil program is built with the go tool, while the app runs, from the required version of the root
// module.
type Code struct {
	Aggregator, Archiver, Setup awslambda.Code
}

// AggregatorProps shape the aggregator and its mapping.
type AggregatorProps struct {
	Off bool `key:"aggregatorOff" default:"false"`
	// Paused makes the mapping, and disables it: for a table whose usage a Python
	// aggregator still counts.
	Paused          bool `key:"aggregatorPaused" default:"false" note:"its mapping is made, and disabled"`
	MemoryMiB       int  `key:"aggregatorMemoryMiB" default:"512" range:"128-10240"`
	TimeoutSeconds  int  `key:"aggregatorTimeoutSeconds" default:"60" range:"10-900"`
	BatchSize       int  `key:"aggregatorBatchSize" default:"1000" range:"1-10000"`
	WindowSeconds   int  `key:"aggregatorWindowSeconds" default:"1" range:"1-300"`
	Parallelization int  `key:"aggregatorParallelization" default:"1" range:"1-10" note:"more batches at once, and more usage writes"`
	// FoldSeconds is how long usage is folded before it is written, the tumbling
	// window of the mapping. The longer, the fewer writes, and the later snapshots
	// are. FoldOff writes with every batch, as more than one batch at once does.
	FoldSeconds         int  `key:"aggregatorFoldSeconds" default:"60" range:"1-900" note:"the longer, the fewer usage writes"`
	FoldOff             bool `key:"aggregatorFoldOff" default:"false" note:"usage is written with every batch"`
	ReservedConcurrency int  `key:"aggregatorReservedConcurrency" default:"none" range:"1-1000"`
	// Role is the function's role; see SetupProps.
	Role awsiam.IRole
}

// ArchiverProps shape the archiver and its mapping.
type ArchiverProps struct {
	Off                 bool `key:"archiverOff" default:"false"`
	MemoryMiB           int  `key:"archiverMemoryMiB" default:"256" range:"128-10240"`
	TimeoutSeconds      int  `key:"archiverTimeoutSeconds" default:"60" range:"10-900"`
	BatchSize           int  `key:"archiverBatchSize" default:"100" range:"1-10000"`
	WindowSeconds       int  `key:"archiverWindowSeconds" default:"1" range:"1-300"`
	Parallelization     int  `key:"archiverParallelization" default:"1" range:"1-10"`
	ReservedConcurrency int  `key:"archiverReservedConcurrency" default:"none" range:"1-1000"`
	// Role is the function's role; see SetupProps.
	Role awsiam.IRole
}

// SetupProps shape the function that registers namespaces, writes the version
// record and applies manifests.
type SetupProps struct {
	// ReservedConcurrency is how many invocations there may be at once. One is
	// enough. An account needs 100 more that nobody has reserved.
	ReservedConcurrency int `key:"setupReservedConcurrency" default:"none" range:"1-1000"`
	// Role is the function's role. A role made in this app gets the rights that the
	// function needs; one that was imported must have them. Nil: a role of its own.
	Role awsiam.IRole
}

// NetworkProps put the functions into a VPC. From there they must reach DynamoDB and
// S3 (gateway endpoints do), CloudWatch Logs is reached by Lambda itself; setup
// also answers CloudFormation through S3.
type NetworkProps struct {
	VPC            awsec2.IVpc // nil: no VPC
	Subnets        *awsec2.SubnetSelection
	SecurityGroups []awsec2.ISecurityGroup // none: one is made for each function
}

// AlertProps say where the thresholds of quotas are sent: to one of the two, or, if both are
// nil, nowhere. The policy of a topic's own key must let the aggregator's role use it.
type AlertProps struct {
	Bus   awsevents.IEventBus
	Topic awssns.ITopic // not a FIFO one
}

// AlarmProps shape the alarms.
type AlarmProps struct {
	Off bool `key:"alarmsOff" default:"false"`
	// Topic is notified when an alarm goes off and when it is over. Nil: alarms only
	// show their state.
	Topic awssns.ITopic
	// UrgentTopic is notified instead of Topic of alarms that should wake somebody: the
	// table slows down, or usage is being lost. Nil: Topic.
	UrgentTopic awssns.ITopic
	// IteratorAgeSeconds is how late a function may be.
	IteratorAgeSeconds int `key:"alarmIteratorAgeSeconds" default:"300" range:"1-86400"`
	// DurationPercent is how much of its timeout an invocation may take.
	DurationPercent int `key:"alarmDurationPercent" default:"80" range:"1-100"`
	// Errors is how many failed invocations within five minutes are too many.
	Errors int `key:"alarmErrors" default:"3" range:"1-1000000" note:"within five minutes"`
	// Throttles is how many slowed-down requests in each of three minutes in a row
	// are too many.
	Throttles int `key:"alarmThrottles" default:"1" range:"1-1000000" note:"in each of three minutes"`
}

// TableProps shape the table.
type TableProps struct {
	// GSI2Projection is ALL for fleets whose Python clients query by resource:
	// it doubles the write units of every acquire. It cannot be changed later.
	GSI2Projection string `key:"gsi2Projection" default:"KEYS_ONLY" oneOf:"KEYS_ONLY|ALL" known:"true" note:"not to be changed later"`
	// PITRDays is how far back the table can be restored.
	PITRDays           int  `key:"pitrDays" default:"35" range:"1-35"`
	DeletionProtection bool `key:"deletionProtection" default:"false"`
	// Units per second that the table serves without growing first. They are
	// paid once, and cannot be lowered.
	WarmReadUnits  int `key:"warmReadUnits" default:"12000" range:"12000-1000000"`
	WarmWriteUnits int `key:"warmWriteUnits" default:"4000" range:"4000-1000000"`
	// Units per second that the table never exceeds: a bound on the bill, above
	// which requests are throttled.
	MaxReadUnits  int `key:"maxReadUnits" default:"none" range:"1-1000000"`
	MaxWriteUnits int `key:"maxWriteUnits" default:"none" range:"1-1000000"`
	// BillingMode is provisioned for a load that is even: capacity is paid by the hour, and
	// auto scaling keeps it between the least and MaxReadUnits, MaxWriteUnits, which are
	// required then. It holds for the table and for each index. A table changes its mode in
	// place.
	BillingMode string `key:"billingMode" default:"onDemand" oneOf:"onDemand|provisioned" known:"true" note:"provisioned needs maxReadUnits, maxWriteUnits"`
	// Units per second that are provisioned at least, and at first.
	MinReadUnits  int `key:"minReadUnits" default:"5" range:"1-1000000" note:"provisioned at least"`
	MinWriteUnits int `key:"minWriteUnits" default:"5" range:"1-1000000" note:"provisioned at least"`
	// TargetUtilizationPercent is the part of the capacity that auto scaling keeps in use.
	TargetUtilizationPercent int `key:"targetUtilizationPercent" default:"70" range:"20-90" note:"of provisioned capacity"`
}

// IAMProps shape roles and policies.
type IAMProps struct {
	// PermissionBoundary bounds every role made here. Nil: nothing does.
	PermissionBoundary awsiam.IManagedPolicy
	// RoleNameFormat and PolicyNameFormat make names: {} stands for the table's name and the
	// purpose of the role or policy. The default leaves them to CloudFormation.
	RoleNameFormat   string `key:"roleNameFormat" default:"names by CloudFormation" is:"nameFormat"`
	PolicyNameFormat string `key:"policyNameFormat" default:"names by CloudFormation" is:"nameFormat"`
	// PoliciesOff leaves out the managed policies for applications.
	PoliciesOff bool `key:"policiesOff" default:"false"`
}
