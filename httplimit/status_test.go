package httplimit_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// counted is a server on a table whose clock stands still. It says when it is done with a request.
type counted struct {
	*limitertest.Table
	t       *testing.T
	url     string
	done    chan any // how handlers end
	settled []error
}

// takes asks for one of a thousand.
var takes = asks("a", limiter.PerMinute("rpm", 1000))

func newCounted(t *testing.T, counts func(int) bool, h http.HandlerFunc) *counted {
	c := &counted{Table: limitertest.New(t), t: t, done: make(chan any, 1)}
	limited := httplimit.New(c.Limiter(nil), httplimit.Options{
		Request: takes,
		Counts:  counts,
		Settled: func(_ *http.Request, err error) { c.settled = append(c.settled, err) },
	})(h)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			c.done <- p
			if p != nil {
				panic(p)
			}
		}()
		limited.ServeHTTP(w, r)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

// spent returns what is taken of the thousand.
func (c *counted) spent() int64 {
	c.t.Helper()
	b, err := c.Admin("").Peek(c.t.Context(), "a", "api")
	check.Must(c.t, err)
	return 1000 - b[0].Levels[0].Remaining
}

// get returns the answer of a request, empty if there is none: its handler has panicked.
func (c *counted) get() (answer string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url, nil)
	check.Must(c.t, err)
	if a, err := http.DefaultClient.Do(r); err == nil {
		body, _ := io.ReadAll(a.Body)
		answer = fmt.Sprintf("%d %s", a.StatusCode, body)
		a.Body.Close()
	}
	<-c.done
	return answer
}

func failures(status int) bool  { return status >= 400 }
func successes(status int) bool { return status < 400 }
func none(int) bool             { return false }

// writes is a handler that writes statuses; 0 is a body.
func writes(statuses ...int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, status := range statuses {
			if status == 0 {
				fmt.Fprint(w, "fine")
			} else {
				w.WriteHeader(status)
			}
		}
	}
}

// An answer counts by its status, however a handler writes it, and stays as it is. What is not known to be free
// is kept.
func TestCountsByStatus(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	check.Must(t, os.WriteFile(file, []byte("content"), 0o600))
	must := func(err error) {
		check.NoError(t, err)
	}
	for _, c := range []struct {
		name                        string
		handler                     http.HandlerFunc
		byFailures, bySuccess, each int64 // what it costs
	}{
		{"200", writes(200), 0, 1, 1},
		{"a body", writes(0), 0, 1, 1},
		{"a string", func(w http.ResponseWriter, _ *http.Request) { _, err := io.WriteString(w, "x"); must(err) }, 0, 1, 1},
		{"303", writes(303), 0, 1, 1},
		{"401", writes(401), 1, 0, 1},
		{"500", writes(500), 1, 0, 1},
		{"401 after hints", writes(103, 401), 1, 0, 1},
		{"401 and again", writes(401, 200), 1, 0, 1},
		{"401 after a body", writes(0, 401), 0, 1, 1},
		{"flushed", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, 0, 1, 1},
		{"flushed by a controller", func(w http.ResponseWriter, _ *http.Request) {
			must(http.NewResponseController(w).Flush())
		}, 0, 1, 1},
		{"a file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }, 0, 1, 1},
		{"read from", func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("fine"))
			must(err)
		}, 0, 1, 1},
		{"full duplex", func(w http.ResponseWriter, _ *http.Request) {
			must(http.NewResponseController(w).EnableFullDuplex())
			w.WriteHeader(204)
		}, 0, 1, 1},
		{"hijacked", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			must(err)
			must(conn.Close())
		}, 0, 1, 1},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, 1, 1, 1},
		{"only hints", writes(103), 1, 1, 1},
		{"panics", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 1, 1, 1},
		{"panics after 200", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic("x") }, 1, 1, 1},
		{"panics after 500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); panic("x") }, 1, 1, 1},
		{"is settled", func(w http.ResponseWriter, r *http.Request) {
			must(httplimit.Lease(r).Settle(limiter.Costs{"rpm": 5}))
			w.WriteHeader(200)
		}, 5, 5, 5},
		{"is settled, and fails", func(w http.ResponseWriter, r *http.Request) {
			must(httplimit.Lease(r).Settle(limiter.Costs{"rpm": 5}))
			w.WriteHeader(500)
		}, 5, 5, 5},
		{"is ended", func(w http.ResponseWriter, r *http.Request) {
			must(httplimit.Lease(r).Commit(r.Context()))
			w.WriteHeader(200)
		}, 1, 1, 1},
		{"is rolled back", func(_ http.ResponseWriter, r *http.Request) {
			must(httplimit.Lease(r).Rollback(r.Context()))
		}, 0, 0, 0},
	} {
		plain := newCounted(t, nil, c.handler).get()
		for counts, by := range map[string]func(int) bool{"failures": failures, "successes": successes, "all": nil} {
			s := newCounted(t, by, c.handler)
			check.Equal(t, s.get(), plain, "%s, where %s count: answer", c.name, counts)
			want := map[string]int64{"failures": c.byFailures, "successes": c.bySuccess, "all": c.each}[counts]
			if got := s.spent(); got != want || len(s.settled) > 0 {
				t.Errorf("%s, where %s count: %d spent, want %d; %v", c.name, counts, got, want, s.settled)
			}
		}
	}
}

