//go:build !linux

package proc

import (
	"os"
	"os/exec"
	"time"
)

func harden(*exec.Cmd) {}

func kill(p *os.Process) { _ = p.Kill() }

// CPU is not known here.
func (p *Proc) CPU() time.Duration { return 0 }

// PeakMemory is not known here.
func (p *Proc) PeakMemory() int64 { return 0 }
