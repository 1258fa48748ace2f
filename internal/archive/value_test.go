package archive

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// plainly returns the archived form of a value in DynamoDB's JSON, or the reason why there is none.
func plainly(t *testing.T, stored string) string {
	t.Helper()
	var v value
	check.Must(t, json.Unmarshal([]byte(stored), &v))
	p, err := v.plain()
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(encodeLine(p)))
}

// A number as DynamoDB writes it becomes a JSON number with the same digits. Any other text is
// refused.
func TestNumbers(t *testing.T) {
	for _, n := range []string{"0", "-0", "7", "10", "-10", "0.5", "-1.50", "12.0", "1e5", "1E5", "1e+5", "1e-5",
		"1.5e05", "0e0"} {
		if got := plainly(t, `{"N":"`+n+`"}`); got != n {
			t.Errorf("number %q is archived as %s", n, got)
		}
	}
	for _, n := range []string{"", "-", "--1", "+1", "01", "-01", "00", "1.", ".5", "-.5", "1.e5", ".e5", "1e",
		"1e+", "1e-", "1.5e",
		"1.5.5", "1e5.5", "1x", "x1", " 1", "1 ", "1e5x", "1,5", "NaN", "e5", "true", "null", "[]"} {
		check.Equal(t, plainly(t, `{"N":"`+n+`"}`), `has "`+n+`" for a number`, "number %q", n)
	}
}

// Lists and maps may be as deep as in DynamoDB.
func TestDepth(t *testing.T) {
	for _, c := range []struct{ open, close string }{{`{"L":[`, `]}`}, {`{"M":{"a":`, `}}`}} {
		for depth, ok := range map[int]bool{maxDepth: true, maxDepth + 1: false} {
			got := plainly(t, strings.Repeat(c.open, depth)+`{"S":"x"}`+strings.Repeat(c.close, depth))
			if (strings.HasSuffix(got, "is nested deeper than 32 levels")) == ok {
				t.Errorf("%d of %s: %s", depth, c.open, got)
			}
		}
	}
}
