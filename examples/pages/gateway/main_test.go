package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// says is a model that says words of ten tokens, then ends with err.
func says(words int, err error) model {
	return func(context.Context) (string, int64, error) {
		if words--; words < 0 {
			return "", 0, err
		}
		return "word ", 10, nil
	}
}

type gone struct{ after int }

func (g *gone) Write(p []byte) (int, error) {
	if g.after--; g.after < 0 {
		return 0, errors.New("broken pipe")
	}
	return len(p), nil
}

const limit = 1000 // tokens

// played returns what a stream with a prompt of three tokens has cost, in requests and tokens.
func played(t *testing.T, ctx context.Context, next model, w io.Writer) (requests, tokens int64) {
	t.Helper()
	table := limitertest.New(t)
	ns := table.Admin("")
	limits := []limiter.Limit{
		limiter.PerHour("rpm", 10), limiter.PerHour("tpm", limit),
		limiter.Quota("budget", limiter.USD(500), limiter.Monthly(1, "")),
	}
	if err := ns.SetLimits(t.Context(), admin.Scope{}, limits...); err != nil {
		t.Fatal(err)
	}
	_ = stream(ctx, table.Limiter(nil), request("acme", 200), 3, next, w)
	got, err := ns.Peek(t.Context(), "acme", "gpt-4")
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]int64{}
	for _, l := range got[0].Levels {
		left[l.Name] = l.Remaining
	}
	tokens = limit - left["tpm"]
	if spent := limiter.USD(500) - left["budget"]; spent != tokens*price {
		t.Errorf("%d spent for %d tokens", spent, tokens)
	}
	return 10 - left["rpm"], tokens
}

func TestStream(t *testing.T) {
	overloaded := fmt.Errorf("%w: overloaded", errModel)
	for _, tt := range []struct {
		name             string
		model            model
		reads            int
		requests, tokens int64
	}{
		{"to its end", says(5, io.EOF), 9, 1, 3 + 50},
		{"the client goes away", says(5, io.EOF), 2, 1, 3 + 30},
		{"the model fails at once", says(0, overloaded), 9, 0, 0},
		{"the model fails later", says(3, overloaded), 9, 1, 3 + 30},
		{"the model rejects the prompt", says(0, errors.New("rejected")), 9, 1, 3},
		{"a word for a token", echo("say it again"), 9, 1, 3 + 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requests, tokens := played(t, t.Context(), tt.model, &gone{tt.reads})
			if requests != tt.requests || tokens != tt.tokens {
				t.Errorf("%d requests and %d tokens, want %d and %d", requests, tokens, tt.requests, tt.tokens)
			}
		})
	}
}

// cut is a client that reads so many bytes, and then has gone away.
type cut struct{ left int }

func (c *cut) Write(p []byte) (int, error) {
	n := min(c.left, len(p))
	if c.left -= n; n < len(p) {
		return n, io.ErrClosedPipe
	}
	return n, nil
}

// A client that leaves at any byte pays for its prompt, and for each word that it has got a byte of.
func TestClientLeavesAtEachByte(t *testing.T) {
	const words, bytes = 4, len("word ")
	for read := 0; read <= words*bytes; read++ {
		requests, tokens := played(t, t.Context(), says(words, io.EOF), &cut{read})
		if want := int64(3 + 10*min(words, read/bytes+1)); requests != 1 || tokens != want {
			t.Errorf("after %d bytes: %d requests and %d tokens, want 1 and %d", read, requests, tokens, want)
		}
	}
}

// A client that leaves before the first token, while the model works, pays for its prompt; so it does
// where the model takes that for a failure of its own.
func TestClientLeavesBeforeTheFirstToken(t *testing.T) {
	for _, wrap := range []error{errModel, io.ErrUnexpectedEOF} {
		ctx, leave := context.WithCancel(t.Context())
		requests, tokens := played(t, ctx, func(ctx context.Context) (string, int64, error) {
			leave()
			<-ctx.Done()
			return "", 0, fmt.Errorf("%w: %w", wrap, ctx.Err())
		}, io.Discard)
		if requests != 1 || tokens != 3 {
			t.Errorf("%d requests and %d tokens, want 1 and 3", requests, tokens)
		}
	}
}
