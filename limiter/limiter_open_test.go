package limiter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// openWith opens a namespace with the clock of the world, without a bound unless the options have
// one.
func openWith(ctx context.Context, w *world, opts Options) (*Limiter, error) {
	if opts.Timeout == 0 {
		opts.Timeout = ages
	}
	opts.Now = func() time.Time { return time.UnixMilli(w.now.Load()) }
	return open(ctx, w.db, &opts)
}

// registered returns the ids registered for a namespace, in each of its two records.
func (w *world) registered(namespace string) (forward, reverse []string) {
	w.t.Helper()
	for _, it := range w.db.Items() {
		if !strings.Contains(item.KeyOf(it).SK, "#NAMESPACE#") && !strings.Contains(item.KeyOf(it).SK, "#NSID#") {
			continue
		}
		ns, err := config.DecodeNamespace(it)
		check.Must(w.t, err)
		if ns.Name != namespace {
			continue
		}
		if item.KeyOf(it) == layout.NamespaceKey(namespace) {
			forward = append(forward, ns.ID)
		} else {
			reverse = append(reverse, ns.ID)
		}
	}
	return forward, reverse
}

// TestOpenUnderFaults: every call of Open meets every fault. Whatever it returns, there is at most
// one namespace, stored both ways or not at all, and the next Open finds it.
func TestOpenUnderFaults(t *testing.T) {
	modes := []struct {
		name    string
		apply   bool
		kind    store.Kind
		forever bool
		ok      bool
	}{
		{"throttled once", false, store.Throttled, false, true},
		{"throttled for ever", false, store.Throttled, true, false},
		{"conflict once", false, store.Conflict, false, true},
		{"down", false, store.Unavailable, true, false},
		{"down for a moment", false, store.Unavailable, false, true},
		{"not applied, answer lost", false, store.Unknown, false, true},
		{"applied, answer lost", true, store.Unknown, false, true},
		{"applied, answer lost for ever", true, store.Unknown, true, false},
	}
	for _, m := range modes {
		for nth := range 4 { // read, version record, registration, read
			for _, fresh := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/call %d/fresh table %v", m.name, nth, fresh), bubble(func(t *testing.T) {
					w := newWorld(t)
					if !fresh {
						w.process(Options{Namespace: "other"})
					}
					calls := 0
					w.db.SetHook(func(op memdynamo.Op) (bool, error) {
						calls++
						if calls-1 == nth || m.forever && calls > nth {
							return m.apply, memdynamo.Fail(m.kind)
						}
						return true, nil
					})
					begin := time.Now()
					l, err := openWith(t.Context(), w, Options{Namespace: "prod", Register: true, Timeout: 2 * time.Second})
					if took := time.Since(begin); took > 2*time.Second {
						t.Fatalf("took %s", took)
					}
					w.db.SetHook(nil)
					check.MustEqual(t, m.ok, err == nil, "open: %v, want success", err)
					if err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown) {
						t.Fatalf("open: %v, want unavailable or unknown", err)
					}
					again := w.process(Options{Namespace: "prod"})
					if l != nil && l.NamespaceID() != again.NamespaceID() {
						t.Fatalf("opened %q, then %q", l.NamespaceID(), again.NamespaceID())
					}
					f, r := w.registered("prod")
					if len(f) != 1 || len(r) != 1 || f[0] != r[0] || f[0] != again.NamespaceID() {
						t.Fatalf("registered as %q and back as %q, opened %q", f, r, again.NamespaceID())
					}
					if w.db.Item(layout.VersionKey()) == nil {
						t.Fatal("no version record")
					}
				}))
			}
		}
	}
}

