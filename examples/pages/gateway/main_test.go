package main

import (
	"context"
	"errors"
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

func TestStream(t *testing.T) {
	for _, tt := range []struct {
		name  string
		model model
		reads int
		used  int64
	}{
		{"to its end", says(5, io.EOF), 9, 50},
		{"the client goes away", says(5, io.EOF), 2, 30},
		{"the model fails at once", says(0, errors.New("overloaded")), 9, 0},
		{"the model fails later", says(3, errors.New("overloaded")), 9, 30},
		{"a word for a token", echo("say it again"), 9, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := limitertest.New(t)
			ns := table.Admin("")
			limits := []limiter.Limit{
				limiter.PerHour("rpm", 10), limiter.PerHour("tpm", 1000),
				limiter.Quota("budget", limiter.USD(500), limiter.Monthly(1, "")),
			}
			if err := ns.SetLimits(t.Context(), admin.Scope{}, limits...); err != nil {
				t.Fatal(err)
			}
			_ = stream(t.Context(), table.Limiter(nil), "acme", 200, tt.model, &gone{tt.reads})
			got, err := ns.Peek(t.Context(), "acme", "gpt-4")
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]int64{"tpm": 1000 - tt.used, "budget": 500_000_000 - tt.used*price}
			for _, l := range got[0].Levels {
				if n, ok := want[l.Name]; ok && l.Remaining != n {
					t.Errorf("%s: %d are left, want %d", l.Name, l.Remaining, n)
				}
			}
		})
	}
}
