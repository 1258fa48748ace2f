package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/envoylimit"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

const serveRules = `domain: edge
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: trial
    rate_limit: {unit: minute, requests_per_unit: 1}
    shadow_mode: true
`

// served is a running serve. Its connections are in memory, so that it runs in a bubble too.
type served struct {
	*testing.T
	folder     string
	grpc, http *piped
	client     *http.Client
	lines      chan string
	stop       func()
	code       chan int
}

// notGranted are the calls that the policy to acquire does not allow.
var notGranted = limitertest.Trouble{Operations: []string{"Query", "BatchWriteItem"}, Err: limitertest.ErrDenied}

// serve runs serve until the test ends, with the rights that its page asks for.
func serve(t *testing.T, args ...string) *served {
	table := limitertest.New(t)
	table.Admin("")
	table.Trouble(notGranted)
	return serveFrom(t, table, args...)
}

func serveFrom(t *testing.T, table memory, args ...string) *served {
	s := &served{T: t, folder: t.TempDir(), grpc: newPiped("grpc"), http: newPiped("http"),
		lines: make(chan string, 100), code: make(chan int, 1)}
	s.client = s.newClient()
	s.write("edge.yaml", serveRules)
	in, out := io.Pipe()
	a := &app{in: strings.NewReader(""), out: io.Discard, errs: out, memory: table,
		listener: func(_, address string) (net.Listener, error) {
			return map[string]*piped{"grpc": s.grpc, "http": s.http}[address], nil
		}}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() {
		s.code <- a.run(ctx, append([]string{"serve", "--config", s.folder, "--grpc", "grpc", "--http", "http",
			"--ahead", "0", "--timeout", "1m"}, args...))
		_ = out.Close()
	}()
	go func() {
		defer close(s.lines)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			s.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range s.lines { // until it has ended
		}
	})
	listens := []string{s.line(), s.line()}
	slices.Sort(listens)
	if !slices.Equal(listens, []string{"HTTP on http", "gRPC on grpc"}) {
		t.Fatalf("serve says %q", listens)
	}
	return s
}

// line returns the next line that serve prints.
func (s *served) line() (text string) {
	s.Helper()
	select {
	case text = <-s.lines:
	case <-time.After(5 * time.Minute):
		s.Fatal("serve says nothing")
	}
	return text
}

// newClient returns a client with one connection at most: a request may come before the connection of the
// last one is idle, and would dial. It ends with the test.
func (s *served) newClient() *http.Client {
	c := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.http.dial(ctx) }}}
	s.Cleanup(c.CloseIdleConnections)
	return c
}

// post sends a body of JSON.
func (s *served) post(path, body string) (*http.Response, error) {
	return s.client.Post("http://http"+path, "application/json", strings.NewReader(body))
}

func (s *served) write(name, text string) {
	s.Helper()
	check.Must(s, os.WriteFile(filepath.Join(s.folder, name), []byte(text), 0o644))
}

func (s *served) dial(creds credentials.TransportCredentials) *grpc.ClientConn {
	s.Helper()
	conn, err := grpc.NewClient("passthrough:///127.0.0.1", grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.grpc.dial(ctx) }))
	check.Must(s, err)
	s.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask asks for one hit.
func ask(ctx context.Context, conn *grpc.ClientConn, key, value string) (*ratelimit.RateLimitResponse, error) {
	d := &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: value}}}
	return ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx,
		&ratelimit.RateLimitRequest{Domain: "edge", Descriptors: []*common.RateLimitDescriptor{d}})
}

func (s *served) codes(conn *grpc.ClientConn, key, value string, n int) (out []string) {
	s.Helper()
	for range n {
		r, err := ask(s.Context(), conn, key, value)
		check.Must(s, err)
		out = append(out, r.GetOverallCode().String())
	}
	return out
}

