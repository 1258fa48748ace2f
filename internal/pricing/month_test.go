package pricing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// full is a stack with everything that is billed, on demand.
var full = Stack{Table: true, Recovery: true, Copied: true, Aggregator: 512, Archiver: 256, Traced: true,
	MappingMetrics: 2, LogDays: 14, Alarms: 30, Dashboards: 1, Buckets: 2, Keys: 1}

// quiet is a use in which some entities are idle for hours, and all are used within a day.
var quiet = Use{Rate: .001, Settled: .5, Levels: 2, Processes: 3, Starts: 2, Entities: 90, Windows: 3,
	FoldSeconds: 600, SnapshotDays: 10, StreamShards: 2, Audits: 100, Utilization: .5}

// A bill has these lines, in units and dollars.
func TestBillsHaveTheirLines(t *testing.T) {
	for _, c := range []struct {
		name  string
		use   Use
		stack Stack
		want  string
	}{
		{"quiet", quiet, full, `
DynamoDB::Table, acquire: 5256 write unit, $0.003285
DynamoDB::Table, first touches: 540 read unit, $6.75e-05
DynamoDB::Table, settle: 2628 write unit, $0.0016425
DynamoDB::Table, whole items in GSI2: 7884 write unit, $0.0049275
DynamoDB::Table, read stored limits: 13140 read unit, $0.0016425
DynamoDB::Table, usage: 37152 write unit, $0.02322
DynamoDB::Table, read for usage: 13140 read unit, $0.0016425
DynamoDB::Table, storage: 0.00409133589 GB, $0.00102283
DynamoDB::Table, point-in-time recovery: 0.00409133589 GB, $0.000818267
Lambda::Function, invocations: 7972.19171 invocation, $0.00159444
Lambda::Function, time of functions: 162.385834 GB s, $0.00216516
Lambda::Function, traces: 7872.19171 trace, $0.039361
Lambda::Function, metrics of functions: 4.12793623 metric, $1.23838
Logs::LogGroup, logs: 0.00677636296 GB, $0.00338818
Logs::LogGroup, logs kept: 0.0031189835 GB, $9.35695e-05
Lambda::EventSourceMapping, metrics of mappings: 11.9997552 metric, $3.59993
CloudWatch::Alarm, alarms: 30 metric, $3
CloudWatch::Dashboard, dashboard, one of the account's first three: 1 dashboard, $0
KMS::Key, keys: 1 key, $1
KMS::Key, calls of keys: 61320 call, $0.18396
S3::Bucket, buckets, empty: 2 bucket, $0
S3::Bucket, objects archived: 100 object, $0.0005
S3::Bucket, archive, of a year: 0.0012 GB, $2.76e-05
`},
		{"busy", Use{Rate: 5000, Settled: 1, Levels: 1, Processes: 20, Starts: 30, Ahead: .016, Entities: 1, Windows: 1,
			SnapshotDays: 90, StreamShards: 4, Utilization: .5},
			Stack{Table: true, Copied: true, Provisioned: true, LeastWrite: 5, LeastRead: 9, LeastIndexWrite: 20,
				Scaled: 10, Aggregator: 1, Traced: true, Buckets: 1}, `
DynamoDB::Table, acquire: 4.69285714e+09 write unit, $847.321
DynamoDB::Table, first touches: 300 read unit, $1.08333e-05
DynamoDB::Table, settle: 1.314e+10 write unit, $2372.5
DynamoDB::Table, whole items in GSI2: 1.78328571e+10 write unit, $3219.82
DynamoDB::Table, read stored limits: 2190000 read unit, $0.0790833
DynamoDB::Table, usage: 1.78328586e+10 write unit, $3219.82
DynamoDB::Table, read for usage: 1825 read unit, $6.59028e-05
DynamoDB::Table, write capacity not used: 14860714.7 unit hour, $9659.46
DynamoDB::Table, read capacity not used: 5961.07639 unit hour, $0.77494
ApplicationAutoScaling::ScalableTarget, alarms of auto scaling: 40 metric, $4
DynamoDB::Table, storage: 0.0023773 GB, $0.000594325
Lambda::Function, invocations: 17832857.1 invocation, $3.56657
Lambda::Function, time of functions: 18111.4955 GB s, $0.241488
Lambda::Function, traces: 3388242.86 trace, $16.9412
Lambda::Function, metrics of functions: 4 metric, $1.2
S3::Bucket, buckets, empty: 1 bucket, $0
`},
		{"limits in code, no usage", Use{Rate: 1, Levels: 3, Processes: 1, Entities: 4, LimitsInCode: true, SnapshotDays: 1,
			StreamShards: 1, Utilization: 1}, Stack{Table: true}, `
DynamoDB::Table, acquire: 7884000 write unit, $4.9275
DynamoDB::Table, storage: 1.56e-05 GB, $3.9e-06
`},
		{"folded long, with indexes, not archived", Use{Rate: .001, Levels: 2, Processes: 1, Entities: 5, LimitsInCode: true,
			Windows: 2, FoldSeconds: 600, SnapshotDays: 1, StreamShards: 1, Audits: 100, Utilization: .5},
			Stack{Table: true, Provisioned: true, LeastWrite: 1, Aggregator: 1, Buckets: 1}, `
DynamoDB::Table, acquire: 5256 write unit, $0.000949
DynamoDB::Table, usage: 20026.3333 write unit, $0.00361587
DynamoDB::Table, read for usage: 13140 read unit, $0.0004745
DynamoDB::Table, write capacity not used: 729.155093 unit hour, $0.473951
DynamoDB::Table, read capacity not used: 3.65 unit hour, $0.0004745
DynamoDB::Table, storage: 0.00021408 GB, $5.352e-05
Lambda::Function, invocations: 5245.50898 invocation, $0.0010491
Lambda::Function, time of functions: 0.210035507 GB s, $2.80049e-06
Lambda::Function, metrics of functions: 3.99701366 metric, $1.1991
S3::Bucket, buckets, empty: 1 bucket, $0
`},
		{"archived nowhere", quiet, Stack{Archiver: 1}, `
Lambda::Function, invocations: 100 invocation, $2e-05
Lambda::Function, time of functions: 0.00390625 GB s, $5.20836e-08
Lambda::Function, metrics of functions: 0.128017829 metric, $0.0384053
`},
		{"no table", quiet, Stack{Archiver: 1, LogDays: 1, Buckets: 1}, `
Lambda::Function, invocations: 100 invocation, $2e-05
Lambda::Function, time of functions: 0.00390625 GB s, $5.20836e-08
Lambda::Function, metrics of functions: 0.128017829 metric, $0.0384053
Logs::LogGroup, logs: 8.5e-05 GB, $4.25e-05
Logs::LogGroup, logs kept: 2.79452055e-06 GB, $8.38356e-08
S3::Bucket, buckets, empty: 1 bucket, $0
S3::Bucket, objects archived: 100 object, $0.0005
S3::Bucket, archive, of a year: 0.0012 GB, $2.76e-05
`},
	} {
		var b strings.Builder
		for _, l := range Month(c.use, c.stack) {
			fmt.Fprintf(&b, "%s, %s: %.9g %s, $%.6g\n", strings.TrimPrefix(l.Of, "AWS::"), l.Part, l.Units, l.Kind, l.Dollars)
		}
		check.Equal(t, "\n"+b.String(), c.want, "%s: the bill", c.name)
	}
}
