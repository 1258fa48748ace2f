package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startTied starts a process that ends with this one, however that ends, and
// closes done when it has ended. An interrupt at the terminal does not reach it.
func startTied(cmd *exec.Cmd, done chan struct{}) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The signal is sent when the thread that started it ends, so it is kept.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is told by its output
			close(done)
		}
	}()
	return <-started
}
