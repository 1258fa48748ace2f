package main

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/envoylimit"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// piped is a listener of connections in memory.
type piped chan net.Conn

func (p piped) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p piped) Close() error { return nil }

func (p piped) Addr() net.Addr { return &net.TCPAddr{} }

// A client that is slow to ask, or to read, loses its connection.
func TestServeCutsSlowClients(t *testing.T) {
	const acquire = "POST /v1/acquire HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
	const envoy = "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
	for name, c := range map[string]struct {
		grpc  bool
		sends string
		reads bool
		after time.Duration
	}{
		"nothing":                {reads: true, after: 5 * time.Second},
		"half of a header":       {sends: acquire, reads: true, after: 5 * time.Second},
		"half of a body":         {sends: acquire + "\r\n{", reads: true, after: 10 * time.Second},
		"half of a body of JSON": {sends: envoy + "\r\n{", reads: true, after: 10 * time.Second},
		"it does not read":       {sends: "GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n", after: 30 * time.Second},
		"nothing of gRPC":        {grpc: true, reads: true, after: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := limitertest.NewLive(t)
				ns := table.Admin("")
				l := table.Limiter(nil)
				config, err := envoylimit.Parse(envoylimit.File{Name: "edge.yaml", Text: []byte(serveRules)})
				if err != nil {
					t.Fatal(err)
				}
				service := envoylimit.New(l, config, envoylimit.Options{})
				listener := make(piped, 1)
				ended := make(chan struct{})
				var stop func()
				if c.grpc {
					s, _, err := grpcServer(serveFlags{}, service)
					if err != nil {
						t.Fatal(err)
					}
					stop = s.Stop
					go func() { _ = s.Serve(listener); close(ended) }()
				} else {
					s := httpServer(service, &api{l, ns, newLeases(1), func(error) {}}, newMetrics())
					stop = func() { _ = s.Close() }
					go func() { _ = s.Serve(listener); close(ended) }()
				}
				client, server := net.Pipe()
				listener <- server
				began := time.Now()
				if c.sends != "" { // a pipe would wait for its reader
					_, _ = io.WriteString(client, c.sends)
				}
				if !c.reads {
					time.Sleep(c.after + 1) // it is cut meanwhile
					began = began.Add(1)
				}
				_, _ = io.Copy(io.Discard, client) // until it is cut
				if took := time.Since(began); took != c.after {
					t.Errorf("cut after %v, want %v", took, c.after)
				}
				close(listener)
				stop()
				<-ended
			})
		})
	}
}
