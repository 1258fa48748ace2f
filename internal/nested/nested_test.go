package nested_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/nested"
)

// lease notes how it ended, under a context that has not.
type lease struct {
	name string
	ends *[]string
	err  error
}

func (l lease) Commit(ctx context.Context) error   { return l.end(ctx, "keeps") }
func (l lease) Rollback(ctx context.Context) error { return l.end(ctx, "gives back") }

func (l lease) end(ctx context.Context, how string) error {
	*l.ends = append(*l.ends, l.name+" "+how)
	return errors.Join(l.err, ctx.Err())
}

// Every way through up to three limiters: d is a limiter that denies, a lower-case letter one that
// grants, and what stands in brackets is asked within it.
func TestStepsEndByWhatIsDeniedWithin(t *testing.T) {
	for ways, want := range map[string][]string{
		"a()":         {"a keeps"},
		"a(d)":        {"a gives back"},
		"a(dd)":       {"a gives back"},
		"a(b())":      {"b keeps", "a keeps"},
		"a(b(d))":     {"b gives back", "a gives back"},
		"a(b()d)":     {"b keeps", "a keeps"},
		"a(db())":     {"b keeps", "a keeps"},
		"a(b(d)d)":    {"b gives back", "a gives back"},
		"a(b(d)c())":  {"b gives back", "c keeps", "a keeps"},
		"a(b(c(d)))":  {"c gives back", "b gives back", "a gives back"},
		"a(b(c()d))":  {"c keeps", "b keeps", "a keeps"},
		"a()b(d)":     {"a keeps", "b gives back"},
		"d":           nil,
		"a(b(c(d))d)": {"c gives back", "b gives back", "a gives back"},
	} {
		var ends []string
		ctx, leave := context.WithCancel(t.Context())
		leave() // the client has gone away
		rest := play(t, ctx, ways, &ends)
		if rest != "" || !slices.Equal(ends, want) {
			t.Errorf("%s: %q, want %q", ways, ends, want)
		}
	}
}

func play(t *testing.T, ctx context.Context, ways string, ends *[]string) (rest string) {
	for ways != "" && ways[0] != ')' {
		if ways[0] == 'd' {
			nested.Denied(ctx)
			ways = ways[1:]
			continue
		}
		own := lease{name: ways[:1], ends: ends}
		within, step := nested.Enter(ctx, own)
		if nested.Innermost(within) != own {
			t.Errorf("%v is the innermost lease, want %v", nested.Innermost(within), own)
		}
		ways = play(t, within, ways[2:], ends)[1:]
		if err := step.End(within); err != nil {
			t.Error(err)
		}
	}
	return ways
}

// The error of a lease is that of its step, and without a limiter there is no lease.
func TestErrorsAndNone(t *testing.T) {
	broken := errors.New("broken")
	for _, denied := range []bool{false, true} {
		ctx, step := nested.Enter(t.Context(), lease{ends: new([]string), err: broken})
		if denied {
			nested.Denied(ctx)
		}
		if err := step.End(ctx); !errors.Is(err, broken) {
			t.Errorf("denied %v: %v", denied, err)
		}
	}
	if got := nested.Innermost(t.Context()); got != nil {
		t.Errorf("a lease of nobody: %v", got)
	}
}
