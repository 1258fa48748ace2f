package yamldoc

import (
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
