package loadcheck

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

var update = flag.Bool("update", false, "rewrite the expected output of testdata/windows.txt")

// A block of testdata/windows.txt has a comment that says why, the observed rules and events,
// then ---- and the result of Worst.
//
//	rule FROM TO CAPACITY AMOUNT PERIOD    a limit that may have been in force
//	limit CAPACITY AMOUNT PERIOD           one that always was
//	skew MS | kept                         of the bound
//	grant | return | passing SENT ANSWERED TOKENS
func TestWindows(t *testing.T) {
	const file = "testdata/windows.txt"
	text, err := os.ReadFile(file)
	check.Must(t, err)
	var out []string
	for _, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		story, _, ok := strings.Cut(block, "\n----\n")
		if !ok {
			t.Fatalf("no ---- in:\n%s", block)
		}
		out = append(out, story+"\n----\n"+played(t, story))
	}
	check.Golden(t, file, strings.Join(out, "\n\n")+"\n", *update)
}

// played returns the result of one block.
func played(t *testing.T, story string) string {
	var b Bound
	var events []Event
	kinds := map[string]Kind{"grant": Grant, "return": Return, "passing": Passing}
	for line := range strings.Lines(story) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var n [5]int64
		count, _ := fmt.Sscan(rest, &n[0], &n[1], &n[2], &n[3], &n[4])
		kind, event := kinds[word]
		switch {
		case word == "#":
		case word == "rule" && count == 5:
			b.Rules = append(b.Rules, Rule{n[0], n[1], n[2], n[3], n[4]})
		case word == "limit" && count == 3:
			b.Rules = always(n[0], n[1], n[2])
		case word == "skew" && count == 1:
			b.Skew = n[0]
		case word == "kept" && count == 0:
			b.Kept = true
		case event && count == 3:
			events = append(events, Event{kind, n[0], n[1], n[2]})
		default:
			t.Fatalf("not understood: %s", line)
		}
	}
	r, err := Worst(b, events)
	if err != nil {
		return err.Error()
	}
	return r.String()
}
