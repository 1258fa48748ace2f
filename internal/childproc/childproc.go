// Package childproc runs child processes that cannot outlive the process that
// started them (on Linux; elsewhere only while Kill is called).
package childproc

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Proc is a started child process. Its methods are safe for concurrent use.
type Proc struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid after done is closed
}

// Start starts cmd, which must not have been started, and begins waiting for
// it. On Linux the kernel kills the child when this process ends, however it
// ends; the child's whole process group is what Kill kills.
func Start(cmd *exec.Cmd) (*Proc, error) {
	harden(cmd)
	// A child that holds the pipes open through a grandchild must not block Wait.
	cmd.WaitDelay = 2 * time.Second
	p := &Proc{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The parent-death signal is tied to the thread that forked, so that
		// thread is kept until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %q: %w", cmd.Path, err)
	}
	return p, nil
}

// Pid is the child's process id.
func (p *Proc) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended and its output was read.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Err returns how the child ended; nil while it runs and after a clean exit.
func (p *Proc) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Kill kills the child at once (SIGKILL) and waits until it is gone. It may be
// called again.
func (p *Proc) Kill() {
	select {
	case <-p.done:
		return
	default:
	}
	kill(p.cmd.Process)
	<-p.done
}

// Env is the environment of this process without any of the AWS and Lambda
// variables, so that a child sees only what its starter adds.
func Env(extra ...string) []string {
	var env []string
	for _, key := range []string{"PATH", "HOME", "TMPDIR", "LANG", "JAVA_HOME", "LD_LIBRARY_PATH", "GORACE",
		"GOCOVERDIR"} {
		if value, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+value)
		}
	}
	return append(env, extra...)
}
