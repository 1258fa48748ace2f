package cdk_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Grants accept only ids of namespaces, and no wildcards: in a policy, a star means every
// namespace.
func TestGrantsTakeOnlyNamespaceIDs(t *testing.T) {
	s := newStacks(t)
	l, role := cdk.New(s.limits, "Limits", &s.props), s.role("App")
	refused := func(p cdk.Policy, id, want string) {
		defer func() {
			if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), want) {
				t.Errorf("%s in namespace %q: %v", p, id, err)
			}
		}()
		l.Grant(role, p, "team-a", id)
	}
	for _, p := range []cdk.Policy{cdk.Acquire, cdk.Admin, cdk.Read} {
		for _, id := range []string{"*", "team-*", "", "_", "a/b"} {
			refused(p, id, "namespace id")
		}
	}
	refused("write", "team-b", `policy "write": accepted: Acquire, Admin, Read`)
	check.Must(t, s.synth())
	check.Equal(t, s.template(t, "Platform")["AWS::IAM::Policy"], "", "granted nevertheless")
}

// A grant in a namespace reaches its items, and those of the table's own records that name
// namespaces. A request without a partition key is refused.
func TestGrantsInANamespaceEndThere(t *testing.T) {
	s := newStacks(t)
	l := cdk.New(s.limits, "Limits", &s.props)
	l.Grant(s.role("Acquire"), cdk.Acquire, "team-a", "_Xk3-9aB_")
	l.Grant(s.role("Admin"), cdk.Admin, "team-a")
	l.Grant(s.role("Read"), cdk.Read, "team-b")
	check.Must(t, s.synth())
	statements := 0
	for line := range strings.Lines(s.template(t, "Platform")["AWS::IAM::Policy"]) {
		var policy struct {
			Properties struct {
				PolicyDocument struct {
					Statement []struct {
						Condition struct {
							Keys    map[string][]string `json:"ForAllValues:StringLike"`
							Without map[string]string   `json:"Null"`
						}
					}
				}
			}
		}
		check.Must(t, json.Unmarshal([]byte(line), &policy))
		for _, s := range policy.Properties.PolicyDocument.Statement {
			statements++
			keys := s.Condition.Keys["dynamodb:LeadingKeys"]
			if len(keys) == 0 || slices.ContainsFunc(keys, elsewhere) ||
				s.Condition.Without["dynamodb:LeadingKeys"] != "false" {
				t.Errorf("%+v in %s", s, line)
			}
		}
	}
	if statements < 6 {
		t.Errorf("%d statements", statements)
	}
}

// elsewhere reports whether a partition key belongs to another namespace.
func elsewhere(key string) bool {
	ns, _, _ := strings.Cut(key, "/")
	return ns != "team-a" && ns != "team-b" && ns != "_Xk3-9aB_" && key != "_/SYSTEM#"
}
