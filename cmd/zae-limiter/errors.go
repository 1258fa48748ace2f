package main

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/emulator"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

const (
	done   = 0
	failed = 1
	wrong  = 2 // the command line is wrong
	no     = 3 // it succeeded, and the answer is no
)

// statusError is an error that determines the exit status.
type statusError struct {
	error
	status int
	help   string // the command with an explanation; empty: none
}

// answerNo is the answer no, with a reason.
func answerNo(format string, values ...any) error {
	return &statusError{fmt.Errorf(format, values...), no, ""}
}

func status(err error) int {
	own, isOwn := errors.AsType[*statusError](err)
	_, differs := errors.AsType[*limitertable.DiffError](err)
	switch {
	case err == nil:
		return done
	case isOwn:
		return own.status
	case errors.Is(err, limiter.ErrInvalid):
		return wrong
	case differs || errors.Is(err, limiter.ErrNoLimits):
		return no
	}
	return failed
}

type shownError struct {
	Error, Advice string
	Status        int
}

// complain prints an error and the advice on it.
func (a *app) complain(err error) {
	advice := a.advice(err)
	if a.format == "json" {
		if encode(a.errs, shownError{plain(err.Error()), advice, status(err)}, "") == nil {
			return
		}
	}
	a.say("zae-limiter: %v", err)
	if advice != "" {
		a.say("  %s", advice)
	}
}

// packages matches the package names at the beginning of Go errors.
var packages = regexp.MustCompile(`(^|: |\()(?:limiter: invalid: |(?:admin|limiter|limitertable|manifest): )+`)

// plain removes them from an error's text.
func plain(text string) string { return packages.ReplaceAllString(text, "$1") }

func (a *app) advice(err error) string {
	if e, ok := errors.AsType[*statusError](err); ok && e.help != "" {
		return "See: " + e.help
	}
	if _, ok := errors.AsType[*limitertable.DiffError](err); ok {
		return "It was left as it is. zae-limiter table repair switches on what a restored table lacks.\n" +
			"Indexes can be added, a key cannot be changed."
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch api.ErrorCode() {
		case "AccessDeniedException", "AccessDenied":
			return "The credentials do not allow this: docs/deploying.md lists the policies."
		case "ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException", "InvalidSignatureException":
			return "AWS does not accept the credentials: renew them (aws sso login), or choose others by AWS_PROFILE."
		case "ResourceNotFoundException":
			err = limitertable.ErrNotFound
		}
	}
	for _, known := range []struct {
		is   error
		text string
	}{
		{limitertable.ErrNotFound, fmt.Sprintf("There is no table %q here: zae-limiter table create makes it; --table, "+
			"ZAEL_STACK and AWS_REGION choose another.", a.table)},
		{emulator.ErrNotInstalled, "Install Node 20 or newer (npm), choose another by --engine, or say by --emulators " +
			"where they are."},
		{errNoStack, "--stack and AWS_REGION choose another; without the stack of infra/cdk nothing is given up, and " +
			"nothing is there to replay."},
		{errNoRegion, "Set AWS_REGION, or give --region; on a local DynamoDB any name will do."},
		{errNoCredentials, "No AWS credentials were found: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and " +
			"AWS_SECRET_ACCESS_KEY; on a local DynamoDB any values will do."},
		{admin.ErrReach, "zae-limiter limits reach goes on with the buckets that lack them; so does the same apply."},
		{limiter.ErrNamespace, fmt.Sprintf("See zae-limiter namespace list for those in table %q; zae-limiter namespace "+
			"register %s makes one; --namespace and ZAEL_NAMESPACE choose.", a.table, a.namespace)},
		{admin.ErrNotFound, "Nothing of that name is stored: zae-limiter limits list, entity children, namespace list " +
			"--all and peek show what is."},
		{limiter.ErrVersion, "The table belongs to another version: use the zae-limiter of that version."},
		{limiter.ErrNoLimits, "zae-limiter limits set stores some."},
		{limiter.ErrUnreadable, "zae-limiter reset ENTITY RESOURCE makes the bucket anew, full."},
		{admin.ErrBusy, "Others changed it meanwhile, and theirs stays; the same command can be given again."},
		{admin.ErrParent, "zae-limiter entity create makes a parent that is missing; entity get tells whose child one is."},
		{admin.ErrState, "See zae-limiter namespace list --all."},
		{limiter.ErrUnknown, "The answer was lost, so it may have been done. Look before you repeat it."},
		{limiter.ErrUnavailable, "Nothing was changed. Is DynamoDB reachable? --endpoint-url, AWS_ENDPOINT_URL_DYNAMODB " +
			"and AWS_REGION say where it is."},
	} {
		if errors.Is(err, known.is) {
			return known.text
		}
	}
	return ""
}
