package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/admin"
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
		{&usageError{"wrong", "zae-limiter peek --help"}, wrong, "See: zae-limiter peek --help"},
		{limiter.ErrInvalid, wrong, ""},
		{&limitertable.DiffError{}, no, "It was left as it is. zae-limiter table repair"},
		{errNo, no, ""},
		{&exitError{status: 7}, 7, ""},
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
		err := a.where(fmt.Errorf("on the way: %w", c.err))
		got := advice(err)
		if status(err) != c.status || !strings.Contains(got, c.advice) || (got == "") != (c.advice == "") {
			t.Errorf("%v: status %d, want %d; advice %q, want %q", c.err, status(err), c.status, got, c.advice)
		}
		for _, text := range []string{"%!", "(MISSING)"} {
			if strings.Contains(got, text) {
				t.Errorf("%v: %q", c.err, got)
			}
		}
	}
	if (&app{}).where(nil) != nil || status(nil) != done {
		t.Error("nothing is an error")
	}
}

// What people and programs are told has no names of packages, types or constants.
func TestErrorsNameNoPackages(t *testing.T) {
	s := newShell(t)
	s.run(0, "limits", "set", "-y", "-r", "api", "rpm=5", "b=$5@daily")
	s.run(0, "credit", "acme", "api", "b=1")
	file, write := aManifest(t)
	write("system:\n  limits: {rpm: {capcity: 1}, tpm: {capacity: x}}\n")
	leaks := regexp.MustCompile(`admin: |limiter: [a-z]+: |limiter\.|manifest\.[a-z]|manifest: |line \d+: line|\b1 [a-z]+s\b`)
	for _, c := range []struct{ command, want string }{
		{"reset -y acme api nope", `not found: limit "nope", the bucket has `},
		{"credit acme api nope=5", `not found: limit "nope", the bucket has b, rpm`},
		{"credit acme api rpm=0", "tokens of rpm is 0, want 1 to 1000000000000000"},
		{"limits get -e nobody", "read limits of nobody/*: not found"},
		{"entity get nobody", "not found"},
		{"entity create a --parent nobody", "parent"},
		{"namespace recover nobody", ""},
		{"limits set -y -r api rpm=0", "Capacity is 0, want 1 to 1000000000000000 tokens"},
		{"limits set -y -r api 1x=5", `"1x"`},
		{"peek acme", "1 argument, want: zae-limiter peek ENTITY RESOURCE"},
		{"peek acme nothing", "no limits"},
		{"plan " + file, `line 3: system: limits: rpm: "capcity" is not known here, accepted are capacity, `},
		{"limits list -n nowhere", "nowhere"},
	} {
		for _, format := range []string{"table", "json"} {
			out, errs, code := s.end(append(strings.Fields(c.command), "-o", format)...)
			said := strings.ReplaceAll(errs, `\"`, `"`)
			if code == done || out != "" || !strings.Contains(said, c.want) {
				t.Errorf("zae-limiter %s: %d\n%s%s", c.command, code, out, errs)
			}
			text := strings.ReplaceAll(strings.ReplaceAll(said, "zae-limiter: ", ""), file, "FILE")
			if leak := leaks.FindString(text); leak != "" {
				t.Errorf("zae-limiter %s tells %q\n%s", c.command, leak, errs)
			}
		}
	}
	_, errs := s.run(2, "limits", "set", "-y", "-r", "api", "b=$5@monthly Mars/Phobos")
	want := `calendar "monthly Mars/Phobos": time zone "Mars/Phobos": want`
	if !strings.Contains(errs, want) || strings.Contains(errs, "m0h0") {
		t.Errorf("%s", errs)
	}
}
