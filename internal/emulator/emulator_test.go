package emulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// tablesOfFake makes this test program act as an emulator with these tables.
const tablesOfFake = "STANDIN_TABLES"

func TestMain(m *testing.M) {
	tables, ok := os.LookupEnv(tablesOfFake)
	if !ok {
		os.Exit(m.Run())
	}
	fmt.Println("ready to serve")
	port := os.Args[1+slices.IndexFunc(os.Args, func(arg string) bool { return strings.HasSuffix(arg, "-port") })]
	fmt.Println(http.ListenAndServe("127.0.0.1:"+port, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := r.Header.Get("Authorization"); !strings.Contains(who, "Credential="+Key+"/") ||
			!strings.Contains(who, "/"+Region+"/dynamodb/") || r.Header.Get("X-Amz-Target") != "DynamoDB_20120810.ListTables" {
			w.WriteHeader(http.StatusForbidden)
		}
		fmt.Fprintf(w, `{"TableNames": [%s]}`, tables)
	})))
}

// fake returns a script that acts as an emulator with these tables, and records its calls.
func fake(t *testing.T, tables string) (script string) {
	t.Helper()
	self, err := os.Executable()
	check.Must(t, err)
	return fmt.Sprintf("pwd >\"$0.args\"; echo $$ >>\"$0.args\"; echo \"$@\" >>\"$0.args\"\n%s='%s' exec '%s' \"$@\"\n",
		tablesOfFake, tables, self)
}

// program writes a shell script.
func program(t *testing.T, file, script string) {
	t.Helper()
	check.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	check.Must(t, os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o755))
}

// calledAs returns the folder, process id and arguments of a fake's start.
func calledAs(t *testing.T, file string) (folder, pid, args string) {
	t.Helper()
	said, err := os.ReadFile(file + ".args")
	check.Must(t, err)
	lines := strings.Split(string(said), "\n")
	return lines[0], lines[1], lines[2]
}

// installed returns a folder in which a shell script is the program of Dynoxide.
func installed(t *testing.T, script string) string {
	t.Helper()
	folder := t.TempDir()
	program(t, filepath.Join(folder, "node_modules", Dynoxide.Package().Name, "dynoxide"), script)
	return folder
}

// Start runs the installed emulator on a port of this machine. It is ready when it answers, and
// runs until it is stopped.
func TestStartRunsTheInstalledEmulator(t *testing.T) {
	folder, path := installed(t, fake(t, "")), t.TempDir()
	lib := filepath.Join(folder, "node_modules", DynamoDBLocal.Package().Name, "lib", "any")
	program(t, filepath.Join(lib, "DynamoDBLocal.jar"), "")
	program(t, filepath.Join(path, "java"), fake(t, ""))
	t.Setenv("PATH", path+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for kind, c := range map[Kind]struct{ file, args, dir string }{
		Dynoxide: {filepath.Join(folder, "node_modules", Dynoxide.Package().Name, "dynoxide"),
			"--host 127.0.0.1 --port %s", ""},
		DynamoDBLocal: {filepath.Join(path, "java"),
			"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx768m -Djava.library.path=" + lib +
				"/DynamoDBLocal_lib -jar " + lib +
				"/DynamoDBLocal.jar -inMemory -sharedDb -disableTelemetry -port %s", lib},
	} {
		s, err := Start(t.Context(), kind, folder, 0)
		check.Must(t, err)
		defer s.Stop()
		port, local := strings.CutPrefix(s.Endpoint, "http://127.0.0.1:")
		dir, pid, args := calledAs(t, c.file)
		if !local || port == "0" || args != fmt.Sprintf(c.args, port) || c.dir != "" && dir != c.dir {
			t.Errorf("%s at %s was called as %q in %s", kind, s.Endpoint, args, dir)
		}
		if s.Kind != kind || fmt.Sprint(s.Pid()) != pid || s.StartedIn <= 0 {
			t.Errorf("%s is %s, process %d, started in %v; its process is %s", kind, s.Kind, s.Pid(), s.StartedIn, pid)
		}
		who, err := s.Config().Credentials.Retrieve(t.Context())
		if err != nil || who.AccessKeyID != Key || who.SecretAccessKey != Key {
			t.Errorf("%s is asked as %+v, %v", kind, who, err)
		}
		select {
		case <-s.Done():
			t.Errorf("%s has ended: %s", kind, s.Output())
		default:
		}
		s.Stop()
		<-s.Done()
		s.Stop()
		check.Equal(t, s.Output(), "ready to serve", "%s has printed", kind)
	}
}

// A server with a table was not started here. The process that was started is stopped.
func TestStartFindsAnotherServer(t *testing.T) {
	folder := installed(t, fake(t, `"mine"`))
	port, err := freePort()
	check.Must(t, err)
	_, err = Start(t.Context(), Dynoxide, folder, port)
	check.Says(t, err, "another server answers there")
	check.Says(t, err, "ready to serve")
	_, pid, _ := calledAs(t, filepath.Join(folder, "node_modules", Dynoxide.Package().Name, "dynoxide"))
	var id int
	if _, err := fmt.Sscan(pid, &id); err != nil || syscall.Kill(id, 0) == nil {
		t.Errorf("process %s goes on: %v", pid, err)
	}
}

// Start reports a program that cannot run, and a missing Java.
func TestStartFails(t *testing.T) {
	folder := installed(t, "")
	check.Must(t, os.Chmod(filepath.Join(folder, "node_modules", Dynoxide.Package().Name, "dynoxide"), 0o644))
	check.Is(t, check.Err(Start(t.Context(), Dynoxide, folder, 0)), os.ErrPermission, "a program that is none")
	program(t, filepath.Join(folder, "node_modules", DynamoDBLocal.Package().Name, "lib", "a", "DynamoDBLocal.jar"), "")
	t.Setenv("PATH", folder)
	_, err := Start(t.Context(), DynamoDBLocal, folder, 0)
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), `"dynamodb-local" needs Java 17`) {
		t.Errorf("without Java: %v", err)
	}
}

