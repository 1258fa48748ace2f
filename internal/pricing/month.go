package pricing

import (
	"fmt"
	"math"
	"strings"
)

// Line is a line of the bill.
type Line struct {
	Part    string
	Units   float64
	Kind    string // the kind of units
	Dollars float64
	Of      string // the type of the billed resource
}

// The types of billed resources.
const (
	ofTable     = "AWS::DynamoDB::Table"
	ofScaling   = "AWS::ApplicationAutoScaling::ScalableTarget"
	ofFunction  = "AWS::Lambda::Function"
	ofMapping   = "AWS::Lambda::EventSourceMapping"
	ofLogs      = "AWS::Logs::LogGroup"
	ofAlarm     = "AWS::CloudWatch::Alarm"
	ofDashboard = "AWS::CloudWatch::Dashboard"
	ofBucket    = "AWS::S3::Bucket"
	ofKey       = "AWS::KMS::Key"
)

// Kinds of units of a table.
const (
	kindWrite = "write unit"
	kindRead  = "read unit"
)

// bill is a bill under construction.
type bill struct {
	use   Use
	stack Stack
	lines []Line
}

func (b *bill) add(of, part string, units float64, kind string, price float64) {
	if units > 0 {
		b.lines = append(b.lines, Line{Part: part, Units: units, Kind: kind, Dollars: units * price, Of: of})
	}
}

// Month returns what a month costs, line by line. Stored limits and usage are counted as if all
// entities were in use all the time, so the real cost may be lower. It leaves out denials, which
// are at most one write per process, bucket and second, and one-time costs.
func Month(u Use, s Stack) []Line {
	b := &bill{use: u, stack: s}
	if s.Table {
		b.requests()
		b.storage()
	}
	b.functions()
	b.watching()
	b.archive()
	return b.lines
}

// Sum returns the dollars of all lines.
func Sum(lines []Line) (dollars float64) {
	for _, l := range lines {
		dollars += l.Dollars
	}
	return dollars
}

// requests adds the reads and writes of the table.
func (b *bill) requests() {
	u, levels := b.use, float64(b.use.Levels)
	write, read := priceWrite, priceRead
	if b.stack.Provisioned {
		write, read = DollarsPerWriteUnitHour/3600, DollarsPerReadUnitHour/3600
	}
	b.add(ofTable, "acquire", u.requests()*levels*u.perAcquire()*unitsOfAcquire, kindWrite, write)
	b.add(ofTable, "first touches", u.touches()*levels*unitsOfTouch, kindRead, read)
	b.add(ofTable, "settle", u.requests()*u.perSettled()*levels*unitsOfAcquire, kindWrite, write)
	copies := 0.0
	if b.stack.Copied {
		copies = u.changes() * unitsOfAcquire
	}
	b.add(ofTable, "whole items in GSI2", copies, kindWrite, write)
	if !u.LimitsInCode {
		reads := min(float64(u.Processes*u.Entities)*monthHours*60, u.requests())
		b.add(ofTable, "read stored limits", reads*levels*unitsOfConfig, kindRead, read)
	}
	usage, indexes := u.usage()
	b.add(ofTable, "usage", usage*levels, kindWrite, write)
	b.add(ofTable, "read for usage", u.readsOfUsage()*levels, kindRead, read)
	if b.stack.Provisioned {
		b.unused(copies + indexes*levels)
	}
}

// unused adds provisioned capacity that is not used, of the table and of its indexes, from which we
// do not read.
func (b *bill) unused(indexes float64) {
	var writes, reads float64
	for _, l := range b.lines {
		if l.Kind == kindWrite {
			writes += l.Units
		} else {
			reads += l.Units
		}
	}
	idle := func(used, least float64) float64 { // in unit hours
		return max(least*monthHours, used/3600/b.use.Utilization) - used/3600
	}
	s := b.stack
	b.add(ofTable, "write capacity not used", idle(writes-indexes, s.LeastWrite)+idle(indexes, s.LeastIndexWrite),
		"unit hour", DollarsPerWriteUnitHour)
	b.add(ofTable, "read capacity not used", idle(reads, s.LeastRead)+idle(0, s.LeastIndexRead),
		"unit hour", DollarsPerReadUnitHour)
	const alarmsOfATarget = 4
	b.add(ofScaling, "alarms of auto scaling", float64(s.Scaled*alarmsOfATarget), "metric", priceAlarmMetric)
}

