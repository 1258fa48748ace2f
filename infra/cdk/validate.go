package cdk

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"

	"github.com/zeroae/zae-limiter-go/admin/manifest"
	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/option"
	"github.com/zeroae/zae-limiter-go/internal/function"
)

// Validate returns all errors of the properties, joined, each with the field, its value and the
// accepted values. Nil properties are valid.
func (p *Props) Validate() error {
	if p == nil {
		return nil
	}
	problems := option.Check(p)
	if t := p.ExistingTable; t != nil && t.TableStreamArn() == nil && !(p.Aggregator.Off && p.Archiver.Off) {
		problems = append(problems, errors.New("ExistingTable: it has no stream that the functions could read: give the "+
			"ARN of its stream (awsdynamodb.Table_FromTableAttributes), or turn both functions off"))
	}
	for _, key := range p.keys() {
		if alias, ok := key.is.(awskms.IAlias); ok {
			problems = append(problems, fmt.Errorf("%s: %s is an alias: want its key, IAM grants nothing on an alias",
				key.field, *alias.AliasName()))
		}
	}
	problems = append(problems, p.alerts()...)
	if p.Archiver.Off && (p.ArchiveTransitionDays > 0 || p.ArchiveExpiryDays > 0) {
		problems = append(problems, errors.New(
			"ArchiveTransitionDays, ArchiveExpiryDays: without an archiver there is no archive"))
	}
	if t, e := p.ArchiveTransitionDays, p.ArchiveExpiryDays; t > 0 && e > 0 && e <= t {
		problems = append(problems, fmt.Errorf("ArchiveExpiryDays=%d: want more than ArchiveTransitionDays=%d", e, t))
	}
	full := p.withDefaults()
	for _, format := range []string{p.IAM.RoleNameFormat, p.IAM.PolicyNameFormat} {
		name := strings.ReplaceAll(format, "{}", full.TableName+"-namespace-acquire")
		if len(name) > maxNameLength && !option.IsToken(name) {
			problems = append(problems, fmt.Errorf("name format %q: %q has %d letters, IAM takes %d", format, name, len(name),
				maxNameLength))
		}
	}
	if t := full.Table; t.warmed() && (t.MaxWriteUnits > 0 && t.WarmWriteUnits > t.MaxWriteUnits ||
		t.MaxReadUnits > 0 && t.WarmReadUnits > t.MaxReadUnits) {
		problems = append(problems, errors.New(
			"WarmReadUnits, WarmWriteUnits: want no more than MaxReadUnits, MaxWriteUnits"))
	}
	problems = append(problems, full.Table.capacity()...)
	for _, name := range slices.Sorted(maps.Keys(p.Tags)) {
		if strings.HasPrefix(strings.ToLower(name), "aws:") {
			problems = append(problems, fmt.Errorf("Props.Tags: name %q: names that begin with aws: are reserved", name))
		}
	}
	_, err := p.declared()
	return errors.Join(append(problems, err)...)
}

// fieldKey is the customer key of a field, nil for none.
type fieldKey struct {
	field string
	is    awskms.IKey
}

// keys returns the customer keys of all fields.
func (p *Props) keys() []fieldKey {
	keys := []fieldKey{{"Key", p.Key}, {"LogKey", p.LogKey}, {"EnvironmentKey", p.EnvironmentKey}}
	if p.ExistingTable != nil {
		keys = append(keys, fieldKey{"ExistingTable.EncryptionKey", p.ExistingTable.EncryptionKey()})
	}
	return keys
}

// maxThresholds bounds the text of thresholds, because Lambda limits a function's environment.
const maxThresholds = 2000

// alerts returns the errors of thresholds, and of their destinations.
func (p *Props) alerts() (problems []error) {
	a := p.Alerts
	if a.Bus != nil && a.Topic != nil {
		problems = append(problems, fmt.Errorf("Alerts.Bus=%s, Alerts.Topic=%s: want one of them; a rule of the bus "+
			"can publish to the topic", *a.Bus.EventBusArn(), *a.Topic.TopicArn()))
	}
	if a.Topic != nil && *a.Topic.Fifo() {
		problems = append(problems, fmt.Errorf("Alerts.Topic=%s: want a standard topic: nobody can subscribe chats or "+
			"HTTP endpoints to a FIFO one", *a.Topic.TopicArn()))
	}
	if a.target() != nil && p.Aggregator.Off {
		problems = append(problems, fmt.Errorf("Alerts.Bus, Alerts.Topic: %s: without an aggregator nothing is sent",
			*a.target()))
	}
	if n := len(strings.Join(p.Thresholds, ",")); n > maxThresholds {
		problems = append(problems, fmt.Errorf("Props.Thresholds: %d letters, accepted: up to %d", n, maxThresholds))
	}
	return problems
}

