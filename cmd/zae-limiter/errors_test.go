package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/emulator"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

// Every error that people can do something about says what, and ends in the status that the help
// tells of.
func TestAdviceOnErrors(t *testing.T) {
	fromAWS := func(code string) error { return &smithy.GenericAPIError{Code: code} }
	for _, c := range []struct {
		err    error
		status int
		advice string
	}{
		{errors.New("odd"), failed, ""},
		{&statusError{nil, wrong, "zae-limiter peek --help"}, wrong, "See: zae-limiter peek --help"},
		{limiter.ErrInvalid, wrong, ""},
		{&limitertable.DiffError{}, no, "It was left as it is. zae-limiter table repair"},
		{answerNo("%d left", 2), no, ""},
		{&statusError{status: 7}, 7, ""},
		{fromAWS("ResourceNotFoundException"), failed, `There is no table "quotas" here`},
		{limitertable.ErrNotFound, failed, `There is no table "quotas" here`},
		{fromAWS("AccessDeniedException"), failed, "The credentials do not allow this"},
		{fromAWS("AccessDenied"), failed, "The credentials do not allow this"},
		{fromAWS("ExpiredTokenException"), failed, "AWS does not accept the credentials"},
		{fromAWS("ExpiredToken"), failed, "AWS does not accept the credentials"},
		{fromAWS("UnrecognizedClientException"), failed, "AWS does not accept the credentials"},
		{fromAWS("InvalidSignatureException"), failed, "AWS does not accept the credentials"},
		{fromAWS("InternalServerError"), failed, ""},
		{emulator.ErrNotInstalled, failed, "Install Node 20 or newer"},
		{errNoStack, failed, "--stack and AWS_REGION choose another"},
		{errNoRegion, failed, "Set AWS_REGION"},
		{errNoCredentials, failed, "No AWS credentials were found"},
		{admin.ErrReach, failed, "limits reach goes on"},
		{limiter.ErrNamespace, failed, `those in table "quotas"; zae-limiter namespace register prod makes one`},
		{admin.ErrNotFound, failed, "Nothing of that name is stored"},
		{limiter.ErrVersion, failed, "use the zae-limiter of that version"},
		{limiter.ErrNoLimits, no, "limits set stores some"},
		{limiter.ErrUnreadable, failed, "reset ENTITY RESOURCE makes the bucket anew"},
		{admin.ErrBusy, failed, "theirs stays; the same command can be given again"},
		{admin.ErrParent, failed, "entity create makes a parent that is missing; entity get"},
		{admin.ErrState, failed, "namespace list --all"},
		{limiter.ErrUnknown, failed, "it may have been done"},
		{limiter.ErrUnavailable, failed, "Nothing was changed. Is DynamoDB reachable?"},
	} {
		a := &app{table: "quotas", namespace: "prod"}
		err := fmt.Errorf("on the way: %w", c.err)
		got := a.advice(err)
		if status(err) != c.status || !strings.Contains(got, c.advice) || (got == "") != (c.advice == "") {
			t.Errorf("%v: status %d, want %d; advice %q, want %q", c.err, status(err), c.status, got, c.advice)
		}
		for _, text := range []string{"%!", "(MISSING)"} {
			if strings.Contains(got, text) {
				t.Errorf("%v: %q", c.err, got)
			}
		}
	}
	check.Equal(t, status(nil), done, "without an error")
}
