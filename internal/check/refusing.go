package check

import (
	"errors"
	"net"
	"testing"
)

// Refusing returns an address on this machine that refuses connections until the test ends. Its port is that
// of a connection, so no program can listen there. The port of a closed listener may be taken.
func Refusing(t testing.TB) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	c, err := net.Dial("tcp", l.Addr().String())
	Must(t, err)
	t.Cleanup(func() { _ = errors.Join(c.Close(), l.Close()) })
	return c.LocalAddr().String()
}

// Hold keeps other programs from the port of a listener, by a connection to it, until release is called:
// while the listener is closed, too.
func Hold(l net.Listener) (release func(), err error) {
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	server, err := l.Accept()
	return func() { _ = errors.Join(client.Close(), server.Close()) }, err
}