// An emulator that does not answer in time is not started again.
func TestStartWaitsForAnAnswer(t *testing.T) {
	folder := installed(t, `echo "$4" >> "$0.ports"; exec sleep 1000`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	check.Is(t, check.Err(Start(ctx, Dynoxide, folder, 0)), context.DeadlineExceeded)
	said, _ := os.ReadFile(filepath.Join(folder, "node_modules", Dynoxide.Package().Name, "dynoxide.ports"))
	if n := strings.Count(string(said), "\n"); n > 1 {
		t.Errorf("tried %d times", n)
	}
}

// Clients keep as many connections as they use at once.
func TestConnectionsAreKept(t *testing.T) {
	const clients = 50
	var all sync.WaitGroup
	var opened atomic.Int64
	arrived, answer := make(chan struct{}), make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-answer
		fmt.Fprint(w, `{}`)
	}))
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	db := dynamodb.NewFromConfig((&Server{Endpoint: srv.URL}).Config())
	for range 3 {
		for range clients {
			all.Go(func() {
				check.NoError(t, check.Err(db.ListTables(t.Context(), nil)))
			})
		}
		for range clients {
			<-arrived // all requests are under way
		}
		for range clients {
			answer <- struct{}{}
		}
		all.Wait()
	}
	if n := opened.Load(); n != clients {
		t.Errorf("%d connections for %d clients", n, clients)
	}
}

// Only DynamoDB Local's answers need repair.
func TestOnlyDynamoDBLocalNeedsRepair(t *testing.T) {
	for kind, want := range map[Kind]bool{Dynoxide: false, DynamoDBLocal: true} {
		o := dynamodbstreams.Options{HTTPClient: http.DefaultClient}
		kind.Typed(&o)
		if mends, ok := o.HTTPClient.(typing); ok != want || ok && mends.client != http.DefaultClient {
			t.Errorf("%s: %T", kind, o.HTTPClient)
		}
	}
}

// The last part of the output is kept.
func TestTheEndOfTheOutputIsKept(t *testing.T) {
	var end tail
	for i := range 1000 {
		if n, err := fmt.Fprintf(&end, "line %5d\n", i); n != 11 || err != nil {
			t.Fatal(n, err)
		}
	}
	got := end.String() // without the last \n
	if got != end.String() || len(got) != tailSize-1 || !strings.HasSuffix(got, "line   998\nline   999") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// If an emulator ends at once, because its port is taken for example, it is started again on
// another port. The error has its last output.
func TestStartTriesOtherPorts(t *testing.T) {
	folder := installed(t, `echo "$4" >> "$0.ports"; echo no luck; exit 3`)
	_, err := Start(t.Context(), Dynoxide, folder, 0)
	check.Says(t, err, "no luck")
	tried := func() int {
		said, err := os.ReadFile(filepath.Join(folder, "node_modules", Dynoxide.Package().Name, "dynoxide.ports"))
		check.Must(t, err)
		return strings.Count(string(said), "\n")
	}
	check.Equal(t, tried(), 10, "tried times")
	if _, err := Start(t.Context(), Dynoxide, folder, 1); err == nil || tried() != 11 {
		t.Errorf("a port that was asked for: %v, tried %d times more, want once", err, tried()-10)
	}
}

func TestStartNamesTheMissingPackage(t *testing.T) {
	folder := t.TempDir()
	for _, kind := range []Kind{Dynoxide, DynamoDBLocal} {
		_, err := Start(t.Context(), kind, folder, 0)
		if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), folder) {
			t.Errorf("%s: got %v, want that it is not installed in %s", kind, err, folder)
		}
	}
	const accepted = `emulator "moto": accepted are "dynoxide" and "dynamodb-local"`
	if _, err := Start(t.Context(), "moto", folder, 0); err == nil || err.Error() != accepted {
		t.Errorf("another kind: %v", err)
	}
}

// If the caller has gone, nothing is started, and nothing is tried again.
func TestStartEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.Is(t, check.Err(Start(ctx, Dynoxide, installed(t, "exec sleep 1000"), 0)), context.Canceled,
		"want that the caller has gone")
}
