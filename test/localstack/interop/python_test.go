//go:build interop

package interop

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/childproc"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// The installed releases of the Python client. Every scenario runs with each.
const (
	older = "0.10.3"
	newer = "0.17.0"
)

var releases = []string{older, newer}

// kv is a JSON object.
type kv = map[string]any

// driver is a running driver.py.
type driver struct {
	version string
	stdin   io.Writer
	control *control
	stderr  complaints

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
	ended   string // why there are no more answers
}

type answer struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *pyError        `json:"error"`
}

// pyError is an exception of the Python client.
type pyError struct {
	Type       string  `json:"type"`
	Message    string  `json:"message"`
	Cause      string  `json:"cause"`
	RetryAfter float64 `json:"retry_after_seconds"`

	Body map[string]any `json:"body"` // of a denial, as Python's HTTP servers answer it
}

func (e *pyError) Error() string {
	if e.Cause != "" {
		return e.Type + ": " + e.Message + " (" + e.Cause + ")"
	}
	return e.Type + ": " + e.Message
}

// denied reports whether the error is a denial.
func (e *pyError) denied() bool { return e != nil && e.Type == "RateLimitExceeded" }

var drivers = struct {
	sync.Mutex
	running map[string]*driver
}{running: map[string]*driver{}}

// driverFor returns the process of a release for an emulator. number distinguishes processes that
// use the same emulator at once. It ends with this process.
func driverFor(t testing.TB, e *engine.Engine, version string, number int) *driver {
	t.Helper()
	drivers.Lock()
	defer drivers.Unlock()
	name := fmt.Sprintf("%s %s %d", e.Endpoint, version, number)
	if d := drivers.running[name]; d != nil {
		return d
	}
	d, err := startDriver(e, version)
	check.Must(t, err)
	drivers.running[name] = d
	return d
}

func startDriver(e *engine.Engine, version string) (*driver, error) {
	d := &driver{version: version, control: newControl(), waiting: map[int]chan answer{}}
	cmd, err := pythonCommand(version, "python", filepath.Join(engine.Root(), "interop", "driver.py"))
	if err != nil {
		return nil, err
	}
	cmd.Env = pythonEnv(e, d.control)
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, d.stdin = stdin, stdout, &d.stderr, in
	if _, err := childproc.Start(cmd); err != nil {
		return nil, err
	}
	stdin.Close()
	stdout.Close()
	go d.read(out)
	return d, nil
}

// complaints is the standard error of a process.
type complaints struct {
	mu   sync.Mutex
	text []byte
}

func (c *complaints) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, p...)
	return len(p), nil
}

func (c *complaints) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.text)
}

// pythonCommand is a program in the environment of an installed release.
func pythonCommand(version, program string, args ...string) (*exec.Cmd, error) {
	path := filepath.Join(engine.Root(), "..", "..", ".cache", "python", version, "bin", program)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("the Python client %s is not installed: %w (run `make test-interop`)", version, err)
	}
	return exec.Command(path, args...), nil
}

// pythonEnv sends DynamoDB calls to the emulator, and all others to control.
func pythonEnv(e *engine.Engine, c *control) []string {
	return childproc.Env("AWS_ENDPOINT_URL="+c.URL, "AWS_ENDPOINT_URL_DYNAMODB="+e.Endpoint,
		"AWS_ENDPOINT_URL_DYNAMODB_STREAMS="+e.Endpoint,
		"AWS_REGION="+engine.Region, "AWS_DEFAULT_REGION="+engine.Region,
		"AWS_ACCESS_KEY_ID="+engine.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+engine.SecretAccessKey,
		"AWS_EC2_METADATA_DISABLED=true", "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore", "NO_COLOR=1")
}

func (d *driver) read(out io.Reader) {
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		var a answer
		if err == nil {
			err = json.Unmarshal(line, &a)
		}
		d.mu.Lock()
		if err != nil {
			d.ended = fmt.Sprintf("driver of %s ended: %v\n%s", d.version, err, d.stderr.String())
			for _, w := range d.waiting {
				close(w)
			}
			d.waiting = nil
			d.mu.Unlock()
			return
		}
		w := d.waiting[a.ID]
		delete(d.waiting, a.ID)
		d.mu.Unlock()
		if w != nil {
			w <- a
		}
	}
}

