package runtimeapi

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

var probe string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "probe")
	if err != nil {
		panic(err)
	}
	probe = filepath.Join(dir, "bootstrap")
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", probe, "./testdata/probe")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func host(t *testing.T, cfg Config) *Host {
	t.Helper()
	cfg.Binary = probe
	h, err := Start(cfg)
	check.Must(t, err)
	t.Cleanup(h.Close)
	return h
}

type answer struct {
	Pid            int
	RequestID, Env string
	LeftMs         int64
	ARN            string
}

func invoke(t *testing.T, h *Host, do string) (Result, answer) {
	t.Helper()
	r, err := h.Invoke(t.Context(), []byte(`{"do":"`+do+`"}`))
	check.Must(t, err)
	var a answer
	if r.FunctionError == "" {
		check.Must(t, json.Unmarshal(r.Payload, &a))
	}
	return r, a
}

func TestInvokeCarriesContext(t *testing.T) {
	h := host(t, Config{Env: []string{"PROBE=yes"}, Timeout: 30 * time.Second, Name: "counter"})
	_, a := invoke(t, h, "answer")
	if a.RequestID == "" || a.Env != "yes" || a.LeftMs <= 0 || a.LeftMs > 30_000 ||
		!strings.HasSuffix(a.ARN, ":function:counter") {
		t.Errorf("answer %+v", a)
	}
	_, again := invoke(t, h, "answer")
	check.Equal(t, again.Pid, a.Pid, "a warm environment was not used again")
	check.Equal(t, again.RequestID == a.RequestID, false, "two invocations have the same id")
	s := h.Stats()
	h.Close() // an answer may arrive before the process's output
	if s.Starts != 1 || s.Invocations != 2 || len(s.Init) != 1 || !strings.Contains(h.Logs(), "probe asked to answer") {
		t.Errorf("stats %+v, logs %q", s, h.Logs())
	}
	t.Logf("exec to first next: %v", s.Init[0])
}

// TestTrouble: each kind of failure, and whether the process survives.
func TestTrouble(t *testing.T) {
	for _, tt := range []struct {
		do, errorType string
		sameProcess   bool
		timeout       time.Duration
	}{
		{do: "fail", errorType: "errorString", sameProcess: true},
		{do: "panic", errorType: "string"},
		{do: "exit", errorType: "Runtime.ExitError"},
		{do: "hang", errorType: "Sandbox.Timedout", timeout: 200 * time.Millisecond}, // for that invocation alone
	} {
		t.Run(tt.do, func(t *testing.T) {
			h := host(t, Config{})
			_, before := invoke(t, h, "answer")
			usual := h.cfg.Timeout
			h.cfg.Timeout = cmp.Or(tt.timeout, usual)
			r, _ := invoke(t, h, tt.do)
			h.cfg.Timeout = usual
			if r.FunctionError != "Unhandled" || r.ErrorType != tt.errorType {
				t.Errorf("result %+v: %s", r, r.Payload)
			}
			_, after := invoke(t, h, "answer")
			check.Equal(t, before.Pid == after.Pid, tt.sameProcess,
				"process before %d, after %d", before.Pid, after.Pid)
			check.Equal(t, h.Stats().Invocations, 3, "invocations")
		})
	}
}

func TestInitFailure(t *testing.T) {
	h := host(t, Config{Env: []string{"PROBE=refuse"}})
	r, _ := invoke(t, h, "answer")
	if r.ErrorType != "Runtime.ExitError" || !strings.Contains(string(r.Payload), "exit status 2") {
		t.Errorf("result %+v: %s", r, r.Payload)
	}
	if !strings.Contains(h.Logs(), "PROBE: refused to start") {
		t.Errorf("logs %q", h.Logs())
	}
	if err := h.Warm(t.Context()); err == nil {
		t.Error("Warm reports no init failure")
	}
}

func TestInjectedKills(t *testing.T) {
	h := host(t, Config{Inject: func(n int, _ []byte) Fault {
		switch n {
		case 1:
			return Fault{KillAtResponse: true}
		case 2:
			return Fault{KillAfter: 50 * time.Millisecond}
		}
		return Fault{}
	}})
	for _, do := range []string{"answer", "hang"} {
		if r, _ := invoke(t, h, do); r.ErrorType != "Runtime.ExitError" || !strings.Contains(string(r.Payload), "killed") {
			t.Errorf("%s: result %+v: %s", do, r, r.Payload)
		}
	}
	if r, _ := invoke(t, h, "answer"); r.FunctionError != "" {
		t.Errorf("after the kills: %s", r.Payload)
	}
	if s := h.Stats(); s.Crashes != 2 || s.Starts != 3 {
		t.Errorf("stats %+v", s)
	}
}

func TestKillBusyOnDemand(t *testing.T) {
	h := host(t, Config{Environments: 2})
	check.Must(t, h.Warm(t.Context()))
	check.Equal(t, h.KillBusy(), 0, "idle processes killed")
	done := make(chan Result)
	go func() {
		r, _ := h.Invoke(context.Background(), []byte(`{"do":"hang"}`))
		done <- r
	}()
	for h.KillBusy() == 0 {
		time.Sleep(time.Millisecond)
	}
	if r := <-done; r.ErrorType != "Runtime.ExitError" {
		t.Errorf("result %+v", r)
	}
}

func TestEnvironmentsRunConcurrently(t *testing.T) {
	h := host(t, Config{Environments: 3})
	pids := make(chan int, 30)
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			r, err := h.Invoke(context.Background(), []byte(`{"do":"answer"}`))
			var a answer
			if err != nil || json.Unmarshal(r.Payload, &a) != nil {
				t.Errorf("result %+v, error %v", r, err)
			}
			pids <- a.Pid
		})
	}
	all.Wait()
	close(pids)
	seen := map[int]bool{}
	for pid := range pids {
		seen[pid] = true
	}
	if len(seen) > 3 {
		t.Errorf("%d processes for 3 environments", len(seen))
	}
}

func TestADelayIsBeforeTheFunction(t *testing.T) {
	h := host(t, Config{Inject: func(int, []byte) Fault { return Fault{Delay: time.Hour} }})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	check.Is(t, check.Err(h.Invoke(ctx, []byte(`{"do":"answer"}`))), context.DeadlineExceeded)
	check.Equal(t, h.Stats().Starts, 0, "starts")
}

func TestInvokeObeysContextAndClose(t *testing.T) {
	h := host(t, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	check.Is(t, check.Err(h.Invoke(ctx, []byte(`{"do":"hang"}`))), context.DeadlineExceeded, "error")
	h.Close()
	check.Is(t, check.Err(h.Invoke(t.Context(), []byte(`{}`))), ErrClosed, "after Close")
	if _, err := Start(Config{Binary: "no/such/bootstrap"}); err == nil || !strings.Contains(err.Error(), "make") {
		t.Errorf("missing binary: %v", err)
	}
}