func (s *served) get(path string) (int, string) {
	s.Helper()
	resp, err := s.client.Get("http://http" + path)
	check.Must(s, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	check.Must(s, err)
	return resp.StatusCode, string(text)
}

func TestServe(t *testing.T) {
	s := serve(t)
	conn := s.dial(insecure.NewCredentials())
	check.Slices(t, s.codes(conn, "user", "ann", 3), []string{"OK", "OK", "OVER_LIMIT"}, "answers")
	s.codes(conn, "trial", "ann", 2)
	for _, name := range healthNames {
		h, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
		if err != nil || h.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", name, h, err)
		}
	}
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	check.Must(t, err)
	check.Must(t, stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}))
	if r, err := stream.Recv(); err != nil || !strings.Contains(r.String(), healthNames[2]) {
		t.Errorf("reflection: %v, %v", r, err)
	}
	if err := stream.CloseSend(); err != nil { // or the end would wait for it
		t.Fatal(err)
	}
	if code, text := s.get("/healthz"); code != http.StatusOK || text != "OK\n" {
		t.Errorf("/healthz: %d %q", code, text)
	}
	resp, err := s.post("/json", `{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "ann"}]}]}`)
	if err != nil || resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "30" {
		t.Errorf("/json: %v, %v", resp, err)
	}
	if err == nil {
		_ = resp.Body.Close()
	}
	code, text := s.get("/metrics")
	for _, want := range []string{
		`zae_limiter_hits_total{outcome="within",rule="edge|user"} 2`,
		`zae_limiter_hits_total{outcome="over",rule="edge|user"} 2`,
		`zae_limiter_hits_total{outcome="within",rule="edge|trial"} 1`,
		`zae_limiter_hits_total{outcome="shadow",rule="edge|trial"} 1`,
		`zae_limiter_events_total{kind="acquire",outcome="ok"} 3`, "zae_limiter_acquire_seconds_count 6",
	} {
		if !strings.Contains(text, want+"\n") || code != http.StatusOK {
			t.Errorf("/metrics has no %s:\n%s", want, text)
		}
	}
	s.stop()
	check.Equal(t, <-s.code, 0, "ended in")
	if _, err := s.grpc.dial(t.Context()); err == nil {
		t.Error("it listens after its end")
	}
}

// Of errors without a decision one a second is printed, with how many were not.
func TestServeSaysErrorsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		report := (&app{errs: &out}).seldom()
		for range 3 {
			report(errors.New("down"))
		}
		time.Sleep(time.Second)
		report(errors.New("late"))
		check.Equal(t, out.String(), "no decision: down\nno decision: late (and 2 more)\n")
	})
}

// What is too long is refused, whatever carries it, and takes nothing; the connection stays in use. Names may
// have any bytes that text can have, and different ones are different.
func TestServeRefusesWhatIsTooLong(t *testing.T) {
	s := serve(t)
	conn := s.dial(insecure.NewCredentials())
	long := strings.Repeat("x", 4<<20)
	if _, err := ask(t.Context(), conn, "user", long); grpcstatus.Code(err) != codes.ResourceExhausted {
		t.Errorf("4 MB by gRPC: %.200v", err)
	}
	for path, body := range map[string]string{
		"/json":       `{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "` + long + `"}]}]}`,
		"/v1/acquire": `{"entity": "` + long[:64<<10] + `", "resource": "api", "costs": {"rpm": 1}}`,
	} {
		resp, err := s.post(path, body)
		check.Must(t, err)
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%d bytes to %s: %d", len(body), path, resp.StatusCode)
		}
	}
	if code, _ := s.get("/healthz?" + long[:32<<10]); code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("32 KB of a header: %d", code)
	}
	for _, value := range []string{"ann", long[:1<<10], long[:1<<10] + "y", "a\x00b", "a\nb", "", "|",
		"2001:db8::1"} {
		check.Slices(t, s.codes(conn, "user", value, 3), []string{"OK", "OK", "OVER_LIMIT"}, "%.10q: answers", value)
	}
}

// wire sends messages of gRPC as they are, as Envoy does: it does not insist on UTF-8.
type wire struct{}

func (wire) Name() string { return "proto" }

func (wire) Marshal(v any) ([]byte, error) { return v.([]byte), nil }

func (wire) Unmarshal(text []byte, v any) error { return proto.Unmarshal(text, v.(proto.Message)) }

// Values that are not UTF-8 are limited as others are, each by itself. So is what they could be taken for.
func TestServeLimitsWhatIsNotUTF8(t *testing.T) {
	s := serve(t)
	conn := s.dial(insecure.NewCredentials())
	for _, value := range []string{"\xff", "\xfe", "\xff\xff", "x\xff", "\xc3", "\xed\xa0\x80", "\xff\x00", "\xffé",
		"ÿ", "\ufffd", "ÿé", "%FF", `\xff`, limiter.Hashed("\xff")} {
		text, err := proto.Marshal(&ratelimit.RateLimitRequest{Domain: "edge", Descriptors: []*common.RateLimitDescriptor{
			{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: strings.Repeat("?", len(value))}}}}})
		check.Must(t, err)
		text = bytes.Replace(text, bytes.Repeat([]byte("?"), len(value)), []byte(value), 1)
		var got []string
		for range 3 {
			var out ratelimit.RateLimitResponse
			if err := conn.Invoke(t.Context(), ratelimit.RateLimitService_ShouldRateLimit_FullMethodName, text, &out,
				grpc.ForceCodec(wire{})); err != nil {
				t.Fatalf("%q: %v", value, err)
			}
			got = append(got, out.GetOverallCode().String())
		}
		check.Slices(t, got, []string{"OK", "OK", "OVER_LIMIT"}, "%q: answers", value)
	}
	for _, text := range []string{"\x0a", "\x0a\x05edge", "\x12\x04\x0a\x02\x0a\x05", "\x0a\x01\xff\x12\x01\x0a"} {
		var out ratelimit.RateLimitResponse
		err := conn.Invoke(t.Context(), ratelimit.RateLimitService_ShouldRateLimit_FullMethodName, []byte(text), &out,
			grpc.ForceCodec(wire{}))
		if code := grpcstatus.Code(err); code != codes.InvalidArgument && code != codes.Internal {
			t.Errorf("%q, which is no message: %v", text, err)
		}
	}
}

