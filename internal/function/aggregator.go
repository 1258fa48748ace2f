package function

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Bounds and defaults of the aggregator's configuration.
const (
	DefaultSnapshotWindows  = "hourly,daily"
	DefaultSnapshotTTLDays  = 90
	DefaultMaxShards        = bucket.DefaultMaxShards
	DefaultMergeAfter       = 600 // seconds: longer than bursts, shorter than a day
	DefaultWriteConcurrency = 16

	MaxSnapshotTTLDays  = 3650
	MaxMaxShards        = bucket.MaxShards
	MaxMergeAfter       = 86_400
	MaxWriteConcurrency = 256
	MaxMaxWriteUnits    = 40_000 // DynamoDB's default limit for a table
)

// Aggregator is the configuration of functions/aggregator. Its zero value is
// not valid.
type Aggregator struct {
	TableName        string
	Windows          []string // hourly, daily, monthly, in the given order, without duplicates
	SnapshotTTLDays  int
	MaxShards        int // a power of two; 1 means that no bucket is split
	MergeAfter       int // seconds after a split or merge from which a cool bucket merges
	WriteConcurrency int
	MaxWriteUnits    int // write units per second for each environment; 0: no limit

	// Thresholds is the percents of quotas to report, ascending, by limit name; under "" for all
	// others.
	Thresholds map[string][]int
	// AlertTargetARN is the event bus or SNS topic for thresholds. Empty: none are sent.
	AlertTargetARN string

	// DeadLetterBucketName is the S3 bucket for malformed records. If it is empty, they are
	// reported as not done, so Lambda retries them and finally sends them to the on-failure
	// destination.
	DeadLetterBucketName string
}

// nameOf reports whether s has from least to most characters, all letters, digits or among others.
// Compiling a regular expression with such a count would take longer than everything else at the
// start of the functions.
func nameOf(s string, least, most int, others string) bool {
	if len(s) < least || len(s) > most {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case !strings.Contains(others, string(c)):
			return false
		}
	}
	return true
}

const wantTableName = "the name of a DynamoDB table: 3 to 255 letters, digits, dots, hyphens and underscores"

func isTableName(s string) bool { return nameOf(s, 3, 255, "_.-") }

func isBucketName(s string) bool {
	return nameOf(s, 3, 63, ".-") && s == strings.ToLower(s) &&
		!strings.ContainsAny(s[:1]+s[len(s)-1:], ".-")
}

// AggregatorFromEnv reads the configuration of functions/aggregator from the environment through
// getenv. An empty variable has its default. The error joins all problems; each names the variable,
// its value and the accepted values.
func AggregatorFromEnv(getenv func(string) string) (Aggregator, error) {
	e := env{getenv: getenv}
	c := Aggregator{
		TableName:        e.text(EnvTableName),
		Windows:          e.windows(),
		SnapshotTTLDays:  e.number(EnvSnapshotTTLDays, DefaultSnapshotTTLDays, 1, MaxSnapshotTTLDays),
		MaxShards:        e.number(EnvMaxShards, DefaultMaxShards, 1, MaxMaxShards),
		MergeAfter:       e.number(EnvMergeAfterSeconds, DefaultMergeAfter, 1, MaxMergeAfter),
		WriteConcurrency: e.number(EnvWriteConcurrency, DefaultWriteConcurrency, 1, MaxWriteConcurrency),
		MaxWriteUnits:    e.number(EnvMaxWriteUnits, 0, 1, MaxMaxWriteUnits),

		Thresholds:           e.thresholds(),
		AlertTargetARN:       e.text(EnvAlertTargetARN),
		DeadLetterBucketName: e.text(EnvDeadLetterBucketName),
	}
	if !isTableName(c.TableName) {
		e.wrong(EnvTableName, wantTableName)
	}
	if c.MaxShards&(c.MaxShards-1) != 0 {
		e.wrong(EnvMaxShards, fmt.Sprintf("a power of two from 1 to %d", MaxMaxShards))
	}
	if b := c.DeadLetterBucketName; b != "" && !isBucketName(b) {
		e.wrong(EnvDeadLetterBucketName,
			"nothing, or the name of an S3 bucket: 3 to 63 lower-case letters, digits, dots and hyphens")
	}
	if a := c.AlertTargetARN; a != "" && !isAlertTarget(a) {
		e.wrong(EnvAlertTargetARN, "nothing, or the ARN of an event bus or of a standard SNS topic")
	}
	if len(e.problems) > 0 {
		return Aggregator{}, errors.Join(e.problems...)
	}
	return c, nil
}

// WindowNames are the kinds of windows that usage is counted in.
func WindowNames() []string { return []string{"hourly", "daily", "monthly"} }

// env reads variables and collects their problems.
type env struct {
	getenv   func(string) string
	problems []error
}

func (e *env) text(name string) string { return strings.TrimSpace(e.getenv(name)) }

func (e *env) wrong(name, want string) {
	e.problems = append(e.problems, fmt.Errorf("%s=%q: want %s", name, e.getenv(name), want))
}

func (e *env) number(name string, byDefault, least, most int) int {
	s := e.text(name)
	if s == "" {
		return byDefault
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		e.wrong(name, fmt.Sprintf("a whole number from %d to %d", least, most))
		return byDefault
	}
	return n
}

func (e *env) windows() []string {
	s := e.text(EnvSnapshotWindows)
	if s == "" {
		s = DefaultSnapshotWindows
	}
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		w := strings.TrimSpace(part)
		if !slices.Contains(WindowNames(), w) || slices.Contains(out, w) {
			e.wrong(EnvSnapshotWindows, "hourly, daily and monthly, separated by commas, each at most once")
			return nil
		}
		out = append(out, w)
	}
	return out
}