// do sends a command, and returns its result or the raised exception. Any other problem ends the
// test.
func (d *driver) do(t testing.TB, out any, op string, args kv) *pyError {
	t.Helper()
	err := d.ask(out, op, args)
	if raised, ok := errors.AsType[*pyError](err); ok {
		return raised
	}
	check.Must(t, err)
	return nil
}

// must is do, and ends the test if an exception is raised.
func (d *driver) must(t testing.TB, out any, op string, args kv) {
	t.Helper()
	if raised := d.do(t, out, op, args); raised != nil {
		t.Fatalf("Python %s: %s %v: %v", d.version, op, args, raised)
	}
}

// ask is do, for any goroutine.
func (d *driver) ask(out any, op string, args kv) error {
	reply := make(chan answer, 1)
	if err := d.send(reply, op, args); err != nil {
		return err
	}
	select {
	case a, ok := <-reply:
		switch {
		case !ok:
			return errors.New(d.ended)
		case a.Error != nil:
			return a.Error
		case out == nil:
			return nil
		}
		if err := json.Unmarshal(a.Result, out); err != nil {
			return fmt.Errorf("%s of Python %s answers %s: %w", op, d.version, a.Result, err)
		}
		return nil
	case <-time.After(2 * time.Minute):
		return fmt.Errorf("%s of Python %s: no answer", op, d.version)
	}
}

func (d *driver) send(reply chan answer, op string, args kv) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended != "" {
		return errors.New(d.ended)
	}
	d.last++
	command := kv{"id": d.last, "op": op}
	for name, value := range args {
		command[name] = value
	}
	line, err := json.Marshal(command)
	if err != nil {
		return err
	}
	d.waiting[d.last] = reply
	return check.Err(d.stdin.Write(append(line, '\n')))
}

// python is a Python client: a Repository and its RateLimiter, with their own caches.
type python struct {
	t         testing.TB
	driver    *driver
	id        int
	Namespace string // the namespace's id
}

// tryPython opens a client in a namespace of the table.
func tryPython(t testing.TB, d *driver, table, namespace string, options kv) (*python, *pyError) {
	t.Helper()
	var opened struct {
		Client      int    `json:"client"`
		NamespaceID string `json:"namespace_id"`
	}
	if err := d.do(t, &opened, "open", kv{"table": table, "namespace": namespace, "options": options}); err != nil {
		return nil, err
	}
	return &python{t: t, driver: d, id: opened.Client, Namespace: opened.NamespaceID}, nil
}

// try calls a method of the RateLimiter.
func (p *python) try(out any, method string, args kv) *pyError {
	p.t.Helper()
	return p.driver.do(p.t, out, "call", kv{"client": p.id, "method": method, "args": args})
}

// call is try, and must succeed.
func (p *python) call(out any, method string, args kv) {
	p.t.Helper()
	p.driver.must(p.t, out, "call", kv{"client": p.id, "method": method, "args": args})
}

// repository calls a method of the Repository, which must succeed.
func (p *python) repository(out any, method string, args kv) {
	p.t.Helper()
	p.driver.must(p.t, out, "call", kv{"client": p.id, "on": "repository", "method": method, "args": args})
}

// pyLease is an open with block.
type pyLease struct {
	python *python
	id     int
}

func (p *python) tryAcquire(entity, resource string, costs limiter.Costs, more kv) (*pyLease, *pyError) {
	p.t.Helper()
	args := kv{"client": p.id, "entity": entity, "resource": resource, "consume": costs}
	for name, value := range more {
		args[name] = value
	}
	var lease struct{ Lease int }
	if err := p.driver.do(p.t, &lease, "acquire", args); err != nil {
		return nil, err
	}
	return &pyLease{p, lease.Lease}, nil
}