// TestOpenRaced: another process registers the namespace between look-up and registration.
func TestOpenRaced(t *testing.T) {
	w := newWorld(t)
	var rival *Limiter
	raced := false
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		if op.Name == memdynamo.TransactWriteItems && !raced {
			raced = true
			var err error
			if rival, err = open(context.Background(), w.db.Bare(),
				&Options{Namespace: "prod", Register: true, Timeout: ages}); err != nil {
				t.Error(err)
			}
		}
		return true, nil
	})
	l, err := openWith(t.Context(), w, Options{Namespace: "prod", Register: true})
	if err != nil || l.NamespaceID() != rival.NamespaceID() {
		t.Fatalf("got %v, %v; want the id of the first, %s", l, err, rival.NamespaceID())
	}
}

func TestOpenOfAnOpenedNamespaceIsOneReadAndOneDryWrite(t *testing.T) {
	w, first := newProcess(t, Options{})
	before := w.db.Snapshot()
	w.db.ResetStats()
	second, err := openWith(t.Context(), w, Options{})
	check.Must(t, err)
	if st := w.db.Stats(); st.Reads != 1 || st.Updates != 1 || st.Calls() != 2 {
		t.Fatalf("reopening took %+v", st)
	}
	w.sameTable(before)
	if first.NamespaceID() != second.NamespaceID() ||
		w.process(Options{Namespace: "x"}).NamespaceID() == first.NamespaceID() {
		t.Fatal("namespaces and ids do not correspond")
	}
}

// An unregistered name is an error and leaves nothing behind.
func TestOpenDoesNotRegister(t *testing.T) {
	w := newWorld(t)
	w.process(Options{Namespace: "prod"})
	before := w.db.Snapshot()
	_, err := openWith(t.Context(), w, Options{Namespace: "pord"})
	if !errors.Is(err, ErrNamespace) || !strings.HasPrefix(err.Error(), ErrNamespace.Error()+`: "pord"`) ||
		!strings.Contains(err.Error(), "Options.Register") {
		t.Fatalf("got %v, want ErrNamespace with the name and what to do", err)
	}
	w.sameTable(before)
}

func TestOpenCanceledBeforehand(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := openWith(ctx, w, Options{}); !errors.Is(err, ErrUnavailable) || w.db.Len() != 0 {
		t.Fatalf("got %v with %d items", err, w.db.Len())
	}
}

// A table that this package cannot share is left unchanged; see internal/namespace for which.
func TestOpenRefusesForeignTables(t *testing.T) {
	w := newWorld(t)
	w.db.Store(config.Version{Schema: "1.0.0", ClientMin: "0.0.0", UpdatedAt: "2026-01-01T00:00:00Z"}.Item())
	before := w.db.Snapshot()
	_, err := openWith(t.Context(), w, Options{Namespace: "prod", Register: true})
	check.MustBe(t, err, ErrVersion)
	w.sameTable(before)
}

// TestOpenDisownsTheAggregator: a release before 0.15 in the version record, from a Python client,
// is removed, whatever the outcome of that write; the rest stays.
func TestOpenDisownsTheAggregator(t *testing.T) {
	for _, c := range []struct {
		name    string
		applied bool
		answer  error
	}{
		{"applied", true, nil},
		{"refused", false, memdynamo.Fail(store.Unavailable)},
		{"applied, answer lost", true, memdynamo.Fail(store.Unknown)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.process(Options{})
			was := config.Version{Schema: "0.9.0", Lambda: "0.10.3", ClientMin: "0.1.0", UpdatedAt: "2026-01-01T00:00:00Z",
				UpdatedBy: "client:0.10.3"}
			w.db.Store(was.Item())
			w.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if op.Name == memdynamo.UpdateItem {
					return c.applied, c.answer
				}
				return true, nil
			})
			w.process(Options{})
			got, err := config.DecodeVersion(w.db.Item(layout.VersionKey()))
			check.Must(t, err)
			want := was
			if c.applied {
				want.Lambda, want.UpdatedBy, want.UpdatedAt = "", "", got.UpdatedAt
			}
			check.Equal(t, got, want, "the record")
		})
	}
}

