package rights

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/test/localstack/tablespec"
)

// Tag is the placeholder in the policies for the namespace id in the principal's tag.
const Tag = "${aws:PrincipalTag/zael_namespace_id}"

// Policy is the DynamoDB part of a managed policy of the template.
type Policy []statement

type statement struct {
	actions   []string
	resources []string // "" for the table, GSI1 for an index
	leading   []string // patterns, one of which must match; nil: any partition key
}

// document is a policy in a template.
type document struct {
	PolicyDocument struct{ Statement []json.RawMessage }
}

// Load reads the managed policies of the committed template, and its roles' rights on the table, by
// logical id without the hash at its end: AcquirePolicy, AggregatorRole. A statement in an unknown
// form is an error.
func Load() (map[string]Policy, error) {
	text, err := os.ReadFile(tablespec.GoldenPath())
	if err != nil {
		return nil, err
	}
	var doc struct {
		Resources map[string]struct {
			Type       string
			Properties struct {
				document            // of a policy
				Policies []document // of a role
			}
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	out := map[string]Policy{}
	for id, r := range doc.Resources {
		kind, ok := map[string]string{"AWS::IAM::ManagedPolicy": "Policy", "AWS::IAM::Role": "Role"}[r.Type]
		if !ok {
			continue
		}
		var p Policy
		for _, d := range append(r.Properties.Policies, r.Properties.document) {
			for _, raw := range d.PolicyDocument.Statement {
				if kind == "Role" && !ofTable(raw) {
					continue
				}
				s, err := parse(raw)
				if err != nil {
					return nil, fmt.Errorf("policy %s: %w", id, err)
				}
				p = append(p, s)
			}
		}
		out[id[:strings.LastIndex(id, kind)+len(kind)]] = p
	}
	return out, nil
}

func parse(raw json.RawMessage) (s statement, err error) {
	var in struct {
		Effect           string
		Action, Resource any
		Condition        map[string]map[string]any
		NotAction        any
		NotResource      any
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return s, err
	}
	if in.Effect != "Allow" || in.NotAction != nil || in.NotResource != nil {
		return s, fmt.Errorf("statement %s", raw)
	}
	for _, a := range list(in.Action) {
		s.actions = append(s.actions, fmt.Sprint(a))
	}
	for _, r := range list(in.Resource) {
		name, ok := resource(r)
		if !ok {
			return s, fmt.Errorf("resource %v", r)
		}
		s.resources = append(s.resources, name)
	}
	for operator, keys := range in.Condition {
		patterns := keys["dynamodb:LeadingKeys"]
		switch {
		case len(keys) != 1 || patterns == nil:
			return s, fmt.Errorf("condition %v", in.Condition)
		case operator == "ForAllValues:StringLike":
			for _, p := range list(patterns) {
				s.leading = append(s.leading, fmt.Sprint(p))
			}
		case operator != "Null" || patterns != "false":
			return s, fmt.Errorf("condition %v", in.Condition)
		}
	}
	return s, nil
}

func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	return []any{v}
}

const tableARN = `{"Fn::GetAtt":["Table","Arn"]}`

// ofTable reports whether a statement is about the table, rather than its stream, logs or objects.
func ofTable(raw json.RawMessage) bool {
	var compact bytes.Buffer
	return json.Compact(&compact, raw) == nil && bytes.Contains(compact.Bytes(), []byte(tableARN))
}

// resource reads the ARN of the table or of an index.
func resource(v any) (name string, ok bool) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", false
	}
	if string(text) == tableARN {
		return "", true
	}
	name, ok = strings.CutPrefix(string(text), `{"Fn::Join":["",[`+tableARN+`,"/index/`)
	name, end := strings.CutSuffix(name, `"]]}`)
	return name, ok && end
}

// Actions lists the actions that the policy allows on anything, sorted.
func (p Policy) Actions() (out []string) {
	for _, s := range p {
		out = append(out, s.actions...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Allows reports whether a principal tagged with the namespace id has the right.
func (p Policy) Allows(r Right, namespace string) bool {
	return slices.ContainsFunc(p, func(s statement) bool {
		return slices.Contains(s.actions, r.Action) && slices.Contains(s.resources, r.Index) &&
			s.matches(r.Leading, namespace)
	})
}

func (s statement) matches(leading, namespace string) bool {
	if s.leading == nil {
		return true
	}
	return leading != "" && slices.ContainsFunc(s.leading, func(pattern string) bool {
		pattern = strings.ReplaceAll(pattern, Tag, namespace)
		// A star in IAM also matches slashes, unlike in path.Match.
		ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(leading, "/", "\x00"))
		return ok && err == nil
	})
}
