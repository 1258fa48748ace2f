package cdk_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// An archive that is no longer versioned still has versions. Without a rule they would be kept for good, and
// so would the objects of that time, which S3 makes versions of when they expire.
func TestVersionsExpireWhereObjectsDo(t *testing.T) {
	s := newStacks(t)
	s.props.ArchiveExpiryDays = 365
	cdk.New(s.limits, "Limits", &s.props)
	check.Must(t, s.synth())
	if got := s.template(t, "Limits")["AWS::S3::Bucket"]; !strings.Contains(got,
		`"ExpirationInDays":365,"Id":"age","NoncurrentVersionExpiration":{"NoncurrentDays":30}`) {
		t.Errorf("the rules are %s", got)
	}
}
