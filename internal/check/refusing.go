package check

import (
	"net"
	"testing"
)

// Refusing returns an address on this machine that refuses connections until the test ends. Its port is
// that of a connection, so that no other program can listen there. The port of a closed listener is free:
// another program may take it.
func Refusing(t testing.TB) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c.LocalAddr().String()
}
