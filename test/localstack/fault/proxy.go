package fault

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// Proxy forwards to one engine. It is safe for concurrent use.
type Proxy struct {
	Endpoint string // http://127.0.0.1:port

	target string
	client *http.Client

	mu      sync.Mutex
	address string
	release func()       // the port, which no other program gets while the proxy is down
	server  *http.Server // nil while down
	rules   []*Rule
	random  *rand.Rand
	metered atomic.Bool
	usage   map[string]Usage
}

// Start opens a proxy in front of the engine endpoint on a free port of 127.0.0.1. seed is for
// rules with a probability.
func Start(target string, seed uint64) (*Proxy, error) {
	p := &Proxy{
		target: target, address: "127.0.0.1:0", random: rand.New(rand.NewPCG(seed, 0)), usage: map[string]Usage{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256,
			DisableCompression: true}},
	}
	if err := p.Up(); err != nil {
		return nil, err
	}
	p.Endpoint = "http://" + p.address
	return p, nil
}

// Engine opens a proxy in front of e, and returns e behind it.
func Engine(e *engine.Engine, seed uint64) (*Proxy, *engine.Engine, error) {
	p, err := Start(e.Endpoint, seed)
	if err != nil {
		return nil, nil, err
	}
	return p, e.At(p.Endpoint), nil
}

// Up listens again after Down, on the same port. It does nothing while up.
func (p *Proxy) Up() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.address)
	if err == nil && p.release == nil {
		p.address = l.Addr().String()
		p.release, err = check.Hold(l)
	}
	if err != nil {
		return fmt.Errorf("fault proxy: %w", err)
	}
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve)}
	go p.server.Serve(l)
	return nil
}

// Down closes the port and all connections: callers are refused until Up.
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		p.server.Close()
		p.server = nil
	}
}

// Stop ends the proxy.
func (p *Proxy) Stop() {
	p.Down()
	p.release()
	p.client.CloseIdleConnections()
}

// Add appends rules; earlier rules take precedence. It returns the first added one, for Hits.
func (p *Proxy) Add(rules ...*Rule) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, rules...)
	return rules[0]
}

// Clear removes all rules.
func (p *Proxy) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

func (p *Proxy) decide(c Call) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if r.Operation != "" && r.Operation != c.Operation || !bytes.Contains(c.Body, []byte(r.Contains)) ||
			r.Match != nil && !r.Match(c) {
			continue
		}
		r.matched++
		if r.matched <= r.Skip || r.Times > 0 && r.Hits() >= r.Times || r.Probability > 0 &&
			p.random.Float64() >= r.Probability {
			continue
		}
		r.hits.Add(1)
		return r.Fault
	}
	return Fault{}
}

// operation returns the last part of X-Amz-Target, or without one the method.
func operation(r *http.Request) string {
	target := cmp.Or(r.Header.Get("X-Amz-Target"), r.Method)
	return target[strings.LastIndex(target, ".")+1:]
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	call := Call{Operation: operation(r), Path: r.URL.Path, Body: body}
	p.count(call.Operation, func(u *Usage) { u.Calls++ })
	f := p.decide(call)
	if f.Delay > 0 && smithytime.SleepWithContext(r.Context(), f.Delay) != nil {
		return // the caller has left
	}
	real := f.Answer == nil && !f.Reset && !f.HalfAnswer
	var status int
	var header http.Header
	var answer []byte
	if f.Forward || f.HalfAnswer || real {
		if status, header, answer, err = p.forward(r, call); err != nil {
			reset(w)
			return
		}
		p.meter(call, status, answer)
	}
	switch {
	case f.Answer != nil:
		status, answer, header = f.Answer.Status, f.Answer.body(),
			http.Header{"Content-Type": {"application/x-amz-json-1.0"}}
		header.Set("X-Amzn-Requestid", "INJECTED")
	case f.Reset:
		reset(w)
		return
	}
	write(w, status, header, answer, f.HalfAnswer)
}

// forward performs the call at the engine, even if the caller leaves.
func (p *Proxy) forward(r *http.Request, call Call) (int, http.Header, []byte, error) {
	body := call.Body
	if p.metered.Load() {
		body = askForCapacity(call)
	}
	request, err := http.NewRequest(r.Method, p.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	request.Header = r.Header.Clone()
	request.ContentLength = int64(len(body))
	response, err := p.client.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, answer, err
}

func write(w http.ResponseWriter, status int, header http.Header, body []byte, half bool) {
	for name, values := range header {
		w.Header()[name] = values
	}
	// The engine may send no checksum, and then the SDK warns.
	w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if !half {
		w.Write(body)
		return
	}
	w.Write(body[:len(body)/2])
	http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// reset ends the connection with a TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(errors.Join(http.ErrAbortHandler, err))
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}