func (b *bill) storage() {
	b.add(ofTable, "storage", b.use.stored(), "GB", priceStored)
	if b.stack.Recovery {
		b.add(ofTable, "point-in-time recovery", b.use.stored(), "GB", priceRecovery)
	}
}

// functions adds the functions and their logs.
func (b *bill) functions() {
	u, s := b.use, b.stack
	n, archived := u.invocations(), u.Audits
	if s.Aggregator == 0 {
		n = 0
	}
	if s.Archiver == 0 {
		archived = 0
	}
	seconds := n*msOfInvocation/1000 + u.changes()*msOfRecord/1000
	b.add(ofFunction, "invocations", n+archived, "invocation", priceInvocation)
	b.add(ofFunction, "time of functions", seconds*float64(s.Aggregator)/1024+
		archived*msOfInvocation/1000*float64(s.Archiver)/1024, "GB s", priceGBSecond)
	if s.Traced { // one per second, and a twentieth of the rest
		first := min(n, monthSeconds)
		b.add(ofFunction, "traces", first+(n-first)/20, "trace", priceTrace)
	}
	// The aggregator reports changes, refills, write units and the lag of usage, the archiver
	// changes, in the hours in which they have work.
	own := 0.0
	if n > 0 {
		own += float64(len(Reported())) * busy(u.changes())
	}
	own += busy(archived)
	b.add(ofFunction, "metrics of functions", own, "metric", priceMetric)
	if s.LogDays > 0 {
		logged := (n + archived) * BytesLogged / gb
		b.add(ofLogs, "logs", logged, "GB", priceLogged)
		b.add(ofLogs, "logs kept", logged*s.LogDays/monthDays, "GB", priceLogsKept)
	}
}

// Reported returns the metrics that the aggregator reports with nearly every batch. It reports the
// other published ones only if something is wrong, or a bucket is split.
func Reported() []string { return []string{"Changes", "Refills", "UsageLagMs", "WriteUnits"} }

// metricsOfAMapping is the number of metrics that a stream's mapping reports. They are billed like
// ours.
const metricsOfAMapping = 6

// watching adds alarms, metrics of mappings and dashboards.
func (b *bill) watching() {
	s := b.stack
	b.add(ofMapping, "metrics of mappings", float64(s.MappingMetrics)*metricsOfAMapping*busy(b.use.changes()), "metric",
		priceMetric)
	b.add(ofAlarm, "alarms", float64(s.Alarms), "metric", priceAlarmMetric)
	b.add(ofDashboard, "dashboard, one of the account's first three", float64(s.Dashboards), "dashboard", priceDashboard)
	b.add(ofKey, "keys", float64(s.Keys), "key", priceKey)
	if s.Keys > 0 { // each process and function requests the key of the table every five minutes
		b.add(ofKey, "calls of keys", float64(b.use.Processes+s.MappingMetrics*b.use.StreamShards)*monthHours*12, "call",
			priceKeyCall)
	}
}

// archive adds the S3 buckets: an object for each audit event, and a year of them. The bucket of
// failed records is normally empty.
func (b *bill) archive() {
	b.add(ofBucket, "buckets, empty", float64(b.stack.Buckets), "bucket", 0)
	if b.stack.Buckets > 0 && b.stack.Archiver > 0 {
		b.add(ofBucket, "objects archived", b.use.Audits, "object", pricePut)
		b.add(ofBucket, "archive, of a year", b.use.Audits*12*bytesOfAnArchived/gb, "GB", priceInS3)
	}
}

// Amount formats the number and the kind of units: "30.4 M write units"; empty for a sum.
func (l Line) Amount() string {
	kind, n := l.Kind, l.Units
	if kind == "" {
		return ""
	}
	if n != 1 && !strings.HasPrefix(kind, "GB") {
		kind += "s"
	}
	switch {
	case n >= 1e5:
		return fmt.Sprintf("%.1f M %s", n/1e6, kind)
	case n == math.Trunc(n), n >= 100:
		return fmt.Sprintf("%.0f %s", n, kind)
	}
	return fmt.Sprintf("%.3g %s", n, kind)
}