// A client that leaves after any byte of an answer pays, whatever counts and however the handler ends.
func TestClientsThatLeaveAtAnyBytePay(t *testing.T) {
	const body = "data: 1\n\n"
	for end, last := range map[string]func(http.ResponseWriter){
		"returns": func(http.ResponseWriter) {},
		"fails":   func(w http.ResponseWriter) { http.Error(w, "upstream", http.StatusBadGateway) },
		"panics":  func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		for name, counts := range map[string]func(int) bool{"failures": failures, "successes": successes, "none": none} {
			ran := int64(0) // a client that leaves at once may not get so far
			s := newCounted(t, counts, func(w http.ResponseWriter, r *http.Request) {
				ran++
				if r.Header.Get("Leaves") != "first" {
					fmt.Fprint(w, body)
					http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
				last(w)
			})
			leave := func(header string, enough func(string) bool) (got string) {
				conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
				check.Must(t, err)
				fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nLeaves: %s\r\n\r\n", header)
				for in := bufio.NewReader(conn); !enough(got); {
					b, err := in.ReadByte()
					check.Must(t, err)
					got += string(b)
				}
				conn.Close()
				<-s.done
				return got
			}
			leave("first", func(string) bool { return true })
			whole := leave("", func(got string) bool { return strings.HasSuffix(got, body) })
			for n := range len(whole) {
				leave("", func(got string) bool { return len(got) == n })
			}
			if got := s.spent(); got < ran || ran < int64(len(whole)) || len(s.settled) > 0 {
				t.Errorf("a handler %s, %s count: %d requests have cost %d; %v", end, name, ran, got, s.settled)
			}
		}
	}
}

// Tokens that cannot be given back stay taken, and it is reported once.
func TestAFailedGiveBackIsReportedOnce(t *testing.T) {
	for _, trouble := range []error{limiter.ErrUnavailable, limiter.ErrUnknown} {
		var s *counted
		s = newCounted(t, failures, func(w http.ResponseWriter, _ *http.Request) {
			s.Fail(trouble)
			w.WriteHeader(http.StatusOK)
		})
		s.get()
		s.Fail(nil)
		if want := map[bool]int64{true: 1}[trouble == limiter.ErrUnavailable]; s.spent() != want {
			t.Errorf("%v: %d spent, want %d", trouble, s.spent(), want)
		}
		if len(s.settled) != 1 || !errors.Is(s.settled[0], trouble) {
			t.Errorf("reported are %v, want %v", s.settled, trouble)
		}
	}
}

// A writer that can do less is asked for no more, and what it has refused begins no answer.
func TestWritersThatCannot(t *testing.T) {
	w := newTower(t)
	for i, then := range []int{0, http.StatusUnauthorized} {
		h := httplimit.New(w.limiter, httplimit.Options{
			Request: takes, Counts: failures,
		})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if _, _, err := w.(http.Hijacker).Hijack(); !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("hijacked: %v", err)
			}
			check.Is(t, http.NewResponseController(w).Flush(), http.ErrNotSupported, "flushed")
			text := strings.Repeat("fine", 1-i)
			if n, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader(text)); n != int64(len(text)) || err != nil {
				t.Errorf("read %d, %v", n, err)
			}
			if then != 0 {
				w.WriteHeader(then)
			}
		}))
		answer := httptest.NewRecorder()
		h.ServeHTTP(struct{ http.ResponseWriter }{answer}, httptest.NewRequest(http.MethodGet, "/", nil))
		b, err := w.Admin("").Peek(t.Context(), "a", "api")
		if err != nil || 1000-b[0].Levels[0].Remaining != int64(i) {
			t.Errorf("%d %q: %+v, %v", answer.Code, answer.Body, b, err)
		}
	}
}
