package runtimeapi

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/childproc"
)

// environment is one execution environment: an API server and at most one process. Only its holder
// (which took it from the pool) calls invoke and warm.
type environment struct {
	host   *Host
	index  int
	api    string // host:port
	server *http.Server

	mu     sync.Mutex
	run    *run // nil before the first start and after close
	closed bool
}

// run is one process and its current invocation.
type run struct {
	proc    *childproc.Proc
	begin   time.Time
	deliver chan *invocation // unbuffered: received by a pending next call
	polled  chan struct{}    // closed at the first next
	once    sync.Once
	current atomic.Pointer[invocation]
}

type invocation struct {
	id       string
	payload  []byte
	deadline time.Time
	fault    Fault
	answer   chan Result // capacity 1
}

// initTimeout is how long a process may take from exec to its first next.
const initTimeout = time.Minute

func newEnvironment(h *Host, index int) (*environment, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("runtime API: %w", err)
	}
	e := &environment{host: h, index: index, api: l.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+apiPrefix+"/invocation/next", e.next)
	mux.HandleFunc("POST "+apiPrefix+"/invocation/{id}/response", e.response)
	mux.HandleFunc("POST "+apiPrefix+"/invocation/{id}/error", e.errorReport)
	e.server = &http.Server{Handler: mux}
	go e.server.Serve(l)
	return e, nil
}

// start replaces an ended process. It fails only if the binary cannot be executed or the host is
// closed.
func (e *environment) start() (*run, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	cfg := e.host.cfg
	cmd := exec.Command(cfg.Binary)
	cmd.Dir = filepath.Dir(cfg.Binary)
	cmd.Env = childproc.Env(append([]string{
		"AWS_LAMBDA_RUNTIME_API=" + e.api,
		"AWS_LAMBDA_FUNCTION_NAME=" + cfg.Name,
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=" + strconv.Itoa(cfg.MemoryMB),
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
		"AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/" + cfg.Name,
		"AWS_LAMBDA_LOG_STREAM_NAME=local-" + strconv.Itoa(e.index),
		"LAMBDA_TASK_ROOT=" + cmd.Dir,
		"_HANDLER=bootstrap",
		"TZ=:UTC",
	}, cfg.Env...)...)
	cmd.Stdout, cmd.Stderr = writer(e.host.write), writer(e.host.write)
	r := &run{begin: time.Now(), deliver: make(chan *invocation), polled: make(chan struct{})}
	p, err := childproc.Start(cmd)
	if err != nil {
		return nil, err
	}
	r.proc = p
	e.run = r
	e.host.count(func(s *Stats) { s.Starts++ })
	return r, nil
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// ready returns a process that waits for work or is about to, or a failure if a new one ends before
// its first next. (The Lambda library for Go reports no errors of the init phase.)
func (e *environment) ready(ctx context.Context, requestID string) (*run, *Result, error) {
	r := e.live()
	if r == nil {
		var err error
		if r, err = e.start(); err != nil {
			return nil, nil, err
		}
	}
	var failed Result
	select {
	case <-r.polled:
		return r, nil, nil
	case <-r.proc.Done():
		failed = e.exited(r, requestID)
	case <-time.After(initTimeout):
		failed = failure(requestID, "Sandbox.Timedout", fmt.Sprintf("init took longer than %v", initTimeout))
	case <-ctx.Done():
		r.proc.Kill()
		return nil, nil, ctx.Err()
	}
	r.proc.Kill()
	e.host.count(func(s *Stats) { s.Crashes++ })
	return nil, &failed, nil
}

func (e *environment) live() *run {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.run == nil {
		return nil
	}
	select {
	case <-e.run.proc.Done():
		return nil
	default:
		return e.run
	}
}

func (e *environment) warm(ctx context.Context) error {
	_, failed, err := e.ready(ctx, rand.Text())
	if failed != nil {
		err = fmt.Errorf("init: %s: %s", failed.ErrorType, failed.Payload)
	}
	return err
}

func (e *environment) invoke(ctx context.Context, payload []byte) (Result, error) {
	inv, n := &invocation{id: rand.Text(), payload: payload, answer: make(chan Result, 1)}, 0
	e.host.count(func(s *Stats) { s.Invocations++; n = s.Invocations })
	if inject := e.host.cfg.Inject; inject != nil {
		inv.fault = inject(n, payload)
	}
	if err := smithytime.SleepWithContext(ctx, inv.fault.Delay); err != nil {
		return Result{}, err
	}
	for {
		r, failed, err := e.ready(ctx, inv.id)
		if err != nil {
			return Result{}, err
		}
		if failed != nil {
			return *failed, nil
		}
		// A process that answered with an error may be about to exit; then it never requests the
		// next invocation, and is replaced.
		inv.deadline = time.Now().Add(e.host.cfg.Timeout)
		select {
		case r.deliver <- inv:
			return e.await(ctx, r, inv)
		case <-r.proc.Done():
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
	}
}

func (e *environment) await(ctx context.Context, r *run, inv *invocation) (Result, error) {
	begin := time.Now()
	if after := inv.fault.KillAfter; after > 0 {
		defer time.AfterFunc(after, r.proc.Kill).Stop()
	}
	var result Result
	select {
	case result = <-inv.answer:
	case <-r.proc.Done():
		select {
		case result = <-inv.answer:
		default:
			e.host.count(func(s *Stats) { s.Crashes++ })
			result = e.exited(r, inv.id)
		}
	case <-time.After(time.Until(inv.deadline)):
		r.proc.Kill()
		result = failure(inv.id, "Sandbox.Timedout",
			fmt.Sprintf("Task timed out after %.2f seconds", e.host.cfg.Timeout.Seconds()))
	case <-ctx.Done():
		r.proc.Kill()
		return Result{}, ctx.Err()
	}
	result.Duration = time.Since(begin)
	r.current.Store(nil)
	return result, nil
}

func (e *environment) exited(r *run, id string) Result {
	message := "Runtime exited without providing a reason"
	if err := r.proc.Err(); err != nil {
		message = "Runtime exited with error: " + err.Error()
	}
	return failure(id, "Runtime.ExitError", message)
}

func (e *environment) close() {
	e.mu.Lock()
	e.closed = true
	r := e.run
	e.mu.Unlock()
	if r != nil {
		r.proc.Kill()
	}
	e.server.Close()
}
