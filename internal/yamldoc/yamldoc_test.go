package yamldoc

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

type shelf struct {
	Books []book `yaml:"books"`
	Lines Lines
}

type book struct {
	Title *string `yaml:"title"`
	Pages uint32  `yaml:"pages"`
	Lines Lines
}

// Lines are of keys that have a value, in the mapping where they are read: its own before those that it merges.
// All that is not acceptable is reported, in order, and the rest is read.
func TestRead(t *testing.T) {
	var s shelf
	mistakes := Read([]byte(`books:
- &b {title: null, pages: "7"}
-
- <<: *b
  title: War
  x-note: long
- title: [A]
  pages: -1
--- more`), &s, Options{PassOver: "x-"})
	check.Slices(t, mistakes, []Mistake{
		{3, "books: found nothing in an item, want a mapping with any of title, pages"},
		{7, "books: title: found a list, want text"}, {8, `books: pages: found "-1", want 0 to 4294967295`},
		{9, "more than one document"}}, "mistakes")
	check.Equal(t, len(s.Books), 4, "books")
	check.Equal(t, s.Books[0].Title == nil && s.Books[0].Pages == 7 && *s.Books[2].Title == "War", true, "read")
	check.Deep(t, s.Books[0].Lines, Lines{"": 2, "pages": 2}, "lines of the first")
	check.Deep(t, s.Books[2].Lines, Lines{"": 4, "title": 5, "pages": 2, "x-note": 6}, "lines of the third")
}

// A key that is not a scalar is a mistake in the words of the document.
func TestKeysAreText(t *testing.T) {
	for _, text := range []string{"\n? [a]\n: 1", "books: []\n{a: b}: 1", "books:\n- {[a]: 1}"} {
		for _, into := range []any{new(shelf), new(map[string]any)} {
			check.Slices(t, Read([]byte(text), into, Options{}),
				[]Mistake{{2, "found a list or a mapping as a key, want text"}}, "%q", text)
		}
	}
}

// What may stand there keeps null, also in a list: it is data, not an item that was forgotten.
func TestNullInData(t *testing.T) {
	var data map[string]any
	check.Slices(t, Read([]byte("tags: [a, null, ~]\nplan:\nmore: [{a: }, []]"), &data, Options{}), nil, "mistakes")
	check.Deep(t, data, map[string]any{"tags": []any{"a", nil, nil}, "plan": nil,
		"more": []any{map[string]any{"a": nil}, []any{}}}, "data")
}

// A number that other readers of YAML take for another one is refused: 010 is eight to some.
func TestNumbersAreDecimalDigits(t *testing.T) {
	for _, text := range []string{"010", `"010"`, "0x10", "0o10", "1_000", "+7", "00", "1e3", "7.0", "-0"} {
		var b book
		check.Slices(t, Read([]byte("pages: "+text), &b, Options{}), []Mistake{{1, fmt.Sprintf(
			"pages: found %q, want 0 to 4294967295", strings.Trim(text, `"`))}}, text)
	}
}

// A place far below takes as little memory as one near the top.
func TestDeepDocumentsTakeLittleMemory(t *testing.T) {
	const depth = 5000
	text := []byte(strings.Repeat("{a: ", depth) + "1" + strings.Repeat("}", depth))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var data map[string]any
	check.Slices(t, Read(text, &data, Options{}), nil, "mistakes")
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 50<<20 {
		t.Errorf("%d MB for %d KB of text", used>>20, len(text)>>10)
	}
}

// A mistake far below names the last part of its place.
func TestPlacesAreBounded(t *testing.T) {
	type nest struct {
		Below *nest `yaml:"below"`
	}
	const depth = 500
	text := strings.Repeat("{odd: 1, below: ", depth) + "{}" + strings.Repeat("}", depth)
	mistakes := Read([]byte(text), new(nest), Options{})
	check.Equal(t, len(mistakes), depth, "mistakes")
	check.Equal(t, mistakes[12].Text, strings.Repeat("below: ", 12)+`"odd" is not known here, accepted are below`, "whole")
	check.Equal(t, mistakes[depth-1].Text, "…: "+mistakes[12].Text, "last")
}
