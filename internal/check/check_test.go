package check

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
)

// said records what a comparison says.
type said struct {
	testing.TB
	text string
}

func (s *said) Helper()           {}
func (s *said) Error(args ...any) { s.text += "error " + fmt.Sprint(args...) }
func (s *said) Fatal(args ...any) { s.text += "fatal " + fmt.Sprint(args...) }

func (s *said) Fatalf(format string, args ...any) { s.Fatal(fmt.Sprintf(format, args...)) }

func TestComparisons(t *testing.T) {
	cause := errors.New("cause")
	wrapped := fmt.Errorf("wrapped: %w", cause)
	file := filepath.Join(t.TempDir(), "golden")
	Golden(t, file, "a\nb\n", true)
	for name, c := range map[string]struct {
		does func(t testing.TB)
		want string
	}{
		"equal":              {func(t testing.TB) { Equal(t, 1, 1, "never") }, ""},
		"not equal":          {func(t testing.TB) { Equal(t, 1, 2, "%d of", 3) }, "error 3 of: got 1, want 2"},
		"without words":      {func(t testing.TB) { Equal(t, "a", "b") }, "error got a, want b"},
		"equal, or the end":  {func(t testing.TB) { MustEqual(t, 1, 1) }, ""},
		"the end":            {func(t testing.TB) { MustEqual(t, 1, 2) }, "fatal got 1, want 2"},
		"no error":           {func(t testing.TB) { NoError(t, nil) }, ""},
		"an error":           {func(t testing.TB) { NoError(t, cause, "it") }, "error it: cause"},
		"must":               {func(t testing.TB) { Must(t, nil) }, ""},
		"must, with one":     {func(t testing.TB) { Must(t, Err(1, cause)) }, "fatal cause"},
		"a kind":             {func(t testing.TB) { Is(t, wrapped, cause) }, ""},
		"no kind":            {func(t testing.TB) { Is(t, nil, nil) }, ""},
		"another kind":       {func(t testing.TB) { Is(t, cause, wrapped) }, "error got cause, want wrapped: cause"},
		"an error, none":     {func(t testing.TB) { Is(t, cause, nil) }, "error got cause, want <nil>"},
		"must be":            {func(t testing.TB) { MustBe(t, wrapped, cause) }, ""},
		"must be another":    {func(t testing.TB) { MustBe(t, nil, cause) }, "fatal got <nil>, want cause"},
		"says":               {func(t testing.TB) { Says(t, wrapped, "rap", "never") }, ""},
		"says nothing":       {func(t testing.TB) { Says(t, nil, "") }, ""},
		"says it not":        {func(t testing.TB) { Says(t, nil, "no") }, `error got <nil>, want "no"`},
		"says another thing": {func(t testing.TB) { Says(t, cause, "no") }, `error got cause, want "no"`},
		"says anything":      {func(t testing.TB) { Says(t, cause, "") }, `error got cause, want ""`},
		"slices":             {func(t testing.TB) { Slices(t, nil, []int{}) }, ""},
		"other slices":       {func(t testing.TB) { Slices(t, []int{1}, []int{2}) }, "error got [1], want [2]"},
		"deep":               {func(t testing.TB) { Deep(t, []any{1}, []any{1}) }, ""},
		"of another type":    {func(t testing.TB) { Deep(t, int64(1), 1) }, "error got 1, want 1"},
		"deep, of the other": {func(t testing.TB) { Deep(t, []int(nil), []int{}) }, "error got [], want []"},
		"golden":             {func(t testing.TB) { Golden(t, file, "a\nb\n", false) }, ""},
		"a golden with more": {func(t testing.TB) { Golden(t, file, "a\n", false) }, "fatal " + file +
			" differs from line 2 on:\n\nwant\nb\n\n-update writes it"},
		"a golden with less": {func(t testing.TB) { Golden(t, file, "a\nb\n\nc", false) }, "fatal " + file +
			" differs from line 4 on:\nc\nwant\n\n-update writes it"},
		"another golden": {func(t testing.TB) { Golden(t, file, "c", false) }, "fatal " + file +
			" differs from line 1 on:\nc\nwant\na\nb\n\n-update writes it"},
	} {
		s := &said{}
		if c.does(s); s.text != c.want {
			t.Errorf("%s: said %q, want %q", name, s.text, c.want)
		}
	}
}
