package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/option"
)

// contextPrefix begins the context keys of this app, so a misspelt key is an error instead of
// silently meaning the default.
const contextPrefix = "zae-limiter:"

// options are the settings of a deployment, by context keys in cdk.json or on the command line: cdk
// deploy -c zae-limiter:tableName=prod-limits.
type options struct {
	// StackName differs from the name of the Python client's stack, so both can be in one account.
	StackName             string `key:"stackName" default:"zae-limiter-go" is:"stackName"`
	TerminationProtection bool   `key:"terminationProtection" default:"false"`
	// ExistingStreamARN is the stream of an existing table; no table is created then.
	ExistingStreamARN string `key:"existingStreamArn" default:"a table of its own" is:"streamArn"`
	// MayLose are the logical ids that an update may replace or drop.
	MayLose []string `key:"mayLose" default:"none" is:"dataId" note:"else an update that would replace or drop it is refused"`
	// Manifests are the files of cdk.Props.Manifests.
	Manifests []string `key:"manifests" default:"none" is:"file" note:"limits, applied on deployment"`

	// Existing resources, by their ARN, id or name.
	KeyARN             string   `key:"keyArn" default:"keys that AWS owns" is:"keyArn" note:"of table and buckets"`
	LogKeyARN          string   `key:"logKeyArn" default:"a key of AWS" is:"keyArn" note:"its policy must let CloudWatch Logs use it"`
	EnvironmentKeyARN  string   `key:"environmentKeyArn" default:"a key of AWS" is:"keyArn" note:"of the functions' environments"`
	AggregatorRoleARN  string   `key:"aggregatorRoleArn" default:"a role of its own" is:"roleArn"`
	ArchiverRoleARN    string   `key:"archiverRoleArn" default:"a role of its own" is:"roleArn"`
	SetupRoleARN       string   `key:"setupRoleArn" default:"a role of its own" is:"roleArn"`
	AlarmTopicARN      string   `key:"alarmTopicArn" default:"none: alarms only show their state" is:"topicArn"`
	UrgentTopicARN     string   `key:"urgentTopicArn" default:"alarmTopicArn" is:"topicArn" note:"alarms that should wake somebody"`
	AlertTargetARN     string   `key:"alertTargetArn" default:"none: they are recorded and logged" is:"alertTargetArn" note:"thresholds of quotas are sent there"`
	PermissionBoundary string   `key:"permissionBoundary" default:"none" is:"boundary"`
	VPCID              string   `key:"vpcId" default:"no VPC" is:"vpcId" note:"with vpcSubnetIds and securityGroupIds"`
	SubnetIDs          []string `key:"vpcSubnetIds" default:"none" is:"subnetId"`
	SecurityGroupIDs   []string `key:"securityGroupIds" default:"none" is:"securityGroupId"`

	Limiter cdk.Props
}

// optionsFromContext reads the options from an app's context. All problems are reported together,
// each with the key, its value and the accepted values. Keys of other apps are ignored, unless they
// look like ours without the prefix.
func optionsFromContext(context map[string]any) (options, error) {
	opts := options{StackName: "zae-limiter-go"}
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(context)) {
		name, ours := strings.CutPrefix(key, contextPrefix)
		if !ours {
			if meant := resembled(key); meant != "" {
				problems = append(problems, fmt.Errorf("context %s: did you mean %s%s?", key, contextPrefix, meant))
			}
			continue
		}
		known, err := option.Set(&opts, name, context[key])
		switch {
		case !known && resembled(name) != "":
			problems = append(problems, fmt.Errorf("context %s: did you mean %s%s?", key, contextPrefix, resembled(name)))
		case !known:
			var all []string
			for _, o := range option.Of(options{}) {
				all = append(all, o.Key)
			}
			slices.Sort(all)
			problems = append(problems,
				fmt.Errorf("context %s: no such option; there are %s", key, strings.Join(all, ", ")))
		case err != nil:
			problems = append(problems, fmt.Errorf("context %s=%v: %w", key, context[key], err))
		}
	}
	for _, path := range opts.Manifests {
		text, err := os.ReadFile(path)
		if err != nil {
			problems = append(problems, fmt.Errorf("context %smanifests: %w", contextPrefix, err))
		}
		opts.Limiter.Manifests = append(opts.Limiter.Manifests, string(text))
	}
	if len(problems) == 0 {
		problems = append(problems, opts.Limiter.Validate())
	}
	if in := opts.VPCID != ""; in != (len(opts.SubnetIDs) > 0) || in != (len(opts.SecurityGroupIDs) > 0) {
		problems = append(problems, fmt.Errorf("context %svpcId, %svpcSubnetIds, %ssecurityGroupIds: give all three or none",
			contextPrefix, contextPrefix, contextPrefix))
	}
	if opts.ExistingStreamARN != "" && !strings.HasSuffix(tableOfStream(opts.ExistingStreamARN), "/"+opts.tableName()) {
		problems = append(problems, fmt.Errorf("context %sexistingStreamArn: it is not the stream of table %q; "+
			"set %stableName too", contextPrefix, opts.tableName(), contextPrefix))
	}
	return opts, errors.Join(problems...)
}

func (o options) tableName() string {
	if o.Limiter.TableName == "" {
		return "zae-limiter"
	}
	return o.Limiter.TableName
}

func tableOfStream(arn string) string {
	table, _, _ := strings.Cut(arn, "/stream/")
	return table
}

// resembled returns the option for which a key was probably meant, or "": it has the same letters
// and digits after a similar prefix, or up to two wrong ones.
func resembled(key string) string {
	plain := letters(key)
	for _, prefix := range []string{"zaelimitergo", "zaelimiter", "limiter"} {
		plain = strings.TrimPrefix(plain, prefix)
	}
	best, distance := "", 3
	for _, o := range option.Of(options{}) {
		name := letters(o.Key)
		if d := edits(plain, name); d < distance && d < len(name)/3 {
			best, distance = o.Key, d
		}
	}
	return best
}

func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

// edits returns how many letters must be inserted, removed or changed to turn a into b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			if a[i] != b[j] {
				diagonal++
			}
			row[j+1] = min(above+1, row[j]+1, diagonal)
			diagonal = above
		}
	}
	return row[len(b)]
}
