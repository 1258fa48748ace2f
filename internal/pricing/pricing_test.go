package pricing

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

var update = flag.Bool("update", false, "write the figures of docs/cost.md")

const page = "../../docs/cost.md"

// bytes returns the size of a golden's item in the table and its indexes, with the 100 bytes that
// AWS adds to the item and to each entry.
func bytes(t *testing.T, name string) (sum float64) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../table/testdata/items", name))
	check.Must(t, err)
	var it map[string]map[string]any
	check.Must(t, json.Unmarshal(text, &it))
	size := func(attr string) float64 {
		n := float64(len(attr))
		for kind, v := range it[attr] {
			text := fmt.Sprint(v)
			n += float64(len(text)) * map[string]float64{"S": 1, "N": 0.6, "B": 0.75, "BOOL": 0.2}[kind]
		}
		return n
	}
	for attr := range it {
		sum += size(attr)
	}
	sum += 100
	for _, index := range []string{"GSI1", "GSI2", "GSI3", "GSI4"} {
		if it[index+"PK"] != nil {
			sum += 100 + size("PK") + size("SK") + size(index+"PK") + size(index+"SK")
		}
	}
	return sum
}

// The computed storage equals the sizes of the table's goldens, with indexes, and with ids of 40
// letters instead of 5.
func TestStorageMatchesTheGoldenItems(t *testing.T) {
	for name, is := range map[string]float64{"bucket.json": bytesOfBucket, "usage_hourly.json": bytesOfSnapshot} {
		const longer, copies = 35, 8 // the id is in the keys of the item and of each entry, and in an attribute
		least, most := bytes(t, name), bytes(t, name)+longer*copies
		if is < least || is > most {
			t.Errorf("%s: %.0f bytes, the golden takes %.0f, with longer ids up to %.0f", name, is, least, most)
		}
	}
}

// At break-even use, provisioned capacity costs as much as on demand. With more use it costs less,
// and with less use more.
func TestBreakEven(t *testing.T) {
	const even = DollarsPerWriteUnitHour / 3600 / priceWrite
	u := Use{Rate: 1000, Settled: 0.5, Levels: 1, Processes: 4, Entities: 200, Windows: 2, FoldSeconds: 60,
		SnapshotDays: 90, StreamShards: 4}
	demand, provisioned := Stack{Table: true}, Stack{Table: true, Provisioned: true}
	ratio := func(part float64) float64 {
		u.Utilization = part
		return Sum(Month(u, provisioned)) / Sum(Month(u, demand))
	}
	if at := ratio(even); math.Abs(at-1) > 0.01 { // storage costs the same
		t.Errorf("at %.3f of capacity %.3f times as much", even, at)
	}
	if above, below := ratio(0.7), ratio(0.2); above > 0.45 || below < 1.4 {
		t.Errorf("at 70 %% %.2f times as much, at 20 %% %.2f", above, below)
	}
	for rate, pays := range map[float64]bool{20: false, 30: true} { // docs/cost.md says 25
		u := Use{Rate: rate, Levels: 1, LimitsInCode: true, Utilization: 0.5}
		check.Equal(t, Sum(Month(u, Provisioned(demand))) < Sum(Month(u, demand)), pays,
			"%v acquires a second, half of the capacity used: it is cheaper", rate)
	}
	least := provisioned
	least.LeastWrite = 1e4
	if all := Sum(Month(u, least)); all < 1e4*monthHours*DollarsPerWriteUnitHour {
		t.Errorf("%.0f dollars, less than the least capacity costs", all)
	}
}

// First uses, reads of limits and writes of usage are at most one per request each.
func TestCostsAreAtMostOnePerRequest(t *testing.T) {
	u := Use{Rate: 0.001, Levels: 1, Processes: 100, Starts: 1, Entities: 1000, Windows: 2, FoldSeconds: 60,
		SnapshotDays: 90, StreamShards: 4, Utilization: 1}
	units := map[string]float64{}
	for _, l := range Month(u, Default()) {
		units[l.Part] = l.Units
	}
	if n := units["acquire"]; n == 0 || units["read stored limits"] != 2.5*n || units["usage"] != 6*n ||
		units["invocations"] > n || units["first touches"] != n/2 {
		t.Errorf("%v", units)
	}
}

