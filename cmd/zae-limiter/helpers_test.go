package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// shell runs commands as main does.
type shell struct {
	*testing.T
	memory memory             // in place of AWS; nil: AWS is asked
	table  *limitertest.Table // the same, if it is one
	aws    *anAWS             // the rest of AWS; nil: none
	stdin  string
}

// newShell is a shell on a table in memory whose clock stands still.
func newShell(t *testing.T) *shell {
	s := shellOn(t, limitertest.New(t))
	s.table.Admin("") // registers the namespace
	return s
}

func shellOn(t *testing.T, table *limitertest.Table) *shell {
	return &shell{T: t, memory: table, table: table}
}

// stored is a shell on a table in memory that shows what is in it. Its clock stands still.
type stored struct {
	*shell
	db *memdynamo.DB
}

// still is a table whose clock stands still.
type still struct{ admin.DynamoDB }

var storedNow = time.Date(2024, 2, 2, 0, 0, 0, 0, time.UTC)

func (still) Now() time.Time { return storedNow }

func newStored(t *testing.T) stored {
	return storedIn(t, memdynamo.New(func() int64 { return storedNow.UnixMilli() }))
}

func storedIn(t *testing.T, db *memdynamo.DB) stored {
	return stored{&shell{T: t, memory: still{db.Client()}}, db}
}

// copy is another shell, on a copy of what is stored.
func (s stored) copy() stored { return storedIn(s.T, s.db.Snapshot()) }

// end runs a command and returns what it wrote and its exit status.
func (s *shell) end(args ...string) (out, errs string, code int) {
	var stdout, stderr strings.Builder
	a := &app{in: strings.NewReader(s.stdin), out: &stdout, errs: &stderr, memory: s.memory, listener: net.Listen}
	code = a.run(s.Context(), args)
	return stdout.String(), stderr.String(), code
}

// begins runs a command that goes on until end, which returns its status, and returns its first line.
func (s *shell) begins(args ...string) (line string, end func() int) {
	in, out := io.Pipe()
	a := &app{in: strings.NewReader(""), out: io.Discard, errs: out, memory: s.memory, listener: net.Listen}
	ctx, stop := context.WithCancel(s.Context())
	code := make(chan int, 1)
	go func() { code <- a.run(ctx, args) }()
	lines := bufio.NewScanner(in)
	lines.Scan()
	return lines.Text(), func() int { stop(); return <-code }
}

// run runs a command, which must end in the status.
func (s *shell) run(code int, args ...string) (out, errs string) {
	s.Helper()
	out, errs, got := s.end(args...)
	if got != code {
		s.Fatalf("zae-limiter %v ended in %d, want %d\n%s%s", args, got, code, out, errs)
	}
	return out, errs
}

// says runs a command and wants each text in what it wrote.
func (s *shell) says(code int, command string, texts ...string) {
	s.Helper()
	out, errs := s.run(code, strings.Fields(command)...)
	for _, text := range texts {
		if !strings.Contains(strings.Join(strings.Fields(out+errs), " "), text) {
			s.Errorf("zae-limiter %s does not say %q:\n%s%s", command, text, out, errs)
		}
	}
}

// prints runs a command with -o json into a value.
func prints[T any](s *shell, command string) (v T) {
	s.Helper()
	out, _ := s.run(0, append(strings.Fields(command), "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		s.Fatalf("zae-limiter %s: %v\n%s", command, err, out)
	}
	return v
}

// takes has a request admitted, and commits it.
func (s *shell) takes(ask limiter.Request) {
	s.Helper()
	lease, err := s.table.Limiter(nil).Acquire(s.Context(), ask)
	if err == nil {
		err = lease.Commit(s.Context())
	}
	check.Must(s, err)
}

// noAWS takes away what says where AWS is and who asks.
func noAWS(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "") // has the cleanup set it again
			os.Unsetenv(name)
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// anyCredentials are such as nobody checks, for a server of the test's own.
func anyCredentials(t *testing.T) {
	t.Helper()
	noAWS(t)
	for name, value := range map[string]string{
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_MAX_ATTEMPTS": "1",
	} {
		t.Setenv(name, value)
	}
}