// capacity returns the errors of provisioned capacity; the properties must have their defaults.
func (p TableProps) capacity() (problems []error) {
	if !p.provisioned() {
		var none *Props
		d := none.withDefaults().Table
		if p.MinReadUnits != d.MinReadUnits || p.MinWriteUnits != d.MinWriteUnits ||
			p.TargetUtilizationPercent != d.TargetUtilizationPercent {
			problems = append(problems, errors.New(
				"MinReadUnits, MinWriteUnits, TargetUtilizationPercent: want BillingMode=provisioned"))
		}
		return problems
	}
	for _, c := range []struct {
		min, max    string
		least, most int
	}{
		{"MinReadUnits", "MaxReadUnits", p.MinReadUnits, p.MaxReadUnits},
		{"MinWriteUnits", "MaxWriteUnits", p.MinWriteUnits, p.MaxWriteUnits},
	} {
		switch {
		case c.most == 0:
			problems = append(problems, fmt.Errorf("%s: want it with BillingMode=provisioned, the most that is provisioned",
				c.max))
		case c.least > c.most:
			problems = append(problems,
				fmt.Errorf("%s=%d: want no more than %s=%d", c.min, c.least, c.max, c.most))
		}
	}
	return problems
}

// maxManifests is the greatest total size of manifests in a deployment, in bytes: CloudFormation
// sends them to the setup function in one event.
const maxManifests = 100 << 10

// declared returns the namespaces of the manifests, or all their errors.
func (p *Props) declared() (namespaces []string, err error) {
	var problems []error
	size := 0
	for _, text := range p.Manifests {
		size += len(text)
		if option.IsToken(text) {
			problems = append(problems, fmt.Errorf("manifests: %w", option.ErrToken))
			continue
		}
		m, err := manifest.Parse([]byte(text))
		switch {
		case err != nil:
			problems = append(problems, err)
		case slices.Contains(namespaces, m.Namespace):
			problems = append(problems, fmt.Errorf("manifests: two declare namespace %q", m.Namespace))
		case !function.NamespaceName.MatchString(m.Namespace):
			problems = append(problems, fmt.Errorf("manifests: namespace %q: accepted: %s", m.Namespace,
				function.WantNamespaceName))
		default:
			namespaces = append(namespaces, m.Namespace)
		}
	}
	if size > maxManifests {
		problems = append(problems, fmt.Errorf("manifests: %d bytes, accepted: up to %d; apply larger ones with the "+
			"command-line tool (zae-limiter apply)", size, maxManifests))
	}
	return namespaces, errors.Join(problems...)
}

// maxNameLength is the greatest length of a role's name.
const maxNameLength = 64

// withDefaults returns a copy with the default in every zero field that has one. Namespaces that
// are empty but not nil stay so: then only the manifests' namespaces are registered.
func (p *Props) withDefaults() *Props {
	var out Props
	if p != nil {
		out = *p
	}
	option.Walk(&out, func(f reflect.StructField, is reflect.Value) {
		text, ok := f.Tag.Lookup("default")
		if !ok || !is.IsZero() {
			return
		}
		switch is.Kind() {
		case reflect.Int:
			if n, err := strconv.Atoi(text); err == nil {
				is.SetInt(int64(n))
			}
		case reflect.Slice:
			is.Set(reflect.ValueOf(strings.Split(text, ",")))
		case reflect.String:
			if f.Tag.Get("oneOf") != "" || f.Tag.Get("is") == "tableName" || f.Tag.Get("is") == "stackName" {
				is.SetString(text)
			}
		}
	})
	declared, _ := out.declared() // Validate has reported the error
	for _, name := range declared {
		if !slices.Contains(out.Namespaces, name) {
			out.Namespaces = append(slices.Clip(out.Namespaces), name)
		}
	}
	return &out
}
