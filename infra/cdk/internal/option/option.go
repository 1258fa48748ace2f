// Package option reads and checks the options of a deployment: fields of a struct with a tag "key". Their other
// tags name the accepted values.
package option

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/holding"
	"github.com/zeroae/zae-limiter-go/internal/function"
)

// Option is a field of a properties struct that text can set.
type Option struct {
	Key     string
	Default string // the written value, or the effect of none
	Accepts string // the accepted values, in words
	Note    string // further information, "" if none
}

// form is a rule for text, named by a tag "is".
type form struct {
	pattern *regexp.Regexp
	accepts string
}

var forms = map[string]form{
	"tableName": {regexp.MustCompile(`\A[A-Za-z0-9_.-]{3,255}\z`),
		"3 to 255 letters, digits, dots, hyphens and underscores"},
	"stackName": {regexp.MustCompile(`\A[A-Za-z][A-Za-z0-9-]{0,127}\z`),
		"1 to 128 letters, digits and hyphens, a letter first"},
	"namespace": {function.NamespaceName, function.WantNamespaceName + ", separated by commas"},
	"file": {regexp.MustCompile(`\A[^\x00-\x1f,]+\z`),
		"names of files, seen from the folder of cdk.json, separated by commas"},
	"keyArn": {regexp.MustCompile(`\Aarn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+\z`),
		"the ARN of a KMS key"},
	"roleArn": {regexp.MustCompile(`\Aarn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+\z`), "the ARN of a role"},
	"topicArn": {regexp.MustCompile(`\Aarn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?\z`),
		"the ARN of an SNS topic"},
	"alertTargetArn": {regexp.MustCompile(`\Aarn:aws(-cn|-us-gov)?:` +
		`(events:[a-z0-9-]+:[0-9]{12}:event-bus/[A-Za-z0-9._/-]{1,256}|sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256})\z`),
		"the ARN of an event bus or of a standard SNS topic"},
	"threshold": {regexp.MustCompile(`\A([A-Za-z][A-Za-z0-9_.-]{0,63}=)?([1-9][0-9]?|100)\z`),
		"percents from 1 to 100 such as 80, or budget=80 for one limit, separated by commas, each at most once"},
	"streamArn": {regexp.MustCompile(
		`\Aarn:aws[a-z-]*:dynamodb:[a-z0-9-]+:[0-9]{12}:table/[A-Za-z0-9_.-]{3,255}/stream/[0-9T:.-]+\z`),
		"the ARN of a table's stream"},
	"vpcId":           {regexp.MustCompile(`\Avpc-[0-9a-f]{8,17}\z`), "the id of a VPC"},
	"subnetId":        {regexp.MustCompile(`\Asubnet-[0-9a-f]{8,17}\z`), "ids of subnets, separated by commas"},
	"securityGroupId": {regexp.MustCompile(`\Asg-[0-9a-f]{8,17}\z`), "ids of security groups, separated by commas"},
	"boundary": {regexp.MustCompile(
		`\A([A-Za-z0-9+=,.@_/-]{1,128}|arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[A-Za-z0-9+=,.@_/-]+)\z`),
		"the name or the ARN of a managed policy"},
	"nameFormat": {regexp.MustCompile(`\A[A-Za-z0-9+=,.@_-]{0,30}\{\}[A-Za-z0-9+=,.@_-]{0,30}\z`),
		"letters, digits and +=,.@_- with {} once in it"},
	"dataId": {regexp.MustCompile(`\A(` + strings.Join(holding.IDs(), "|") + `)\z`),
		strings.Join(holding.IDs(), ", ") + ", separated by commas, each at most once"},
	"tags": {regexp.MustCompile(`\A[\pL\pN _.:/+@-]{1,127}=[\pL\pN _.:/=+@-]{0,256}\z`),
		"name=value, separated by commas"},
}

// Of returns the options of a struct, or of a pointer to one, in the order of its fields.
func Of(v any) []Option {
	var out []Option
	Walk(v, func(f reflect.StructField, _ reflect.Value) {
		out = append(out, Option{
			Key: f.Tag.Get("key"), Default: cmp.Or(f.Tag.Get("default"), "none"),
			Accepts: accepts(f), Note: f.Tag.Get("note"),
		})
	})
	return out
}

// Set sets the option of a key in the struct to which v points. The value comes from JSON or a
// command line: text, a number, a boolean, a list of texts, an object of texts. known is false if
// there is no such option; the error names the accepted values.
func Set(v any, key string, value any) (known bool, err error) {
	Walk(v, func(f reflect.StructField, to reflect.Value) {
		if f.Tag.Get("key") != key {
			return
		}
		known = true
		before := reflect.ValueOf(to.Interface())
		given := texts(value)
		if len(given) == 0 || !assign(to, given) || to.IsZero() && to.Kind() != reflect.Bool || !holds(f, to) {
			to.Set(before)
			err = errors.New("accepted: " + accepts(f))
		}
	})
	return known, err
}