// A namespace whose record cannot be read is a permanent error: Open returns it after one attempt.
func TestOpenOfADamagedNamespace(t *testing.T) {
	w := newWorld(t)
	w.process(Options{Namespace: "other"})
	it := w.db.Item(layout.NamespaceKey("other"))
	for name := range it {
		if name != "PK" && name != "SK" && !strings.HasPrefix(name, "GSI") {
			it[name] = &types.AttributeValueMemberBOOL{}
		}
	}
	w.db.Store(it)
	w.db.ResetStats()
	l, err := openWith(t.Context(), w, Options{Namespace: "other"})
	if l != nil || err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknown) ||
		errors.Is(err, ErrNamespace) || strings.Contains(err.Error(), "Register") {
		t.Errorf("got %v, %v", l, err)
	}
	if st := w.db.Stats(); st.Reads != 1 || st.WriteUnits != 0 {
		t.Errorf("%+v, want one read", st)
	}
}

// blank is a table whose reads find nothing.
type blank struct{ store.Store }

func (blank) Read(_ context.Context, _ bool, keys ...item.Key) ([]item.Item, error) {
	return make([]item.Item, len(keys)), nil
}

// If a namespace was registered and cannot be read back, there is no decision, and Open reports
// that.
func TestOpenFailsWhereItsNamespaceCannotBeReadBack(t *testing.T) {
	w := newWorld(t)
	_, err := namespace.Open(t.Context(), blank{w.db}, "new", true, time.Now)
	const want = `limiter: unavailable: open namespace "new": BatchGetItem: unavailable: ` +
		"the namespace is registered, but is not read"
	if err == nil || err.Error() != want || !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want %s", err, want)
	}
}

// A table in memory can replace a client, as in packages that test with it.
func TestOpenATableInMemory(t *testing.T) {
	w := newWorld(t)
	twin := struct {
		DynamoDB
		*memdynamo.DB
	}{unusedClient{}, w.db}
	l, err := Open(t.Context(), twin, "limits", &Options{Register: true, Timeout: ages})
	check.Must(t, err)
	must(t, l, asks(Costs{"rpm": 1}, rpm10))
	check.Equal(t, where(unusedClient{}, "limits"), `table "limits"`, "a client without a region is at")
}

// A table that does not answer is called six times, with pauses that double, and one that hangs for
// as long as a call may take.
func TestOpenEnds(t *testing.T) {
	for name, c := range map[string]struct {
		hook  memdynamo.Hook
		reads int
		took  time.Duration
	}{
		"down": {outages["down"], 6, (10 + 20 + 40 + 80 + 160) * time.Millisecond},
		"hung": {outages["hung"], 1, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.process(Options{})
			longestPauses(t)
			reads := 0
			w.db.SetHook(func(op memdynamo.Op) (bool, error) { reads++; return c.hook(op) })
			begin := time.Now()
			l, err := openWith(t.Context(), w, Options{Timeout: 3 * time.Second})
			took := time.Since(begin).Round(time.Millisecond)
			if l != nil || !errors.Is(err, ErrUnavailable) || reads != c.reads || took != c.took {
				t.Errorf("%s: %v after %d reads and %s, want %d and %s", name, err, reads, took, c.reads, c.took)
			}
		})
	}
}

// Open reports that the dry write is not permitted. Every other outcome of it is ignored.
func TestOpenWhenTheDryWriteFails(t *testing.T) {
	w, first := newProcess(t, Options{})
	for kind, want := range map[store.Kind]error{
		store.Setup: ErrSetup, store.Unavailable: nil, store.Unknown: nil, store.Throttled: nil, store.Conflict: nil,
	} {
		var key item.Key
		w.db.SetHook(onEvery(isWrite, func(op memdynamo.Op) (bool, error) {
			key = op.Writes[0].Target()
			return false, memdynamo.Fail(kind)
		}))
		l, err := openWith(t.Context(), w, Options{})
		if !errors.Is(err, want) || (l != nil) != (want == nil) || err != nil && !strings.Contains(err.Error(), "open: ") {
			t.Errorf("%v: %v, want %v", kind, err, want)
		}
		check.Equal(t, key, layout.BucketKey(first.namespace, "-", "-", 0), "%v: it was sent to", kind)
	}
}

