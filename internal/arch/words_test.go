package arch

import (
	"regexp"
	"testing"
)

// words are expressions of comments that have a plainer form, with the most that may be left outside
// of tests. A number only goes down: lower it with the count.
var words = []struct {
	pattern, instead string
	most             int
}{
	{`tell|tells|told`, "report, observe, call", 0},
	{`what\s+(?:is|was)`, "the noun", 0},
	{`of\s+(?:that|those)|(?:that|those)\s+of`, "the noun again", 4},
	{`who|whoever`, "the noun", 1},
	{`beside`, "besides, together with", 0},
}

func TestCommentsArePlain(t *testing.T) {
	all := files(t)
	for _, w := range words {
		expression, n := regexp.MustCompile(`(?i)\b(?:`+w.pattern+`)\b`), 0
		for _, f := range all {
			if f.test() {
				continue
			}
			for _, g := range f.syntax.Comments {
				n += len(expression.FindAllString(g.Text(), -1))
			}
		}
		if n > w.most {
			t.Errorf("%d times %s in comments, at most %d: write %s", n, w.pattern, w.most, w.instead)
		}
	}
}
