// Package runtimeapi runs built Lambda binaries behind a server that implements the Lambda Runtime
// API, like the service: one invocation at a time per execution environment, and a new process
// after a crash or a timeout.
package runtimeapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// Config describes the function to run. Binary is required; every other zero value is a default.
type Config struct {
	Binary string // the built bootstrap
	// KEY=value, added to the Lambda variables; only PATH, HOME and similar ones are inherited
	Env          []string
	Environments int           // execution environments, that is, concurrent invocations; 0 is 1
	Timeout      time.Duration // of one invocation; 0 is 60 s
	Name         string        // function name; "" is "function"
	MemoryMB     int           // reported to the function, not enforced; 0 is 256

	// Inject returns the fault of each invocation. Invocations are counted from 1 over all
	// environments, and it may be called concurrently. nil injects nothing.
	Inject func(invocation int, payload []byte) Fault
}

// Fault is the trouble of one invocation. The zero value is none.
type Fault struct {
	Delay time.Duration // the invocation reaches the function this much later
	// the process is killed this long after the invocation reached it, unless it has answered
	KillAfter time.Duration
	// the process is killed when it answers: the work is done and the answer is lost
	KillAtResponse bool
}

// Result is the result for a caller of the function.
type Result struct {
	Payload       []byte        // the response, or the error document when FunctionError is set
	FunctionError string        // "" after a response, else "Unhandled"
	ErrorType     string        // for example Runtime.ExitError, Sandbox.Timedout, or the function's own
	Duration      time.Duration // from delivery to the answer
}

// Stats counts events since Start.
type Stats struct {
	Invocations int
	Starts      int // processes started
	// processes that ended by themselves or were killed by a fault, during an invocation or in init
	Crashes int
	Init    []time.Duration // of each start that reached its first next: from exec to that call
}

// Host runs one function. It is safe for concurrent use.
type Host struct {
	cfg  Config
	pool chan *environment
	all  []*environment

	mu    sync.Mutex
	stats Stats
	logs  []byte
}

// maxPayload is Lambda's limit for a synchronous request and response.
const maxPayload = 6 << 20

// keptLogs bounds the result of Logs.
const keptLogs = 4 << 20

// ErrClosed is returned by Invoke after Close.
var ErrClosed = errors.New("runtimeapi: host is closed")

// Built returns where make build-local puts a function.
func Built(function string) string {
	return filepath.Join(engine.Root(), "..", "..", "dist", "local", function, "bootstrap")
}

// Start checks that the binary exists, and opens the API servers on free ports of 127.0.0.1.
// Processes start with the first invocation, or with Warm.
func Start(cfg Config) (*Host, error) {
	if info, err := os.Stat(cfg.Binary); err != nil {
		return nil, fmt.Errorf("function binary %q: %w (run `make build-local`)", cfg.Binary, err)
	} else if info.IsDir() || info.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("function binary %q is not executable", cfg.Binary)
	}
	cfg.Environments, cfg.Timeout = max(cfg.Environments, 1), cmp.Or(cfg.Timeout, time.Minute)
	cfg.Name, cfg.MemoryMB = cmp.Or(cfg.Name, "function"), cmp.Or(cfg.MemoryMB, 256)
	h := &Host{cfg: cfg, pool: make(chan *environment, cfg.Environments)}
	for i := range cfg.Environments {
		env, err := newEnvironment(h, i)
		if err != nil {
			h.Close()
			return nil, err
		}
		h.all = append(h.all, env)
		h.pool <- env
	}
	return h, nil
}

// Close kills all processes and closes the servers. Invocations under way end
// with a function error, later ones with ErrClosed. It may be called again.
func (h *Host) Close() {
	for _, env := range h.all {
		env.close()
	}
}

// Invoke runs the function once, waiting for a free environment. If the function fails, crashes or
// times out, the Result has FunctionError set; an error is returned only for ctx, a payload above 6
// MB and a closed host. If ctx ends during the invocation, the process is killed.
func (h *Host) Invoke(ctx context.Context, payload []byte) (Result, error) {
	if len(payload) > maxPayload {
		return Result{}, fmt.Errorf("payload of %d bytes, at most %d are accepted", len(payload), maxPayload)
	}
	select {
	case <-ctx.Done():
		return Result{}, ctx.Err()
	case env := <-h.pool:
		defer func() { h.pool <- env }()
		return env.invoke(ctx, payload)
	}
}

// Warm starts every environment without a process and waits for their first next. It returns the
// first init failure.
func (h *Host) Warm(ctx context.Context) error {
	held := make([]*environment, 0, len(h.all))
	defer func() {
		for _, env := range held {
			h.pool <- env
		}
	}()
	for range h.all {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case env := <-h.pool:
			held = append(held, env)
		}
	}
	for _, env := range held {
		if err := env.warm(ctx); err != nil {
			return err
		}
	}
	return nil
}

// KillBusy kills the processes that are working on an invocation, and returns their number. Their
// invocations end with Runtime.ExitError.
func (h *Host) KillBusy() int {
	killed := 0
	for _, env := range h.all {
		if r := env.live(); r != nil && r.current.Load() != nil {
			r.proc.Kill()
			killed++
		}
	}
	return killed
}

// Stats returns a copy of the counters.
func (h *Host) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stats
	s.Init = append([]time.Duration(nil), s.Init...)
	return s
}

// Logs returns the processes' output to stdout and stderr, at most the last 4 MB.
func (h *Host) Logs() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.logs)
}

// write collects process output for the environments.
func (h *Host) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.logs = append(h.logs, p...)
	if over := len(h.logs) - keptLogs; over > keptLogs/4 {
		h.logs = append([]byte(nil), h.logs[over:]...)
	}
	return len(p), nil
}

func (h *Host) count(change func(*Stats)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.stats)
}

// failure returns the result of an invocation that the function did not answer.
func failure(requestID, errorType, message string) Result {
	doc, _ := json.Marshal(map[string]string{"errorType": errorType,
		"errorMessage": "RequestId: " + requestID + " Error: " + message})
	return Result{Payload: doc, FunctionError: "Unhandled", ErrorType: errorType}
}