// Open has just read the namespace, so the first request does not read it again.
func TestOpenHasReadTheNamespace(t *testing.T) {
	w, l := newProcess(t, Options{})
	reads := 0
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		for _, k := range op.Keys {
			reads++
			if k == layout.NamespaceIDKey(l.namespace) {
				t.Errorf("it is read among %v", op.Keys)
			}
		}
		return true, nil
	})
	must(t, l, asks(Costs{"rpm": 1}, rpm10))
	if reads == 0 {
		t.Error("nothing was read")
	}
}

// The error names the place of the table, as far as the client knows it.
func TestWhereATableIs(t *testing.T) {
	at := "http://127.0.0.1:8000"
	for want, o := range map[string]dynamodb.Options{
		`table "x"`: {}, `table "x" in eu-west-1`: {Region: "eu-west-1"}, `table "x" at ` + at: {BaseEndpoint: &at},
		`table "x" in eu-west-1 at ` + at: {Region: "eu-west-1", BaseEndpoint: &at},
	} {
		check.Equal(t, where(dynamodb.New(o), "x"), want)
	}
}

// If no server listens at the table's address, the error says so after one attempt: retrying until
// the time is up would add nothing, and hide the reason.
func TestRefusedConnectionsFailAtOnce(t *testing.T) {
	endpoint := "http://" + check.Refusing(t)
	var dials atomic.Int64
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network,
			addr string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}}},
	})
	opts, err := (&Options{Timeout: ages}).withDefaults()
	check.Must(t, err)
	s := store.NewDynamo(client, "table")
	l := newLimiter(s, "ns", opts)
	for name, call := range map[string]func() error{
		"open":          func() error { _, err := Open(t.Context(), client, "table", &Options{Timeout: ages}); return err },
		"stored limits": func() error { _, err := l.Acquire(t.Context(), asks(Costs{"rpm": 1})); return err },
		"limits given":  func() error { _, err := l.Acquire(t.Context(), asks(Costs{"rpm": 1}, rpm10)); return err },
		"write": func() error {
			_, err := s.Write(t.Context(), item.Delete{Key: item.Key{PK: "p", SK: "s"}})
			return err
		},
		"no such host":    func() error { return openAt(t, "http://no-such-host.invalid") },
		"standard client": func() error { return openAt(t, endpoint) },
	} {
		dials.Store(0)
		err := call()
		switch {
		case name == "no such host":
			if _, ok := errors.AsType[*net.DNSError](err); !ok {
				t.Errorf("%s: got %v", name, err)
			}
		case !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "connection refused"):
			t.Errorf("%s: got %v, which does not say that the connection was refused", name, err)
		}
		if name != "write" && !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: got %v, want unavailable", name, err)
		}
		if n := dials.Load(); n > 1 {
			t.Errorf("%s: %d attempts", name, n)
		}
	}
}

func openAt(t *testing.T, endpoint string) error {
	_, err := Open(t.Context(), dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}), "table", &Options{Timeout: ages, OnUnavailable: PolicyAllow})
	return err
}

// If a table does not exist, may not be read, or has an invalid name, Open reports immediately that
// it is not set up, and where it looked, under every policy.
func TestOpenSaysWhereThereIsNoTable(t *testing.T) {
	for _, code := range []string{"ResourceNotFoundException", "AccessDeniedException", "ValidationException"} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"told"}`, code)
		}))
		err := openAt(t, server.URL)
		server.Close()
		if !errors.Is(err, ErrSetup) || asked != 1 {
			t.Errorf("%s: %v after %d calls, want ErrSetup after one", code, err, asked)
			continue
		}
		for _, want := range []string{ErrSetup.Error() + ": ", `namespace "default"`, code,
			`(table "table" in us-east-1 at ` + server.URL + ")"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v\ndoes not say %s", err, want)
			}
		}
	}
}