// Rules that change are in force without a restart, and those with errors are refused with file and line.
func TestServeFollowsItsRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		conn := s.dial(insecure.NewCredentials())
		s.write("edge.yaml", strings.Replace(serveRules, "requests_per_unit: 2", "requests_per_unit: none", 1))
		want := []string{"the rules are refused, the old ones stay in force:",
			filepath.Join(s.folder, "edge.yaml") +
				`:4: descriptors: rate_limit: requests_per_unit: found "none", want 0 to 4294967295`}
		check.Slices(t, []string{s.line(), s.line()}, want, "says")
		check.Slices(t, s.codes(conn, "user", "ann", 3), []string{"OK", "OK", "OVER_LIMIT"}, "answers by the old rules")
		s.write("edge.yaml", strings.Replace(serveRules, "requests_per_unit: 2", "requests_per_unit: 1", 1))
		check.Equal(t, s.line(), "the new rules are in force", "says")
		check.Slices(t, s.codes(conn, "user", "bob", 2), []string{"OK", "OVER_LIMIT"}, "answers by the new rules")
		if _, text := s.get("/metrics"); !strings.Contains(text, `zae_limiter_rules_read_total{result="in force"} 1`) ||
			!strings.Contains(text, `zae_limiter_rules_read_total{result="refused"} 1`) {
			t.Errorf("/metrics:\n%s", text)
		}
	})
}

// held is a table that holds a write back until it is released, once that is asked for.
type held struct {
	*limitertest.Table
	hold              atomic.Bool
	arrived, released chan struct{}
}

func (h *held) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (
	*dynamodb.UpdateItemOutput, error) {
	if h.hold.CompareAndSwap(true, false) {
		close(h.arrived)
		<-h.released
	}
	return h.Table.UpdateItem(ctx, in, o...)
}

// A request that is at work when the end comes is answered, and no other connection is accepted.
func TestServeAnswersWhatIsAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &held{Table: limitertest.New(t), arrived: make(chan struct{}), released: make(chan struct{})}
		table.Admin("")
		s := serveFrom(t, table)
		conn := s.dial(insecure.NewCredentials())
		watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		check.Must(t, err)
		if h, err := watch.Recv(); err != nil || h.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Fatalf("health: %v, %v", h, err)
		}
		if _, err := table.Limiter(nil).Acquire(t.Context(), limiter.Request{Entity: "ann", Resource: "edge|user",
			Costs:  limiter.Costs{envoylimit.LimitName: 1},
			Limits: []limiter.Limit{limiter.PerMinute(envoylimit.LimitName, 2)},
		}); err != nil { // the bucket is there: the next one is written to it
			t.Fatal(err)
		}
		table.hold.Store(true)
		answered := make(chan error, 1)
		go func() {
			out, err := ask(t.Context(), conn, "user", "ann")
			if err == nil && out.GetOverallCode() != ratelimit.RateLimitResponse_OK {
				err = errors.New(out.String())
			}
			answered <- err
		}()
		<-table.arrived
		s.stop()
		if h, err := watch.Recv(); err != nil || h.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("health after the end has come: %v, %v", h, err)
		}
		close(table.released)
		check.NoError(t, <-answered, "the request at work")
	})
}

// What was taken ahead and not granted is held no more when the service has ended. What was granted counts as
// held for a moment.
func TestServeGivesUpWhatItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := limitertest.New(t)
		ns := table.Admin("")
		s := serveFrom(t, table, "--ahead", "30s")
		s.write("edge.yaml", "domain: edge\ndescriptors:\n"+
			"  - {key: user, rate_limit: {unit: minute, requests_per_unit: 60000}}\n")
		s.line() // the rules are in force
		conn := s.dial(insecure.NewCredentials())
		level := func() admin.Level {
			t.Helper()
			synctest.Wait() // what was taken ahead may be renewed now
			b, err := ns.Peek(t.Context(), "ann", "edge|user")
			check.Must(t, err)
			return b[0].Levels[0]
		}
		granted := int64(100)
		for s.codes(conn, "user", "ann", 100); level().Used == granted && granted < 500; granted++ {
			s.codes(conn, "user", "ann", 1) // until something is taken ahead
		}
		before := level()
		if before.Used == granted {
			t.Fatal("nothing is taken ahead")
		}
		s.stop()
		check.Equal(t, <-s.code, 0, "ended in")
		check.Equal(t, level().Held, before.Held-(before.Used-granted), "may be held")
	})
}