// Check returns the errors of a struct's non-zero fields.
func Check(v any) []error {
	var problems []error
	Walk(v, func(f reflect.StructField, is reflect.Value) {
		switch {
		case is.IsZero():
		case is.Kind() == reflect.String && f.Tag.Get("known") != "" && IsToken(is.String()):
			problems = append(problems, fmt.Errorf("%s: %w", f.Name, ErrToken))
		case !holds(f, is):
			problems = append(problems, fmt.Errorf("%s=%v: accepted: %s", f.Name, is.Interface(), accepts(f)))
		}
	})
	return problems
}

// Walk calls do for every field with a key, including fields of nested structs.
func Walk(v any, do func(reflect.StructField, reflect.Value)) {
	s := reflect.Indirect(reflect.ValueOf(v))
	for i := range s.NumField() {
		f := s.Type().Field(i)
		switch {
		case f.Tag.Get("key") != "":
			do(f, s.Field(i))
		case f.Type.Kind() == reflect.Struct && s.Field(i).CanAddr():
			Walk(s.Field(i).Addr().Interface(), do)
		case f.Type.Kind() == reflect.Struct:
			Walk(s.Field(i).Interface(), do)
		}
	}
}

// accepts describes the accepted values of a field.
func accepts(f reflect.StructField) string {
	switch {
	case f.Type.Kind() == reflect.Bool:
		return "true or false"
	case f.Tag.Get("range") != "":
		least, most, _ := strings.Cut(f.Tag.Get("range"), "-")
		return "a whole number from " + least + " to " + most
	case f.Tag.Get("oneOf") != "" && f.Type.Kind() == reflect.Slice:
		return strings.ReplaceAll(f.Tag.Get("oneOf"), "|", ", ") + ", separated by commas, each at most once"
	case f.Tag.Get("oneOf") != "":
		return "one of " + strings.ReplaceAll(f.Tag.Get("oneOf"), "|", ", ")
	}
	return forms[f.Tag.Get("is")].accepts
}

// holds reports whether the rule of a field accepts its value.
func holds(f reflect.StructField, is reflect.Value) bool {
	switch is.Kind() {
	case reflect.Int:
		if bounds := f.Tag.Get("range"); bounds != "" {
			low, high, _ := strings.Cut(bounds, "-")
			least, _ := strconv.ParseInt(low, 10, 64)
			most, _ := strconv.ParseInt(high, 10, 64)
			return least <= is.Int() && is.Int() <= most
		}
		return one(f, strconv.FormatInt(is.Int(), 10))
	case reflect.String:
		return one(f, is.String())
	case reflect.Slice:
		list := is.Interface().([]string)
		for i, s := range list {
			if !one(f, s) || slices.Contains(list[:i], s) {
				return false
			}
		}
	case reflect.Map:
		for name, value := range is.Interface().(map[string]string) {
			if !one(f, name+"="+value) {
				return false
			}
		}
	}
	return true
}

// ErrToken refuses a token for a field that decides which resources are declared.
var ErrToken = errors.New("want a value that is known while the app runs, not a token: it decides what is declared")

// IsToken reports whether a text contains a token of the construct library, which becomes a value
// only in the template.
func IsToken(s string) bool {
	return strings.Contains(s, "${Token[") || strings.Contains(s, "#{Token[")
}

func one(f reflect.StructField, s string) bool {
	if IsToken(s) {
		return true
	}
	if list := f.Tag.Get("oneOf"); list != "" {
		return slices.Contains(strings.Split(list, "|"), s)
	}
	return forms[f.Tag.Get("is")].pattern.MatchString(s)
}

// assign puts texts into a field, and reports whether they have its type.
func assign(to reflect.Value, given []string) bool {
	switch to.Kind() {
	case reflect.Slice:
		to.Set(reflect.ValueOf(given))
	case reflect.Map:
		m := make(map[string]string, len(given))
		for _, pair := range given {
			name, value, ok := strings.Cut(pair, "=")
			if _, twice := m[name]; !ok || twice {
				return false
			}
			m[name] = value
		}
		to.Set(reflect.ValueOf(m))
	case reflect.String:
		to.SetString(strings.Join(given, ","))
	case reflect.Bool:
		to.SetBool(given[0] == "true")
		return len(given) == 1 && (given[0] == "true" || given[0] == "false")
	case reflect.Int:
		n, err := strconv.Atoi(given[0])
		to.SetInt(int64(n))
		return err == nil && len(given) == 1
	}
	return true
}

// texts returns the comma-separated parts of a value, nil for nothing.
func texts(value any) []string {
	var out []string
	switch v := value.(type) {
	case nil:
	case []any:
		for _, e := range v {
			out = append(out, texts(e)...)
		}
	case map[string]any:
		for name, e := range v {
			out = append(out, name+"="+strings.Join(texts(e), ","))
		}
		slices.Sort(out)
	case float64:
		out = []string{strconv.FormatFloat(v, 'f', -1, 64)}
	default:
		for part := range strings.SplitSeq(fmt.Sprint(v), ",") {
			out = append(out, strings.TrimSpace(part))
		}
		if len(out) == 1 && out[0] == "" {
			return nil
		}
	}
	return out
}
