package cdk

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/pricing"
)

// addDashboard declares the first page for an on-call person: from top to bottom, the active
// alarms, the requests, the functions' delays, the table, and the cost. The first three dashboards
// of an account are free.
func (l *Limiter) addDashboard() {
	l.Dashboard = awscloudwatch.NewDashboard(l.Construct, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{
		DefaultInterval: awscdk.Duration_Hours(jsii.Number(3)),
	})
	if len(l.Alarms) > 0 {
		var all []interfacesawscloudwatch.IAlarmRef
		for _, name := range slices.Sorted(maps.Keys(l.Alarms)) {
			all = append(all, l.Alarms[name])
		}
		l.Dashboard.AddWidgets(awscloudwatch.NewAlarmStatusWidget(&awscloudwatch.AlarmStatusWidgetProps{
			Title: jsii.String("Alarms (docs/operations.md says what to do)"), Alarms: &all,
			Width: jsii.Number(24), Height: jsii.Number(5),
		}))
	}
	l.Dashboard.AddWidgets(
		graph("Requests", "a minute", with(label("written: granted, settled, given back"), l.updates("SampleCount", 1)),
			with(label("refused: denied, or decided again"), l.tableMetric("ConditionalCheckFailedRequests", ""))),
		graph("Latency of UpdateItem", "ms", l.latency("p50"), l.latency("p99")),
	)
	l.Dashboard.AddWidgets(l.functionGraphs()...)
	units := l.capacities("ConsumedWriteCapacityUnits")
	if l.Aggregator != nil { // which MaxWriteUnits bounds
		units = append(units, l.Metric(l.Aggregator, function.MetricWriteUnits, label("of these the aggregator's")))
	}
	l.Dashboard.AddWidgets(
		graph("Write units", "a minute", units...),
		graph("Read units", "a minute", l.capacities("ConsumedReadCapacityUnits")...),
		graph("Throttled requests", "a minute",
			append(l.capacities("WriteThrottleEvents"), l.capacities("ReadThrottleEvents")...)...),
	)
	l.Dashboard.AddWidgets(l.cost())
}

// functionGraphs returns graphs of the batches' health, their age, and the aggregator's work on the
// buckets.
func (l *Limiter) functionGraphs() []awscloudwatch.IWidget {
	var batches, ages, work []awscloudwatch.IMetric
	for _, fn := range l.functions() {
		by := dimensions{"FunctionName": fn.FunctionName()}
		who := *fn.Node().Id()
		batches = append(batches,
			with(label(who+" batches"), metric("AWS/Lambda", "Invocations", "Sum", 1, by)),
			with(label(who+" failed"), metric("AWS/Lambda", "Errors", "Sum", 1, by)),
			l.Metric(fn, function.MetricMalformed, label(who+" malformed records")),
			l.Metric(fn, function.MetricWritesFailed, label(who+" failed writes")))
		ages = append(ages,
			with(label(who+" age"), metric("AWS/Lambda", "IteratorAge", "Maximum", 1, by)),
			with(label(who+" duration"), metric("AWS/Lambda", "Duration", "Maximum", 1, by)))
	}
	if l.Aggregator != nil {
		ages = append(ages, l.Metric(l.Aggregator, function.MetricUsageLagMs, label("Usage not written yet")))
		for _, name := range []string{function.MetricChanges, function.MetricRefills, function.MetricShardSteps} {
			work = append(work, l.Metric(l.Aggregator, name, nil))
		}
	}
	var out []awscloudwatch.IWidget
	if len(batches) > 0 {
		out = append(out, graph("Batches", "a minute", batches...),
			graph("Age of the stream, and time a batch takes", "ms", ages...))
	}
	if len(work) > 0 {
		out = append(out, graph("Bucket changes seen, refills, shard steps", "a minute", work...))
	}
	return out
}

// cost estimates the cost of a month of 30 days from the last hours.
func (l *Limiter) cost() awscloudwatch.IWidget {
	kind, statistic, mode := "Consumed", "Sum", "on demand"
	expression := fmt.Sprintf("(FILL(w, 0) * %g + FILL(r, 0) * %g) / 1000000 * 720",
		pricing.DollarsPerMillionWrites, pricing.DollarsPerMillionReads)
	if l.props.Table.provisioned() {
		kind, statistic, mode = "Provisioned", "Average", "provisioned"
		expression = fmt.Sprintf("(w * %g + r * %g) * 720", pricing.DollarsPerWriteUnitHour, pricing.DollarsPerReadUnitHour)
	}
	by := dimensions{"TableName": l.Table.TableName()}
	using := map[string]awscloudwatch.IMetric{
		"w": metric("AWS/DynamoDB", kind+"WriteCapacityUnits", statistic, 60, by),
		"r": metric("AWS/DynamoDB", kind+"ReadCapacityUnits", statistic, 60, by),
	}
	return graph("Estimated cost of the table, at this rate: requests only, "+mode+", us-east-1", "dollars a month",
		awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
			Expression: jsii.String(expression), Label: jsii.String("table without indexes"),
			Period: awscdk.Duration_Hours(jsii.Number(1)), UsingMetrics: &using,
		}))
}

func (l *Limiter) functions() (out []awslambda.Function) {
	for _, fn := range []awslambda.Function{l.Aggregator, l.Archiver} {
		if fn != nil {
			out = append(out, fn)
		}
	}
	return out
}

// latency returns a percentile of the duration of updates.
func (l *Limiter) latency(percentile string) awscloudwatch.IMetric {
	return with(label(percentile), l.updates(percentile, 1))
}

// updates returns a statistic of successful updates; a denied request is not one.
func (l *Limiter) updates(statistic string, minutes int) awscloudwatch.Metric {
	return metric("AWS/DynamoDB", "SuccessfulRequestLatency", statistic, minutes,
		dimensions{"TableName": l.Table.TableName(), "Operation": jsii.String("UpdateItem")})
}

// tableMetric returns a metric of the table, or of an index if index is not empty.
func (l *Limiter) tableMetric(name, index string) awscloudwatch.Metric {
	by := dimensions{"TableName": l.Table.TableName()}
	if index != "" {
		by["GlobalSecondaryIndexName"] = jsii.String(index)
	}
	return metric("AWS/DynamoDB", name, "Sum", 1, by)
}

func (l *Limiter) capacities(name string) []awscloudwatch.IMetric {
	out := []awscloudwatch.IMetric{with(label("table "+name), l.tableMetric(name, ""))}
	for _, index := range indexes() {
		out = append(out, with(label(index+" "+name), l.tableMetric(name, index)))
	}
	return out
}

func label(text string) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Label: jsii.String(text)}
}

func graph(title, unit string, metrics ...awscloudwatch.IMetric) awscloudwatch.IWidget {
	return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
		Title: jsii.String(title), Left: &metrics, Width: jsii.Number(8), Height: jsii.Number(6),
		LeftYAxis: &awscloudwatch.YAxisProps{Label: jsii.String(unit), ShowUnits: jsii.Bool(false), Min: jsii.Number(0)},
	})
}