// Without rules there is the API, and nothing of Envoy.
func TestServeWithoutEnvoy(t *testing.T) {
	line, end := newShell(t).begins("serve", "--http", "127.0.0.1:0")
	address, ok := strings.CutPrefix(line, "HTTP on ")
	if !ok {
		t.Fatal(line)
	}
	for path, want := range map[string]int{"/openapi.yaml": http.StatusOK, "/json": http.StatusNotFound} {
		resp, err := http.Get("http://" + address + path)
		check.Must(t, err)
		if _ = resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
	check.Equal(t, end(), 0, "ended in")
}

// certificate writes a certificate, and its key, signed by the parent or by itself.
func certificate(t *testing.T, folder, name string, parent *tls.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: parent == nil,
		BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	by, with := c, any(key)
	if parent != nil {
		by, with = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, with)
	check.Must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	check.Must(t, err)
	for ext, block := range map[string]*pem.Block{
		".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		check.Must(t, os.WriteFile(filepath.Join(folder, name+ext), pem.EncodeToMemory(block), 0o600))
	}
	out, err := tls.LoadX509KeyPair(filepath.Join(folder, name+".crt"), filepath.Join(folder, name+".key"))
	check.Must(t, err)
	return &out
}

func TestServeWithTLS(t *testing.T) {
	folder := t.TempDir()
	authority := certificate(t, folder, "authority", nil)
	certificate(t, folder, "server", authority)
	client := certificate(t, folder, "client", authority)
	at := func(name string) string { return filepath.Join(folder, name) }
	s := serve(t, "--tls-cert", at("server.crt"), "--tls-key", at("server.key"), "--tls-client-ca", at("authority.crt"))
	roots := x509.NewCertPool()
	roots.AddCert(authority.Leaf)
	by := func(creds credentials.TransportCredentials) error {
		_, err := ask(t.Context(), s.dial(creds), "user", "ann")
		return err
	}
	with := func(certificates ...*tls.Certificate) error {
		c := &tls.Config{RootCAs: roots}
		for _, one := range certificates {
			c.Certificates = append(c.Certificates, *one)
		}
		return by(credentials.NewTLS(c))
	}
	check.Equal(t, grpcstatus.Code(with()), codes.Unavailable, "without a certificate")
	check.Equal(t, grpcstatus.Code(by(insecure.NewCredentials())), codes.Unavailable, "without TLS")
	check.NoError(t, with(client), "with a certificate")
	other := certificate(t, folder, "authority", nil) // another one, from now on
	check.Equal(t, grpcstatus.Code(with(client)), codes.Unavailable, "the authority is exchanged")
	check.NoError(t, with(certificate(t, folder, "client", other)), "with a certificate of the new authority")
}

func TestServeIsWrong(t *testing.T) {
	s := newShell(t)
	folder := t.TempDir()
	rules := filepath.Join(folder, "edge.yaml")
	check.Must(t, os.WriteFile(rules, []byte(serveRules), 0o644))
	s.says(2, "serve --http= --config "+folder+" --grpc=", "there is nothing to serve, want an address for --http, or")
	for _, flags := range []string{"--tls-cert x", "--tls-key x", "--tls-client-ca x"} {
		s.says(2, "serve --config "+folder+" "+flags, "want --tls-cert with --tls-key")
	}
	s.says(1, "serve --config "+folder+"/none", "no such file or directory")
	s.says(1, "serve --config "+folder+" --tls-cert "+rules+" --tls-key "+rules, "failed to find any PEM data")
	s.says(2, "serve --config "+folder+" --ahead 1ms", "Ahead is 1ms, want")
	s.says(1, "serve --config "+folder+" --grpc 127.0.0.1:x", "listen tcp")
	certificate(t, folder, "server", nil)
	s.says(1, "serve --config "+folder+" --tls-cert "+folder+"/server.crt --tls-key "+folder+"/server.key"+
		" --tls-client-ca "+rules, "edge.yaml has no certificate")
	check.Must(t, os.WriteFile(rules, []byte("domain: a\nx: y\n"), 0o644))
	s.says(1, "serve --config "+folder, `edge.yaml:2: "x" is not known here, accepted are domain, descriptors`)
}
