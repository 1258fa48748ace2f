package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
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
	// SnapshotTTLDays is how many days a usage snapshot is kept.
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
		SnapshotWindows:  "hourly,daily",
		SnapshotTTLDays:  90,
		MaxShards:        32,
		WriteConcurrency: 16,
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

// usageWindows are the windows the aggregator knows.
var usageWindows = []string{"hourly", "daily", "monthly"}

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
		o.SnapshotWindows = text
		return unless(validWindows(text), "a comma-separated choice of hourly, daily and monthly, each once")
	case "snapshotTtlDays":
		return setInt(&o.SnapshotTTLDays, value, "a whole number from 1 to 3650", func(n int) bool { return 1 <= n && n <= 3650 })
	case "maxShards":
		return setInt(&o.MaxShards, value, "a power of two from 1 to 1024", func(n int) bool { return 1 <= n && n <= 1024 && n&(n-1) == 0 })
	case "writeConcurrency":
		return setInt(&o.WriteConcurrency, value, "a whole number from 1 to 256", func(n int) bool { return 1 <= n && n <= 256 })
	case "logRetentionDays":
		return setInt(&o.LogRetentionDays, value, "one of 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365", func(n int) bool {
			_, ok := logRetentions[n]
			return ok
		})
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

// setInt takes a number as cdk.json gives it, or as the command line does.
func setInt(field *int, value any, accepted string, valid func(int) bool) string {
	n := 0
	switch v := value.(type) {
	case float64:
		if v != math.Trunc(v) || math.Abs(v) > math.MaxInt32 {
			return accepted
		}
		n = int(v)
	case string:
		parsed, err := strconv.Atoi(v)
		if err != nil {
			return accepted
		}
		n = parsed
	default:
		return accepted
	}
	*field = n
	return unless(valid(n), accepted)
}

func validWindows(list string) bool {
	seen := map[string]bool{}
	for window := range strings.SplitSeq(list, ",") {
		if seen[window] || !slices.Contains(usageWindows, window) {
			return false
		}
		seen[window] = true
	}
	return true
}
