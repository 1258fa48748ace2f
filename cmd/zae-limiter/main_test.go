package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// mainVariable has this program be the tool.
const mainVariable = "ZAEL_TEST_MAIN"

// The tool reads and writes where programs do, and ends in the status of what it did.
func TestTheProgram(t *testing.T) {
	noAWS(t)
	self, err := os.Executable()
	check.Must(t, err)
	for _, c := range []struct {
		args, in  string
		out, errs string
		status    int
	}{
		{"table template terraform", "", `resource "aws_dynamodb_table" "limiter"`, "", done},
		{"limits list", "", "", "Set AWS_REGION", failed},
		{"limits sett", "", "", "set", wrong},
		{"apply -", "no\n", "", "--yes is needed", wrong},
		{"apply - --yes", "limits: [", "", "manifest -: line 2: ", wrong}, // it has been read
	} {
		var out, errs strings.Builder
		cmd := exec.CommandContext(t.Context(), self, strings.Fields(c.args)...)
		cmd.Env = append(os.Environ(), mainVariable+"=1", "GOCOVERDIR="+t.TempDir())
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.in), &out, &errs
		err := cmd.Run()
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok || ok && exit.ExitCode() != c.status ||
			!ok && c.status != done {
			t.Errorf("%s: %v, want status %d", c.args, err, c.status)
		}
		if !strings.Contains(out.String(), c.out) || (c.out == "") != (out.String() == "") ||
			!strings.Contains(errs.String(), c.errs) || (c.errs == "") != (errs.String() == "") {
			t.Errorf("%s: said %q, and %q", c.args, out.String(), errs.String())
		}
	}
}
