// Package start is built with this file in place of its own clock.go: the clock is
// eight bytes of a file, epoch milliseconds, which the player of the stream sets.
package start

import (
	"encoding/binary"
	"os"
	"syscall"
	"time"
)

var clock = func() []byte {
	f, err := os.Open(os.Getenv("VIRTUAL_CLOCK"))
	if err != nil {
		panic(err)
	}
	defer f.Close()
	shared, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return shared
}()

// Now is the clock of the functions.
func Now() time.Time { return time.UnixMilli(int64(binary.LittleEndian.Uint64(clock))) }
