package runtimeapi

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// cpu is how long a process has computed, user and system time, in ticks of 10 ms; 0
// if that cannot be read.
func cpu(pid int) (total time.Duration) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 everywhere
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
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

// peakMemory is the most memory that a process has had resident, in bytes; 0 if that
// cannot be read.
func peakMemory(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
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