// The usage of a computed month equals the measured one within a twentieth (make prices). The
// measured runs begin more days than an average hour.
func TestUsageMatchesMeasuredMonths(t *testing.T) {
	for _, c := range []struct {
		tenants     int
		rate, fold  float64
		windows     int
		unitsWanted float64 // write units per acquire, with indexes
	}{
		{1000, 100, 60, 1, 0.124},
		{1000, 100, 60, 2, 0.130},
		{1000, 100, 60, 3, 0.135},
		{1000, 100, 300, 2, 0.041},
		{1000, 100, 900, 2, 0.018},
		{1000, 100, 900, 3, 0.020},
		{10000, 100, 60, 1, 0.308},
		{10000, 100, 60, 2, 0.343},
		{10000, 100, 60, 3, 0.377},
		{10000, 100, 300, 2, 0.223},
		{10000, 100, 900, 1, 0.133},
		{10000, 100, 900, 2, 0.147},
		{10000, 100, 900, 3, 0.161},
		{100000, 500, 60, 2, 0.381},
	} {
		u := Use{Entities: c.tenants, Rate: c.rate, FoldSeconds: c.fold, Windows: c.windows, Skew: 1.1, Levels: 1}
		all, _ := u.usage()
		if got := all / u.requests(); math.Abs(got-c.unitsWanted) > c.unitsWanted/20 {
			t.Errorf("%+v: %.3f units for each acquire", c, got)
		}
	}
}

func TestUseIsChecked(t *testing.T) {
	right := Use{Rate: 1, Levels: 1, Processes: 1, Entities: 1, SnapshotDays: 1, StreamShards: 1, Utilization: 0.5}
	most := right
	most.Utilization = 1
	most.Settled, most.Levels, most.Skew, most.Windows, most.FoldSeconds, most.Ahead = 1, 4, 3, 3, 900, 600
	for _, u := range []Use{right, most} {
		check.Must(t, u.Check(), "%+v", u)
	}
	for name, change := range map[string]func(*Use){
		"rate": func(u *Use) { u.Rate = 0 }, "rate below": func(u *Use) { u.Rate = -1 },
		"settled": func(u *Use) { u.Settled = 1.1 }, "settled below": func(u *Use) { u.Settled = -.1 },
		"levels": func(u *Use) { u.Levels = 5 }, "no level": func(u *Use) { u.Levels = 0 },
		"windows": func(u *Use) { u.Windows = 4 }, "windows below": func(u *Use) { u.Windows = -1 },
		"fold": func(u *Use) { u.FoldSeconds = 900.1 }, "fold below": func(u *Use) { u.FoldSeconds = -1 },
		"skew": func(u *Use) { u.Skew = 3.1 }, "skew below": func(u *Use) { u.Skew = -.1 },
		"ahead": func(u *Use) { u.Ahead = 600.1 }, "ahead below": func(u *Use) { u.Ahead = -1 },
		"starts": func(u *Use) { u.Starts = -1 }, "any starts": func(u *Use) { u.Starts = math.NaN() },
		"audits": func(u *Use) { u.Audits = -1 }, "no process": func(u *Use) { u.Processes = 0 },
		"no entity": func(u *Use) { u.Entities = 0 }, "no day": func(u *Use) { u.SnapshotDays = 0 },
		"shards": func(u *Use) { u.StreamShards = 0 }, "utilization": func(u *Use) { u.Utilization = 0 },
		"more than all": func(u *Use) { u.Utilization = 1.1 }, "not a number": func(u *Use) { u.Utilization = math.NaN() },
		"any rate": func(u *Use) { u.Rate = math.Inf(1) }, "no rate": func(u *Use) { u.Rate = math.NaN() },
		"no part": func(u *Use) { u.Settled = math.NaN() }, "no skew": func(u *Use) { u.Skew = math.NaN() },
		"no fold": func(u *Use) { u.FoldSeconds = math.NaN() }, "no event": func(u *Use) { u.Audits = math.NaN() },
		"any events": func(u *Use) { u.Audits = math.Inf(1) }, "too many": func(u *Use) { u.Entities = math.MaxInt },
	} {
		u := right
		if change(&u); u.Check() == nil {
			t.Errorf("%s is accepted: %+v", name, u)
		}
	}
}

