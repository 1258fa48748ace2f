//go:build !linux

package main

import "os/exec"

// startTied starts a process, and closes done when it has ended.
func startTied(cmd *exec.Cmd, done chan struct{}) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait() // how it ended is told by its output
		close(done)
	}()
	return nil
}
