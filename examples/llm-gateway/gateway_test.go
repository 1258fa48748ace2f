package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// rig is a gateway on a table in memory, whose clock stands still.
type rig struct {
	t     *testing.T
	table *limitertest.Table
	url   string
	ended chan struct{} // a value for every request that the gateway is done with
}

func newRig(t *testing.T, m model) *rig {
	r := &rig{t: t, table: limitertest.New(t), ended: make(chan struct{}, 10)}
	g := &gateway{limiter: r.table.Limiter(nil), model: m, tenants: map[string]string{"demo": "acme"}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer func() { r.ended <- struct{}{} }()
		g.ServeHTTP(w, req)
	}))
	t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

// request asks for up to 100 tokens with a prompt of 3.
func (r *rig) request(ctx context.Context) *http.Request {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url,
		strings.NewReader(`{"prompt":"say again","max_tokens":100}`))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer demo")
	return req
}

// read reads an answer byte by byte, and leaves when that is enough.
func (r *rig) read(enough func(got string) bool) string {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { conn.Close(); <-r.ended }()
	if err := r.request(r.t.Context()).Write(conn); err != nil {
		r.t.Fatal(err)
	}
	got, next := "", make([]byte, 1)
	for !enough(got) {
		if _, err := conn.Read(next); err != nil {
			r.t.Fatal(err)
		}
		got += string(next)
	}
	return got
}

// ask asks for up to 100 tokens with a prompt of 3, and reads events until the answer
// ends, or read has had enough.
func (r *rig) ask(read func(event string) (enough bool)) (*http.Response, []string) {
	r.t.Helper()
	ctx, leave := context.WithCancel(r.t.Context())
	defer func() { leave(); <-r.ended }()
	answer, err := http.DefaultClient.Do(r.request(ctx))
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	var events []string
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if event, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if events = append(events, event); read != nil && read(event) {
				break
			}
		}
	}
	return answer, events
}

// wants compares what the tenant has left.
func (r *rig) wants(rpm, tpm int64) {
	r.t.Helper()
	b, err := r.table.Admin("").Peek(r.t.Context(), "acme", "parrot-1")
	if err != nil {
		r.t.Fatal(err)
	}
	if l := b[0].Levels; l[0].Remaining != rpm || l[1].Remaining != tpm {
		r.t.Errorf("left: %d requests, %d tokens, want %d and %d", l[0].Remaining, l[1].Remaining, rpm, tpm)
	}
}

// says is a model that says words of ten tokens, then ends as it is told.
func says(words int, end func(context.Context) error) model {
	return func(ctx context.Context, _ prompt, emit func(string, int64) error) error {
		for range words {
			if err := emit("word", 10); err != nil {
				return err
			}
		}
		return end(ctx)
	}
}

func TestWholeAnswerIsSettled(t *testing.T) {
	r := newRig(t, says(4, func(context.Context) error { return nil }))
	a, events := r.ask(nil)
	word := `{"text":"word"}`
	if want := []string{word, word, word, word, `"[DONE]"`}; !slices.Equal(events, want) {
		t.Errorf("%s: %q", a.Status, events)
	}
	if got := a.Header.Get("x-ratelimit-remaining-tokens"); got != "19897" { // with the estimate
		t.Errorf("%s tokens left when the answer began", got)
	}
	r.wants(59, 20_000-3-40)
}

func TestClientGoesAway(t *testing.T) {
	r := newRig(t, says(2, func(ctx context.Context) error {
		<-ctx.Done() // the model would go on; it is stopped
		return ctx.Err()
	}))
	n := 0
	r.ask(func(string) bool { n++; return n == 2 })
	r.wants(59, 20_000-3-20)
}

// A client that leaves at any byte of the answer pays for its request, its prompt, and each word that
// it has got.
func TestClientLeavesAtEachByte(t *testing.T) {
	const words = 3
	gateway := func() *rig {
		return newRig(t, says(words, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}))
	}
	whole := gateway().read(func(got string) bool { return strings.Count(got, "}\n\n") == words })
	for n := 1; n <= len(whole); n++ {
		r := gateway()
		got := r.read(func(got string) bool { return len(got) == n })
		b, err := r.table.Admin("").Peek(t.Context(), "acme", "parrot-1")
		if err != nil {
			t.Fatal(err)
		}
		l, least := b[0].Levels, 3+10*int64(strings.Count(got, "data: "))
		if used := 20_000 - l[1].Remaining; l[0].Remaining != 59 || used < least || used > 3+10*words {
			t.Errorf("%d bytes: %d requests left, %d tokens used, want 59, and %d at least", n, l[0].Remaining, used, least)
		}
	}
	t.Logf("%d bytes", len(whole))
}

