// Package check has the comparisons that most tests end with. A comparison that fails names the
// value that the test got and the one it wanted, after words about them, if there are any: a format
// and its arguments. Equal, Slices, Deep, NoError, Is and Says let the test go on; MustEqual, Must,
// MustBe and Golden end it.
package check

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Equal wants two values to be the same.
func Equal[T comparable](t testing.TB, got, want T, words ...any) {
	if got != want {
		t.Helper()
		t.Error(differ(got, want, words))
	}
}

// MustEqual is Equal, and ends the test.
func MustEqual[T comparable](t testing.TB, got, want T, words ...any) {
	if got != want {
		t.Helper()
		t.Fatal(differ(got, want, words))
	}
}

// NoError wants no error.
func NoError(t testing.TB, err error, words ...any) {
	if err != nil {
		t.Helper()
		t.Error(about(words) + err.Error())
	}
}

// Must is NoError, and ends the test.
func Must(t testing.TB, err error, words ...any) {
	if err != nil {
		t.Helper()
		t.Fatal(about(words) + err.Error())
	}
}

// Is wants an error of a kind, as errors.Is has it; nil is the lack of one.
func Is(t testing.TB, err, want error, words ...any) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Error(differ(err, want, words))
	}
}

// MustBe is Is, and ends the test.
func MustBe(t testing.TB, err, want error, words ...any) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Fatal(differ(err, want, words))
	}
}

// Says wants an error whose text has a part; of "" it wants none.
func Says(t testing.TB, err error, part string, words ...any) {
	if (err == nil) != (part == "") || err != nil && !strings.Contains(err.Error(), part) {
		t.Helper()
		t.Error(differ(err, strconv.Quote(part), words))
	}
}

// Slices wants two slices to have the same elements; nil is an empty one.
func Slices[E comparable](t testing.TB, got, want []E, words ...any) {
	if !slices.Equal(got, want) {
		t.Helper()
		t.Error(differ(got, want, words))
	}
}

// Deep wants two values to be the same all the way down, as reflect.DeepEqual has it.
func Deep(t testing.TB, got, want any, words ...any) {
	if !reflect.DeepEqual(got, want) {
		t.Helper()
		t.Error(differ(got, want, words))
	}
}

// Golden wants a text to equal a file, which is written anew if write says so. It shows the lines
// from the first one that differs on, and ends the test.
func Golden(t testing.TB, file, got string, write bool) {
	t.Helper()
	if write {
		Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		Must(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	Must(t, err)
	a, b := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	if same < max(len(a), len(b)) {
		lines := func(all []string) string { return strings.Join(all[same:min(same+8, len(all))], "\n") }
		t.Fatalf("%s differs from line %d on:\n%s\nwant\n%s\n-update writes it", file, same+1, lines(a), lines(b))
	}
}

// Err returns the error of a call whose other result does not matter.
func Err[T any](_ T, err error) error { return err }

func differ(got, want any, words []any) string {
	return fmt.Sprintf("%sgot %+v, want %+v", about(words), got, want)
}

// about returns the words, as the beginning of a message.
func about(words []any) string {
	if len(words) == 0 {
		return ""
	}
	return fmt.Sprintf(fmt.Sprint(words[0]), words[1:]...) + ": "
}
