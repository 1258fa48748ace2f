package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/emulator"
)

// emulatorVariable has this program be an emulator, in the folder that it names.
const emulatorVariable = "ZAEL_TEST_EMULATOR"

func TestMain(m *testing.M) {
	if folder := os.Getenv(emulatorVariable); folder != "" {
		err := http.ListenAndServe("127.0.0.1:"+os.Args[len(os.Args)-1], &engine{folder: folder})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv(mainVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// engine is a DynamoDB that keeps a table and what is put into it together, all of which every read
// returns. It appends what it is asked to the file asked of its folder, and refuses the operations in
// the file refused.
type engine struct {
	anAWS
	folder  string
	mu      sync.Mutex
	items   []any
	streams int // how often it was asked for the stream
}

func (s *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	const add = os.O_CREATE | os.O_APPEND | os.O_WRONLY
	if file, err := os.OpenFile(filepath.Join(s.folder, "asked"), add, 0o644); err == nil {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		fmt.Fprintf(file, "%s %s\n", operation, body)
		_ = file.Close()
	}
	if refused, err := os.ReadFile(filepath.Join(s.folder, "refused")); err == nil && string(refused) == operation {
		s.refuse(w, "AccessDeniedException")
		return
	}
	switch operation {
	case "":
		if r.URL.Path == "/alive" {
			return
		}
		fmt.Println("told to end")
		os.Exit(1)
	case "CreateTable", "DescribeTable", "UpdateTimeToLive", "DescribeTimeToLive":
		s.dynamoDB(w, r, operation)
	case "DescribeStream":
		if s.streams++; s.streams == 3 { // it is not answered
			_ = os.WriteFile(filepath.Join(s.folder, "third"), []byte("asked\n"), 0o644)
			<-r.Context().Done()
		}
		s.refuse(w, "AccessDeniedException")
	case "TransactWriteItems":
		var in struct {
			TransactItems []struct {
				Put struct{ Item map[string]any }
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		for _, one := range in.TransactItems {
			s.items = append(s.items, one.Put.Item)
		}
		fmt.Fprint(w, "{}")
	case "BatchGetItem":
		var in struct{ RequestItems map[string]any }
		_ = json.NewDecoder(r.Body).Decode(&in)
		all := map[string]any{}
		for name := range in.RequestItems {
			all[name] = s.items
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"Responses": all})
	default:
		fmt.Fprint(w, "{}")
	}
}

// withEmulator returns a folder in which this program is installed as Dynoxide.
func withEmulator(t *testing.T) (folder string) {
	t.Helper()
	noAWS(t)
	os.Unsetenv("AWS_EC2_METADATA_DISABLED") // noAWS has it set again
	folder = t.TempDir()
	file := filepath.Join(folder, "node_modules", emulator.Dynoxide.Package().Name, "dynoxide")
	check.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	self, err := os.Executable()
	check.Must(t, err)
	script := fmt.Sprintf("#!/bin/sh\n%s=%s exec %s \"$@\"\n", emulatorVariable, quoted(folder), quoted(self))
	check.Must(t, os.WriteFile(file, []byte(script), 0o755))
	return folder
}

func dev(folder string, args ...string) []string {
	return append([]string{"dev", "--engine", "dynoxide", "--emulators", folder}, args...)
}

// A command runs in the environment that finds the table, reads and writes what dev does, and its
// status is that of dev.
func TestDevRunsACommand(t *testing.T) {
	folder := withEmulator(t)
	t.Setenv("ZAEL_TEST_OWN", "kept")
	s := &shell{T: t, stdin: "typed"}
	out, errs := s.run(7, dev(folder, "--table", "mine", "-n", "team", "--no-functions", "--",
		"sh", "-c", `env | grep -E "^(AWS|ZAEL)_"; cat; exit 7`)...)
	got := strings.Split(regexp.MustCompile(`http://127\.0\.0\.1:\d+`).ReplaceAllString(out, "HERE"), "\n")
	slices.Sort(got)
	want := []string{
		"AWS_ACCESS_KEY_ID=emulator", "AWS_DEFAULT_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true",
		"AWS_ENDPOINT_URL_DYNAMODB=HERE", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS=HERE", "AWS_REGION=us-east-1",
		"AWS_SECRET_ACCESS_KEY=emulator", "ZAEL_NAMESPACE=team", "ZAEL_STACK=mine", "ZAEL_TEST_OWN=kept", "typed",
	}
	if !slices.Equal(got, want) || !strings.Contains(errs, "sh: exit status 7") {
		t.Errorf("got %q, want %q; %s", got, want, errs)
	}
	file, err := os.ReadFile(filepath.Join(folder, "asked"))
	if asked := string(file); err != nil || !strings.Contains(asked, "CreateTable") ||
		!regexp.MustCompile(`TransactWriteItems .*"team"`).MatchString(asked) || strings.Contains(asked, "DescribeStream") {
		t.Errorf("DynamoDB was asked %q, %v", asked, err)
	}
	if answer, err := http.Get(regexp.MustCompile(`http:.*`).FindString(out) + "/alive"); err == nil {
		t.Errorf("the emulator still answers: %s", answer.Status)
	}
	s.run(0, dev(folder, "--no-functions", "--", "true")...)
	_, errs = s.run(1, dev(folder, "--no-functions", "--", "false")...)
	if !strings.Contains(errs, "false: exit status 1") {
		t.Errorf("exit status 1: %s", errs)
	}
	s.says(failed, "dev --no-functions --engine dynoxide --emulators "+folder+" -- no-such-command", "no-such-command")
	_, errs = s.run(128+9, dev(folder, "--no-functions", "--", "sh", "-c", "kill -9 $$")...)
	if !strings.Contains(errs, "killed") {
		t.Errorf("killed: %s", errs)
	}
}

// The functions of dev read the stream for as long as its command runs, and why they cannot is
// told once.
func TestDevReadsTheStream(t *testing.T) {
	folder := withEmulator(t)
	third := filepath.Join(folder, "third")
	check.Must(t, syscall.Mkfifo(third, 0o644))
	_, errs := (&shell{T: t}).run(0, dev(folder, "--", "cat", third)...)
	if n := strings.Count(errs, "aggregator: "); n != 1 || !strings.Contains(errs, "DescribeStream") {
		t.Errorf("told %d times: %s", n, errs)
	}
}

// firstWrite does something when something is written for the first time.
type firstWrite struct {
	strings.Builder
	do func(text string)
}

func (o *firstWrite) Write(text []byte) (int, error) {
	if o.Len() == 0 {
		defer o.do(string(text))
	}
	return o.Builder.Write(text)
}

// devUntil runs dev, which has printed its environment when it does something.
func devUntil(t *testing.T, args []string, do func(cancel func(), env map[string]string)) error {
	t.Helper()
	ctx, cancel := signal.NotifyContext(t.Context(), os.Interrupt) // as main: a child ignores what its parent ignores
	defer cancel()
	out := &firstWrite{do: func(text string) {
		env := map[string]string{}
		_ = json.Unmarshal([]byte(text), &env)
		do(cancel, env)
	}}
	a := &app{out: out, errs: io.Discard}
	cmd := root(a)
	cmd.SetArgs(args)
	defer func() { a.progress.end() }()
	return cmd.ExecuteContext(ctx)
}

// Without a command dev ends well when it is interrupted, and not when the emulator ends.
func TestHowDevEnds(t *testing.T) {
	folder := withEmulator(t)
	args := dev(folder, "--no-functions", "-o", "json")
	err := devUntil(t, args, func(cancel func(), env map[string]string) {
		check.Equal(t, env["ZAEL_STACK"], "zae-limiter", "environment %q", env)
		cancel()
	})
	check.NoError(t, err, "interrupted")
	err = devUntil(t, args, func(_ func(), env map[string]string) {
		if answer, err := http.Get(env["AWS_ENDPOINT_URL_DYNAMODB"]); err == nil {
			_ = answer.Body.Close()
		}
	})
	if err == nil || !strings.Contains(err.Error(), "dynoxide ended: told to end") {
		t.Errorf("the emulator ended: %v", err)
	}
	t.Setenv("TMPDIR", filepath.Join(folder, "none"))
	if err = devUntil(t, dev(folder, "--no-functions"), nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("no place for the environment: %v", err)
	}
}

// An interrupt is passed on to the command, which may end as it likes.
func TestDevInterruptsItsCommand(t *testing.T) {
	folder := withEmulator(t)
	for _, code := range []int{5, 0} {
		script := fmt.Sprintf(`trap 'kill $!; exit %d' INT; sleep 1000 >/dev/null 2>&1 & echo ready; wait`, code)
		err := devUntil(t, dev(folder, "--no-functions", "--", "sh", "-c", script),
			func(cancel func(), _ map[string]string) { cancel() })
		check.Equal(t, status(err), code, "status : %v", err)
	}
}

// Why there is no table to develop against is said.
func TestDevWithoutATable(t *testing.T) {
	folder := withEmulator(t)
	for operation, want := range map[string]string{
		"CreateTable": `create table "zae-limiter": `, "BatchGetItem": "limiter: not set up: ",
	} {
		check.Must(t, os.WriteFile(filepath.Join(folder, "refused"), []byte(operation), 0o644))
		_, errs := (&shell{T: t}).run(failed, dev(folder, "--", "echo", "ran")...)
		if !strings.Contains(errs, want) {
			t.Errorf("without %s: %s", operation, errs)
		}
	}
}

// The line that dev prints gives a shell the environment, whatever is in it, and is of no
// use any more when dev has ended.
func TestAShellTakesTheLineOfDev(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	defer func(name string) { os.Args[0] = name }(os.Args[0])
	os.Args[0] = "/a b/zael"
	var out strings.Builder
	a := &app{out: &out, format: "table", table: "mine", namespace: "team a"}
	forget, err := a.printEnvironment(map[string]string{"ZAEL_STACK": "mine", "ZAEL_NAMESPACE": "team's $HOME `x`"})
	check.Must(t, err)
	for _, want := range []string{"# Table mine with the namespace team a, until", "\n'/a b/zael' load --rate"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	line := regexp.MustCompile(`(?m)^\. .*$`).FindString(out.String())
	shell := func() (string, error) {
		said, err := exec.Command("sh", "-c", line+` && printf %s "$ZAEL_STACK, $ZAEL_NAMESPACE"`).Output()
		return string(said), err
	}
	if said, err := shell(); err != nil || said != "mine, team's $HOME `x`" {
		t.Errorf("%q: %q, %v", line, said, err)
	}
	forget()
	if said, err := shell(); err == nil {
		t.Errorf("after its end the line still sets %q", said)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Where the environment has no room, no line is printed that reads it.
func TestTheEnvironmentIsNotLostInSilence(t *testing.T) {
	folder := withEmulator(t)
	t.Setenv("TMPDIR", t.TempDir())
	self, err := os.Executable()
	check.Must(t, err)
	args := append([]string{"-c", `ulimit -f 0; exec "$0" "$@"`, self}, dev(folder, "--no-functions")...)
	cmd := exec.CommandContext(t.Context(), "sh", args...)
	cmd.Env = append(os.Environ(), mainVariable+"=1", "GOCOVERDIR=")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err == nil || !strings.Contains(errs.String(), syscall.EFBIG.Error()) || out.String() != "" {
		t.Errorf("%v after %q: %s", err, out.String(), errs.String())
	}
	if left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*.env")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
