package proc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

func harden(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func kill(p *os.Process) {
	if syscall.Kill(-p.Pid, syscall.SIGKILL) != nil {
		_ = p.Kill()
	}
}

// CPU is how long the child has computed, user and system time, in ticks of 10 ms; 0
// if that cannot be read.
func (p *Proc) CPU() (total time.Duration) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 everywhere
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(stat, []byte(") ")) // behind the name, which may hold blanks
	fields := bytes.Fields(after)
	const user, system = 11, 12
	for _, i := range []int{user, system} {
		if i < len(fields) {
			n, err := strconv.ParseInt(string(fields[i]), 10, 64)
			if err != nil {
				return 0
			}
			total += time.Duration(n) * tick
		}
	}
	return total
}

// PeakMemory is the most memory that the child has had resident, in bytes; 0 if that
// cannot be read.
func (p *Proc) PeakMemory() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	fields := bytes.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return kilobytes << 10
}