func TestUnknownResourcesAreRefused(t *testing.T) {
	for text, want := range map[string]string{"Resources:": "template: ",
		`{"Resources":{"X":{"Type":"AWS::Neptune::DBCluster"}}}`: "resource X: nothing is known of the price of AWS::Nep",
	} {
		if s, err := Of([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
	}
}

// everything is a template with all resources that are billed, and some that are free.
const everything = `{"Resources": {
	"Table": {"Type": "AWS::DynamoDB::Table", "Properties": {"BillingMode": "PROVISIONED",
		"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true},
		"SSESpecification": {"KMSMasterKeyId": "one"},
		"ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6},
		"GlobalSecondaryIndexes": [
			{"IndexName": "GSI2", "Projection": {"ProjectionType": "ALL"},
				"ProvisionedThroughput": {"ReadCapacityUnits": 7, "WriteCapacityUnits": 8}},
			{"IndexName": "GSI3", "Projection": {"ProjectionType": "KEYS_ONLY"},
				"ProvisionedThroughput": {"ReadCapacityUnits": 9, "WriteCapacityUnits": 10}}]}},
	"Scaled": {"Type": "AWS::ApplicationAutoScaling::ScalableTarget"},
	"Scaling": {"Type": "AWS::ApplicationAutoScaling::ScalingPolicy"},
	"Aggregator1": {"Type": "AWS::Lambda::Function", "Properties": {"MemorySize": 512,
		"TracingConfig": {"Mode": "Active"}, "KmsKeyArn": {"Ref": "two"}}},
	"Archiver1": {"Type": "AWS::Lambda::Function", "Properties": {"MemorySize": 256, "KmsKeyArn": {"Ref": "two"},
		"TracingConfig": {"Mode": "PassThrough"}}},
	"Mapping1": {"Type": "AWS::Lambda::EventSourceMapping", "Properties": {"MetricsConfig": {"Metrics": ["EventCount"]}}},
	"Mapping2": {"Type": "AWS::Lambda::EventSourceMapping"},
	"Logs1": {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": 30, "KmsKeyId": "three"}},
	"Logs2": {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": 7}},
	"Plain": {"Type": "AWS::CloudWatch::Alarm"},
	"OfOne": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"Metrics": [{}, {}]}},
	"OfThree": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"Metrics": [{}, {}, {}, {}]}},
	"Dashboard": {"Type": "AWS::CloudWatch::Dashboard"},
	"Bucket": {"Type": "AWS::S3::Bucket"},
	"Free1": {"Type": "AWS::EC2::SecurityGroup"}, "Free2": {"Type": "AWS::IAM::ManagedPolicy"},
	"Free3": {"Type": "AWS::IAM::Policy"}, "Free4": {"Type": "AWS::IAM::Role"}, "Free5": {"Type": "AWS::KMS::Key"},
	"Free6": {"Type": "AWS::S3::BucketPolicy"}, "Free7": {"Type": "AWS::SNS::TopicPolicy"},
	"Free8": {"Type": "AWS::Lambda::EventInvokeConfig"},
	"Free9": {"Type": "Custom::ZaeLimiterSetup"}}}`

// A template's bill has every resource with a price, and no free ones.
func TestTemplatesAreBilledForPricedResources(t *testing.T) {
	of := func(text string) Stack {
		t.Helper()
		s, err := Of([]byte(text))
		check.Must(t, err)
		return s
	}
	all := Stack{Table: true, Recovery: true, Copied: true, Provisioned: true, LeastWrite: 6, LeastRead: 5,
		LeastIndexWrite: 18, LeastIndexRead: 16, Scaled: 1, Aggregator: 512, Archiver: 256, Traced: true,
		MappingMetrics: 1, LogDays: 30, Alarms: 5, Dashboards: 1, Buckets: 1, Keys: 3}
	for range 20 { // resources have no order
		check.MustEqual(t, of(everything), all, "everything")
	}
	less := strings.NewReplacer("PROVISIONED", "PAY_PER_REQUEST", `"ALL"`, `"KEYS_ONLY"`, `"KEYS_ONLY"`, `"ALL"`,
		`"Active"`, `"PassThrough"`, `: "three"`, `: "one"`, `Enabled": true`, `Enabled": false`)
	all.Provisioned, all.Copied, all.Traced, all.Recovery, all.Keys = false, false, false, false, 2
	check.Equal(t, of(less.Replace(everything)), all, "less")
}

// Amounts are short, and plural unless they are one.
func TestAmountsAreShort(t *testing.T) {
	for want, l := range map[string]Line{
		"": {Units: 7}, "1 key": {Units: 1, Kind: "key"}, "2 keys": {Units: 2, Kind: "key"},
		"0.5 keys": {Units: .5, Kind: "key"}, "0.0123 GB": {Units: .012345, Kind: "GB"}, "2 GB s": {Units: 2, Kind: "GB s"},
		"12.3 calls": {Units: 12.345, Kind: "call"}, "123 calls": {Units: 123.45, Kind: "call"},
		"1000 calls": {Units: 999.7, Kind: "call"}, "1235 calls": {Units: 1234.6, Kind: "call"},
		"99999 calls": {Units: 99_999, Kind: "call"}, "0.1 M calls": {Units: 1e5, Kind: "call"},
		"30.4 M write units": {Units: 30.41e6, Kind: "write unit"},
	} {
		check.Equal(t, l.Amount(), want, "%+v", l)
	}
}