// acquire takes available tokens.
func (p *python) acquire(entity, resource string, costs limiter.Costs) *pyLease {
	p.t.Helper()
	lease, err := p.tryAcquire(entity, resource, costs, nil)
	if err != nil { // of its own type: nil would be an error to check.Must
		p.t.Fatalf("Python %s: acquire %s/%s %v: %v", p.driver.version, entity, resource, costs, err)
	}
	return lease
}

// take acquires, and leaves the lease at once.
func (p *python) take(entity, resource string, costs limiter.Costs) {
	p.t.Helper()
	p.acquire(entity, resource, costs).commit()
}

// denied makes a request that must be denied, and returns the wait.
func (p *python) denied(entity, resource string, costs limiter.Costs) time.Duration {
	p.t.Helper()
	_, err := p.tryAcquire(entity, resource, costs, nil)
	if !err.denied() {
		p.t.Fatalf("Python %s: acquire %s/%s %v: %v, want a denial", p.driver.version, entity, resource, costs, err)
	}
	return time.Duration(err.RetryAfter * float64(time.Second))
}

func (l *pyLease) adjust(amounts limiter.Costs) {
	l.do("settle", kv{"method": "adjust", "amounts": amounts})
}
func (l *pyLease) commit()   { l.do("leave", nil) }
func (l *pyLease) rollback() { l.do("leave", kv{"fail": true}) }

func (l *pyLease) do(op string, more kv) {
	l.python.t.Helper()
	args := kv{"lease": l.id}
	for name, value := range more {
		args[name] = value
	}
	l.python.driver.must(l.python.t, nil, op, args)
}

// pyLimit is a limit as the Python API takes and returns it.
type pyLimit struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	Amount   int64  `json:"refill_amount"`
	Period   int64  `json:"refill_period_seconds"`
}

func pyLimits(limits ...limiter.Limit) []pyLimit {
	out := make([]pyLimit, len(limits))
	for i, l := range limits {
		out[i] = pyLimit{l.Name, l.Capacity, l.Refill, int64(l.Period / time.Second)}
	}
	slices.SortFunc(out, func(a, b pyLimit) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// control substitutes every service except DynamoDB. It returns the caller's identity, and refuses
// and counts all other calls. A client on our table should make none.
type control struct {
	*httptest.Server

	mu    sync.Mutex
	calls []string // service, method and path
}

const callerARN = "arn:aws:iam::000000000000:user/interop"

func newControl() *control {
	c := new(control)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service := "?"
		if scope := strings.Split(r.Header.Get("Authorization"), "/"); len(scope) > 3 {
			service = scope[3]
		}
		if service == "sts" {
			fmt.Fprintf(w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">`+
				`<GetCallerIdentityResult><Arn>%s</Arn><UserId>interop</UserId><Account>000000000000</Account>`+
				`</GetCallerIdentityResult></GetCallerIdentityResponse>`, callerARN)
			return
		}
		c.mu.Lock()
		c.calls = append(c.calls, service+" "+r.Method+" "+r.URL.Path)
		c.mu.Unlock()
		w.WriteHeader(http.StatusForbidden)
		w.Header().Set("X-Amzn-ErrorType", "AccessDeniedException")
		fmt.Fprint(w, `{"__type":"AccessDeniedException","Message":"no business here"}`)
	}))
	return c
}

// taken returns the calls since it was last called.
func (c *control) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

// cli runs the Python command-line tool on the table, and returns its output.
func (w *world) cli(args ...string) (string, error) {
	w.Helper()
	args = append(args, "--name", w.table)
	if args[0] != "namespace" {
		args = append(args, "--namespace", namespace)
	}
	cmd, err := pythonCommand(w.release, "zae-limiter", args...)
	check.Must(w, err)
	c := newControl()
	defer c.Close()
	cmd.Env = append(pythonEnv(w.engine, c), "COLUMNS=200")
	out, err := cmd.CombinedOutput()
	if calls := c.taken(); err == nil && len(calls) > 0 {
		err = errors.New("it called " + strings.Join(calls, ", "))
	}
	return string(out), err
}
