package cdk_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// An archive that is no longer versioned still has versions. Without a rule they would be kept
// forever. So would the objects from the versioned time, which become versions when they expire.
func TestVersionsExpireLikeObjects(t *testing.T) {
	s := newStacks(t)
	s.props.ArchiveExpiryDays = 365
	cdk.New(s.limits, "Limits", &s.props)
	check.Must(t, s.synth())
	if got := s.template(t, "Limits")["AWS::S3::Bucket"]; !strings.Contains(got,
		`"ExpirationInDays":365,"Id":"age","NoncurrentVersionExpiration":{"NoncurrentDays":30}`) {
		t.Errorf("the rules are %s", got)
	}
}
