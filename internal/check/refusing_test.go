package check

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// A connection is refused, and the port cannot be taken.
func TestRefusing(t *testing.T) {
	address := Refusing(t)
	Is(t, Err(net.Dial("tcp", address)), syscall.ECONNREFUSED, "connect")
	if l, err := net.Listen("tcp", address); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listening at %s: %v, %v", address, l, err)
	}
}
