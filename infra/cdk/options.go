package main

import (
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"

	"github.com/zeroae/zae-limiter-go/internal/config"
)

// contextPrefix starts the context keys of this app, so that a misspelt one is
// an error and not silently the default.
const contextPrefix = "zae-limiter:"

// options are what a deployment can choose, by context keys in cdk.json or on
// the command line: cdk deploy -c zae-limiter:stackName=prod-limits.
type options struct {
	// StackName names the stack and the table. Clients open the table by it.
	// Key stackName, default zae-limiter.
	StackName string
	// GSI2Projection is KEYS_ONLY, or ALL for fleets whose Python clients
	// query by resource; ALL doubles the write units of every acquire.
	// Key gsi2Projection, default KEYS_ONLY.
	GSI2Projection awsdynamodb.ProjectionType
	// SnapshotWindows lists the usage windows kept: hourly, daily, monthly.
	// Key snapshotWindows, default hourly,daily.
	SnapshotWindows string
	// SnapshotTTLDays is how many days a usage snapshot outlives its window.
	// Key snapshotTtlDays, 1 to 3650, default 90.
	SnapshotTTLDays int
	// MaxShards is the most shards a hot bucket is split into, a power of two.
	// Key maxShards, 1 to 1024, default 32.
	MaxShards int
	// WriteConcurrency is how many writes one aggregator invocation has in
	// flight. Key writeConcurrency, 1 to 256, default 16.
	WriteConcurrency int
	// LogRetentionDays is how many days the functions' logs are kept, one of
	// the periods CloudWatch offers. Key logRetentionDays, default 30.
	LogRetentionDays int
	// AlarmTopicARN is the SNS topic that alarms notify.
	// Key alarmTopicArn, default none: alarms only show their state.
	AlarmTopicARN string
}

func defaultOptions() options {
	return options{
		StackName:        "zae-limiter",
		GSI2Projection:   awsdynamodb.ProjectionType_KEYS_ONLY,
		SnapshotWindows:  config.DefaultSnapshotWindows,
		SnapshotTTLDays:  config.DefaultSnapshotTTLDays,
		MaxShards:        config.DefaultMaxShards,
		WriteConcurrency: config.DefaultWriteConcurrency,
		LogRetentionDays: 30,
	}
}

// logRetentions are the retention periods CloudWatch offers that make sense
// for a function's log, by days.
var logRetentions = map[int]awslogs.RetentionDays{
	1: awslogs.RetentionDays_ONE_DAY, 3: awslogs.RetentionDays_THREE_DAYS, 5: awslogs.RetentionDays_FIVE_DAYS,
	7: awslogs.RetentionDays_ONE_WEEK, 14: awslogs.RetentionDays_TWO_WEEKS, 30: awslogs.RetentionDays_ONE_MONTH,
	60: awslogs.RetentionDays_TWO_MONTHS, 90: awslogs.RetentionDays_THREE_MONTHS, 120: awslogs.RetentionDays_FOUR_MONTHS,
	150: awslogs.RetentionDays_FIVE_MONTHS, 180: awslogs.RetentionDays_SIX_MONTHS, 365: awslogs.RetentionDays_ONE_YEAR,
}

func (o options) logRetention() awslogs.RetentionDays { return logRetentions[o.LogRetentionDays] }

// A stack name is also a table name, so it obeys the rules of both.
var (
	stackNamePattern = regexp.MustCompile(`\A[A-Za-z][A-Za-z0-9-]{2,127}\z`)
	topicARNPattern  = regexp.MustCompile(`\Aarn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?\z`)
)

// optionsFromContext reads the options from an app's context. Keys without our
// prefix belong to others. All problems are reported together, each naming the
// key, its value and what is accepted.
func optionsFromContext(context map[string]any) (options, error) {
	opts := defaultOptions()
	var problems []error
	keys := make([]string, 0, len(context))
	for key := range context {
		if strings.HasPrefix(key, contextPrefix) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	for _, key := range keys {
		if accepted := opts.set(strings.TrimPrefix(key, contextPrefix), context[key]); accepted != "" {
			problems = append(problems, fmt.Errorf("context %s=%v: accepted: %s", key, context[key], accepted))
		}
	}
	return opts, errors.Join(problems...)
}

// set stores one option and returns "", or returns what would be accepted.
func (o *options) set(name string, value any) string {
	text, isText := value.(string)
	switch name {
	case "stackName":
		o.StackName = text
		return unless(stackNamePattern.MatchString(text), "3 to 128 letters, digits and hyphens, a letter first")
	case "gsi2Projection":
		o.GSI2Projection = awsdynamodb.ProjectionType(text)
		return unless(text == "KEYS_ONLY" || text == "ALL", "KEYS_ONLY or ALL")
	case "snapshotWindows":
		c, accepted := forAggregator(config.EnvSnapshotWindows, value)
		o.SnapshotWindows = strings.Join(c.Windows, ",")
		return accepted
	case "snapshotTtlDays":
		c, accepted := forAggregator(config.EnvSnapshotTTLDays, value)
		o.SnapshotTTLDays = c.SnapshotTTLDays
		return accepted
	case "maxShards":
		c, accepted := forAggregator(config.EnvMaxShards, value)
		o.MaxShards = c.MaxShards
		return accepted
	case "writeConcurrency":
		c, accepted := forAggregator(config.EnvWriteConcurrency, value)
		o.WriteConcurrency = c.WriteConcurrency
		return accepted
	case "logRetentionDays":
		n, err := strconv.Atoi(contextText(value))
		o.LogRetentionDays = n
		return unless(err == nil && logRetentions[n] != "", "one of 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365")
	case "alarmTopicArn":
		o.AlarmTopicARN = text
		return unless(isText && (text == "" || topicARNPattern.MatchString(text)), "the ARN of an SNS topic, or nothing")
	}
	return "one of the keys alarmTopicArn, gsi2Projection, logRetentionDays, maxShards, snapshotTtlDays, snapshotWindows, stackName, writeConcurrency"
}

func unless(ok bool, accepted string) string {
	if ok {
		return ""
	}
	return accepted
}

// forAggregator reads one variable of the aggregator's environment as the
// aggregator will, so that a deployment accepts what the function does. It
// returns what would be accepted, or "". Nothing, which means the default to the
// function, is not accepted here.
func forAggregator(name string, value any) (config.Aggregator, string) {
	text := contextText(value)
	if text == "" {
		text = "nothing"
	}
	c, err := config.AggregatorFromEnv(func(variable string) string {
		switch variable {
		case name:
			return text
		case config.EnvTableName:
			return "table"
		}
		return ""
	})
	if err != nil {
		_, accepted, _ := strings.Cut(err.Error(), ": want ")
		return config.Aggregator{}, accepted
	}
	return c, ""
}

// contextText returns a value as cdk.json gives it, or as the command line
// does.
func contextText(value any) string {
	if n, ok := value.(float64); ok {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return strings.TrimSpace(fmt.Sprint(value))
}
