package cdk_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
)

// Grants take ids of namespaces and nothing that would stand for more: in a policy, a star is every
// namespace.
func TestGrantsOfWhatIsNoNamespace(t *testing.T) {
	s := newStacks(t)
	l, role := cdk.New(s.limits, "Limits", &s.props), s.role("App")
	for name, grant := range map[string]func(awsiam.IGrantable, ...string) awsiam.Grant{
		"acquire": l.GrantAcquire, "admin": l.GrantAdmin, "read": l.GrantRead,
	} {
		for _, id := range []string{"*", "team-*", "", "_", "a/b"} {
			func() {
				defer func() {
					if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), "namespace id") {
						t.Errorf("%s in namespace %q: %v", name, id, err)
					}
				}()
				grant(role, "team-a", id)
			}()
		}
	}
	if err := s.synth(); err != nil {
		t.Fatal(err)
	}
	if text := s.template(t, "Platform")["AWS::IAM::Policy"]; text != "" {
		t.Errorf("granted all the same: %s", text)
	}
}
