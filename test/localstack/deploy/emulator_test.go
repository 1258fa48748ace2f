//go:build deploy

package deploy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

const (
	region  = "us-east-1"
	account = "000000000000"
	// rootKey has all permissions in the emulator.
	rootKey = "test"
)

// emulator is a MiniStack with IAM enforced, and the settings for deploying into it with the CDK
// tool.
type emulator struct {
	root string // of the repository
	dir  string // of this run
	url  string
	env  []string // of the CDK tool
	http *http.Client
}

// startEmulator starts MiniStack on a free port of the loopback interface. It stops at the end of
// the test.
func startEmulator(t *testing.T) *emulator {
	t.Helper()
	root, err := filepath.Abs(filepath.Join(engine.Root(), "..", ".."))
	check.Must(t, err)
	e := &emulator{root: root, dir: t.TempDir()}
	cert, key := e.certificate(t)
	// Another process may take the port before it is bound.
	for range 3 {
		if e.launch(t, cert, key) {
			return e
		}
	}
	t.Fatal("MiniStack ends at once")
	return nil
}

// launch starts MiniStack, and reports whether it answers. If it does not, it has ended.
func (e *emulator) launch(t *testing.T, cert, key string) bool {
	t.Helper()
	port := freePort(t)
	e.url = fmt.Sprintf("https://127.0.0.1:%d", port)

	var said bytes.Buffer
	cmd := exec.Command(filepath.Join(e.root, ".cache", "deploy", "bin", "ministack"))
	cmd.Env = append(os.Environ(), "AUTH=true", "USE_SSL=1", "MINISTACK_SSL_CERT="+cert, "MINISTACK_SSL_KEY="+key,
		fmt.Sprintf("GATEWAY_PORT=%d", port), "MINISTACK_HOST=127.0.0.1", "BIND_HOST=127.0.0.1",
		// for the functions, which inherit them
		"AWS_ENDPOINT_URL="+e.url, "AWS_CA_BUNDLE="+cert, "SSL_CERT_FILE="+cert, "AWS_EC2_METADATA_DISABLED=true",
		"IOT_MTLS_ENABLED=0", "SFTP_ENABLED=0", "STATE_DIR="+e.folder(t, "state"), "S3_DATA_DIR="+e.folder(t, "s3"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = e.dir, &said, &said
	check.Must(t, cmd.Start(), "MiniStack, which make test-deploy installs")
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			text := said.String()
			t.Logf("MiniStack said at last:\n%s", text[max(0, len(text)-4000):])
		}
	})
	e.env = append(os.Environ(), "AWS_ENDPOINT_URL="+e.url, "AWS_CA_BUNDLE="+cert, "NODE_EXTRA_CA_CERTS="+cert,
		"AWS_ACCESS_KEY_ID="+rootKey, "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION="+region, "AWS_EC2_METADATA_DISABLED=true",
		"CDK_HOME="+e.folder(t, "cdk-home"), "TMPDIR="+e.folder(t, "tmp"),
		"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20", "CDK_DISABLE_CLI_TELEMETRY=true")
	return e.answers(t, ended)
}

func (e *emulator) folder(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(e.dir, name)
	check.Must(t, os.MkdirAll(path, 0o755))
	return path
}

// certificate writes a key and certificate for the loopback address. TLS is needed because the
// stack's buckets refuse plain HTTP.
func (e *emulator) certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	check.Must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	check.Must(t, err)
	cert, key = filepath.Join(e.dir, "cert.pem"), filepath.Join(e.dir, "key.pem")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		check.Must(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	check.Must(t, err)
	pool.AddCert(parsed)
	e.http = &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	return cert, key
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// answers waits until the emulator answers, or has ended.
func (e *emulator) answers(t *testing.T, ended <-chan struct{}) (well bool) {
	t.Helper()
	eventually(t, "MiniStack answers", patience, func() error {
		select {
		case <-ended:
			return nil
		default:
		}
		resp, err := e.http.Get(e.url + "/_ministack/health")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", resp.Status)
		}
		well = true
		return nil
	})
	return well
}

// patience is the longest time for an operation of a working emulator.
const patience = 3 * time.Minute

// eventually repeats a check until it succeeds.
func eventually(t *testing.T, what string, within time.Duration, look func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err = look(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not within %s: %v", what, within, err)
}

// identity is a key pair of the emulator.
type identity struct{ key, secret string }

var root = identity{rootKey, "test"}

func (e *emulator) config(id identity) aws.Config {
	return aws.Config{
		Region: region, BaseEndpoint: aws.String(e.url), HTTPClient: e.http,
		Credentials: credentials.NewStaticCredentialsProvider(id.key, id.secret, ""),
	}
}

func (e *emulator) dynamodb(id identity) *dynamodb.Client {
	return dynamodb.NewFromConfig(e.config(id))
}
func (e *emulator) iam() *iam.Client       { return iam.NewFromConfig(e.config(root)) }
func (e *emulator) lambda() *lambda.Client { return lambda.NewFromConfig(e.config(root)) }
func (e *emulator) cloudformation() *cloudformation.Client {
	return cloudformation.NewFromConfig(e.config(root))
}

func (e *emulator) s3() *s3.Client {
	return s3.NewFromConfig(e.config(root), func(o *s3.Options) { o.UsePathStyle = true })
}

// cdk runs the command line tool in the repository, and returns its output.
func (e *emulator) cdk(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join("node_modules", ".bin", "cdk"), args...)
	cmd.Dir, cmd.Env = e.root, e.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("cdk %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

func (e *emulator) mustCDK(t *testing.T, args ...string) string {
	t.Helper()
	began := time.Now()
	out, err := e.cdk(args...)
	check.Must(t, err)
	t.Logf("cdk %s: %.1f s", args[0], time.Since(began).Seconds())
	return out
}
