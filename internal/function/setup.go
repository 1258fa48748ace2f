package function

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// Properties of the custom resource that functions/setup serves. The infrastructure sets exactly
// these.
const (
	SetupNamespaces       = "Namespaces"         // a list of names, required
	SetupAuditRetention   = "AuditRetentionDays" // "0": unchanged
	SetupManifests        = "Manifests"          // a list of manifests of limits, as text; may be missing
	SetupStream           = "StreamArn"          // the stream that the functions read; may be missing
	SetupTable            = "TableName"          // makes the function run again for another table; not read
	SetupSchemaVersion    = "SchemaVersion"      // changes with the code; not read
	SetupNamespaceIDs     = "NamespaceIds"       // attribute of the resource: name=id, separated by commas
	SetupResourceRevision = "Revision"           // changed to make the function run again; not read
)

// NamespaceName matches the names that a stack accepts for a namespace. The library accepts more;
// the outputs of a stack are a list of name=id.
var NamespaceName = regexp.MustCompile(`\A([A-Za-z0-9]|_[A-Za-z0-9_.-])[A-Za-z0-9_.-]{0,127}\z`)

// WantNamespaceName describes what NamespaceName accepts.
const WantNamespaceName = "names of letters, digits, dots, hyphens and underscores, not _ alone"

// Setup is the request of a deployment to functions/setup.
type Setup struct {
	Namespaces         []string
	AuditRetentionDays int64    // 0: unchanged
	Manifests          []string // manifests of limits to apply, not parsed
	StreamARN          string   // the stream that the functions read; empty: unknown
}

// SetupFromProperties reads the properties of the custom resource, which are texts and lists of
// texts. The error joins all problems; each names the property, its value and the accepted values.
func SetupFromProperties(properties map[string]any) (Setup, error) {
	var s Setup
	var problems []error
	wrong := func(name, want string) {
		problems = append(problems, fmt.Errorf("%s=%v: want %s", name, properties[name], want))
	}
	texts := func(name string) (list []string, ok bool) {
		all, ok := properties[name].([]any)
		for _, e := range all {
			text, isText := e.(string)
			list, ok = append(list, text), ok && isText
		}
		return list, ok
	}
	var ok bool
	s.Namespaces, ok = texts(SetupNamespaces)
	odd := func(name string) bool { return !NamespaceName.MatchString(name) }
	if !ok || len(s.Namespaces) == 0 || slices.ContainsFunc(s.Namespaces, odd) {
		wrong(SetupNamespaces, "a list of "+WantNamespaceName)
	}
	days, _ := properties[SetupAuditRetention].(string)
	n, err := strconv.ParseInt(days, 10, 64)
	if err != nil || n < 0 || n > MaxSnapshotTTLDays {
		wrong(SetupAuditRetention, "a whole number from 0 to 3650")
	}
	s.AuditRetentionDays = n
	s.StreamARN, ok = properties[SetupStream].(string)
	if !ok && properties[SetupStream] != nil {
		wrong(SetupStream, "the ARN of a stream")
	}
	if s.Manifests, ok = texts(SetupManifests); !ok && properties[SetupManifests] != nil {
		wrong(SetupManifests, "a list of manifests of limits")
	}
	if len(problems) > 0 {
		return Setup{}, errors.Join(problems...)
	}
	return s, nil
}

// TableFromEnv reads the name of the table, for a function that needs nothing else. The error names
// the variable, its value and the accepted values.
func TableFromEnv(getenv func(string) string) (string, error) {
	e := env{getenv: getenv}
	name := e.text(EnvTableName)
	if !isTableName(name) {
		e.wrong(EnvTableName, wantTableName)
	}
	return name, errors.Join(e.problems...)
}
