package cdk

import (
	"fmt"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/bill"
	"github.com/zeroae/zae-limiter-go/internal/function"
)

// addDashboard declares what an on-call person looks at first: from top to
// bottom, what is wrong, whether requests are served, whether the functions keep
// up, what the table does, and what it costs. The first three dashboards of an
// account are free.
func (l *Limiter) addDashboard() {
	l.Dashboard = awscloudwatch.NewDashboard(l.Construct, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{
		DefaultInterval: awscdk.Duration_Hours(jsii.Number(3)),
	})
	if len(l.Alarms) > 0 {
		var all []interfacesawscloudwatch.IAlarmRef
		for _, name := range sorted(l.Alarms) {
			all = append(all, l.Alarms[name])
		}
		l.Dashboard.AddWidgets(awscloudwatch.NewAlarmStatusWidget(&awscloudwatch.AlarmStatusWidgetProps{
			Title: jsii.String("Alarms (docs/operations.md says what to do)"), Alarms: &all,
			Width: jsii.Number(24), Height: jsii.Number(5),
		}))
	}
	l.Dashboard.AddWidgets(
		graph("Requests", "a minute", l.operation("UpdateItem", "SampleCount", "written: granted, settled, given back"),
			labelled(l.tableMetric("ConditionalCheckFailedRequests", ""), "refused: denied, or decided again")),
		graph("Latency of UpdateItem", "ms",
			l.operation("UpdateItem", "p50", "p50"), l.operation("UpdateItem", "p99", "p99")),
	)
	l.Dashboard.AddWidgets(l.functionGraphs()...)
	l.Dashboard.AddWidgets(
		graph("Write units", "a minute", append(l.capacities("ConsumedWriteCapacityUnits"), l.aggregatorUnits()...)...),
		graph("Read units", "a minute", l.capacities("ConsumedReadCapacityUnits")...),
		graph("Throttled requests", "a minute",
			append(l.capacities("WriteThrottleEvents"), l.capacities("ReadThrottleEvents")...)...),
	)
	l.Dashboard.AddWidgets(l.cost())
}

// functionGraphs are the batches' health, their age, and what the aggregator
// does for the buckets.
func (l *Limiter) functionGraphs() []awscloudwatch.IWidget {
	var batches, ages, work []awscloudwatch.IMetric
	for _, fn := range l.functions() {
		by := dimensions{"FunctionName": fn.FunctionName()}
		own := dimensions{function.DimensionFunction: fn.FunctionName()}
		who := *fn.Node().Id()
		batches = append(batches,
			labelled(metric("AWS/Lambda", "Invocations", "Sum", 1, by), who+" batches"),
			labelled(metric("AWS/Lambda", "Errors", "Sum", 1, by), who+" failed"),
			labelled(metric(function.MetricNamespace, function.MetricMalformed, "Sum", 1, own), who+" malformed records"),
			labelled(metric(function.MetricNamespace, function.MetricWritesFailed, "Sum", 1, own), who+" failed writes"))
		ages = append(ages,
			labelled(metric("AWS/Lambda", "IteratorAge", "Maximum", 1, by), who+" age"),
			labelled(metric("AWS/Lambda", "Duration", "Maximum", 1, by), who+" duration"))
	}
	if l.Aggregator != nil {
		own := dimensions{function.DimensionFunction: l.Aggregator.FunctionName()}
		ages = append(ages, labelled(metric(function.MetricNamespace, function.MetricUsageLagMs, "Maximum", 1, own),
			"Usage not written yet"))
		for _, name := range []string{function.MetricChanges, function.MetricRefills, function.MetricShardSteps} {
			work = append(work, metric(function.MetricNamespace, name, "Sum", 1, own))
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

// aggregatorUnits are the write units that the aggregator takes, which MaxWriteUnits bounds.
func (l *Limiter) aggregatorUnits() []awscloudwatch.IMetric {
	if l.Aggregator == nil {
		return nil
	}
	own := dimensions{function.DimensionFunction: l.Aggregator.FunctionName()}
	units := metric(function.MetricNamespace, function.MetricWriteUnits, "Sum", 1, own)
	return []awscloudwatch.IMetric{labelled(units, "of these the aggregator's")}
}

// cost estimates what the last hours would cost in a month of 30 days.
func (l *Limiter) cost() awscloudwatch.IWidget {
	kind, statistic, mode := "Consumed", "Sum", "on demand"
	expression := fmt.Sprintf("(FILL(w, 0) * %g + FILL(r, 0) * %g) / 1000000 * 720",
		bill.DollarsPerMillionWrites, bill.DollarsPerMillionReads)
	if l.props.Table.provisioned() {
		kind, statistic, mode = "Provisioned", "Average", "provisioned"
		expression = fmt.Sprintf("(w * %g + r * %g) * 720", bill.DollarsPerWriteUnitHour, bill.DollarsPerReadUnitHour)
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

// operation is a figure of one operation on the table.
func (l *Limiter) operation(name, statistic, label string) awscloudwatch.IMetric {
	return labelled(metric("AWS/DynamoDB", "SuccessfulRequestLatency", statistic, 1,
		dimensions{"TableName": l.Table.TableName(), "Operation": jsii.String(name)}), label)
}

// tableMetric is a metric of the table, or of an index if it is not empty.
func (l *Limiter) tableMetric(name, index string) awscloudwatch.IMetric {
	by := dimensions{"TableName": l.Table.TableName()}
	if index != "" {
		by["GlobalSecondaryIndexName"] = jsii.String(index)
	}
	return metric("AWS/DynamoDB", name, "Sum", 1, by)
}

func (l *Limiter) capacities(name string) []awscloudwatch.IMetric {
	out := []awscloudwatch.IMetric{labelled(l.tableMetric(name, ""), "table "+name)}
	for _, index := range indexes() {
		out = append(out, labelled(l.tableMetric(name, index), index+" "+name))
	}
	return out
}

func labelled(m awscloudwatch.IMetric, label string) awscloudwatch.IMetric {
	return m.(awscloudwatch.Metric).With(&awscloudwatch.MetricOptions{Label: jsii.String(label)})
}

func graph(title, unit string, metrics ...awscloudwatch.IMetric) awscloudwatch.IWidget {
	return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
		Title: jsii.String(title), Left: &metrics, Width: jsii.Number(8), Height: jsii.Number(6),
		LeftYAxis: &awscloudwatch.YAxisProps{Label: jsii.String(unit), ShowUnits: jsii.Bool(false), Min: jsii.Number(0)},
	})
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