// The model is called 60 times for 300 clients that leave before its first word, and not once more.
func TestClientsThatLeaveBeforeTheFirstWord(t *testing.T) {
	var calls atomic.Int64
	r := newRig(t, func(ctx context.Context, _ prompt, _ func(string, int64) error) error {
		calls.Add(1)
		<-ctx.Done()
		if calls.Load()%2 == 0 {
			return fmt.Errorf("%w: %w", errModel, ctx.Err()) // as some that wrap whatever happens
		}
		return ctx.Err()
	})
	for range 300 {
		before := calls.Load()
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			for calls.Load() == before && ctx.Err() == nil {
				time.Sleep(100 * time.Microsecond)
			}
			leave()
		}()
		if answer, err := http.DefaultClient.Do(r.request(ctx)); err == nil { // denied
			answer.Body.Close()
		}
		leave()
		<-r.ended
	}
	if n := calls.Load(); n != 60 {
		t.Errorf("%d calls of the model, want 60", n)
	}
	r.wants(0, 20_000-60*3)
}

// What a client causes in the gateway or in the model is not the model's failure.
func TestFailuresOfTheClientCost(t *testing.T) {
	for name, m := range map[string]model{
		"a prompt that the model rejects": says(0, func(context.Context) error { return errors.New("prompt is rejected") }),
		"a prompt that makes it panic":    says(0, func(context.Context) error { panic(http.ErrAbortHandler) }),
	} {
		r := newRig(t, m)
		if answer, err := http.DefaultClient.Do(r.request(t.Context())); err == nil {
			answer.Body.Close()
		}
		<-r.ended
		t.Log(name)
		r.wants(59, 20_000-3)
	}
}

func TestModelFails(t *testing.T) {
	fails := func(context.Context) error { return errModel }
	t.Run("before its first word", func(t *testing.T) {
		r := newRig(t, says(0, fails))
		if a, _ := r.ask(nil); a.StatusCode != http.StatusBadGateway {
			t.Errorf("status %s", a.Status)
		}
		r.wants(60, 20_000)
	})
	t.Run("later", func(t *testing.T) {
		r := newRig(t, says(3, fails))
		if _, events := r.ask(nil); len(events) != 4 || events[3] != `{"error":"the model has failed"}` {
			t.Errorf("events %q", events)
		}
		r.wants(59, 20_000-3-30)
	})
}

// The provider answers 429: nobody asks it again before its Retry-After is over.
func TestProviderRefuses(t *testing.T) {
	calls := 0
	r := newRig(t, func(context.Context, prompt, func(string, int64) error) error {
		calls++
		return &refusedError{20 * time.Second}
	})
	if a, _ := r.ask(nil); a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "20" {
		t.Errorf("%s, retry after %s", a.Status, a.Header.Get("Retry-After"))
	}
	for range 3 {
		if a, _ := r.ask(nil); a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") != "21" {
			t.Errorf("%s, retry after %s", a.Status, a.Header.Get("Retry-After"))
		}
	}
	r.table.Advance(20 * time.Second)
	r.wants(0, 0)
	r.table.Advance(time.Second)
	if a, _ := r.ask(nil); a.StatusCode != http.StatusServiceUnavailable || calls != 2 {
		t.Errorf("%s, %d calls of the provider", a.Status, calls)
	}
}

// The table fails after the request was granted: the answer is complete all the same,
// and the estimate stays taken, or the settlement is written and its answer lost.
func TestSettlementFails(t *testing.T) {
	for trouble, tpm := range map[error]int64{limiter.ErrUnavailable: 20_000 - 103, limiter.ErrUnknown: 20_000 - 3 - 10} {
		var r *rig
		r = newRig(t, says(1, func(context.Context) error { r.table.Fail(trouble); return nil }))
		if _, events := r.ask(nil); len(events) == 0 || events[0] != `{"text":"word"}` {
			t.Errorf("%v: events %q", trouble, events)
		}
		r.table.Fail(nil)
		r.wants(59, tpm)
	}
}

func TestDeniedAndRefused(t *testing.T) {
	r := newRig(t, says(0, func(context.Context) error { return nil }))
	for range 60 {
		if a, _ := r.ask(nil); a.StatusCode != http.StatusOK {
			t.Fatal(a.Status)
		}
	}
	if a, _ := r.ask(nil); a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") != "1" {
		t.Errorf("%s, retry after %s", a.Status, a.Header.Get("Retry-After"))
	}
	answer, err := http.Post(r.url, "application/json", strings.NewReader("{}"))
	if err != nil || answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %v, %v", answer, err)
	}
	_ = answer.Body.Close()
}

func TestParrot(t *testing.T) {
	var said string
	err := parrot(t.Context(), prompt{Prompt: "a b", MaxTokens: 3}, func(text string, _ int64) error {
		said += text
		return nil
	})
	if err != nil || said != "a b a " {
		t.Errorf("%q, %v", said, err)
	}
}
