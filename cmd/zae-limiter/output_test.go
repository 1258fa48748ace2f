package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/zeroae/zae-limiter-go/internal/replay"
)

func TestStoredTextDoesNotSteerTheTerminal(t *testing.T) {
	if got := harmless("a\x1b[2J\tb\u009b1m\n"); got != "a?[2J\tb?1m?" {
		t.Errorf("%q", got)
	}
}

// fullDisk has no room for anything.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// tells runs a command whose output has no room. It must end in status 1 and say why.
func tells(t *testing.T, memory memory, args ...string) {
	t.Helper()
	var errs strings.Builder
	a := &app{in: strings.NewReader(""), out: fullDisk{}, errs: &errs, memory: memory}
	code := a.run(t.Context(), args)
	if code != failed || !strings.Contains(errs.String(), syscall.ENOSPC.Error()) {
		t.Errorf("zae-limiter %v on a full disk: %d\n%s", args, code, errs.String())
	}
}

// No command loses its output in silence.
func TestLostOutputIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a removal waits for the index
		noAWS(t)
		onTable(t, func(begin stored, args []string) {
			for _, format := range formats {
				args := slices.Concat(args, []string{"-o", format})
				if out, _, _ := storedIn(begin.db.Snapshot()).on(t, "", args...); out != "" {
					tells(t, storedIn(begin.db.Snapshot()), args...)
				}
			}
		})
		for _, command := range []string{
			"", "--help", "help limits", "limits", "limits set --help", "completion bash", "completion zsh",
			"completion fish", "completion powershell", "__complete limits re", "table template terraform",
			"table policy read --arn " + tableARN,
		} {
			tells(t, nil, strings.Fields(command)...)
		}
	})
}

// What is asked of AWS is not lost either.
func TestLostOutputOfWhatIsOnAWS(t *testing.T) {
	onAWS(t, &anAWS{there: true})
	for _, command := range []string{"table describe", "table create", "table policy read"} {
		for _, format := range formats {
			tells(t, nil, append(strings.Fields(command), "-o", format)...)
		}
	}
	onStack(t, &aStack{env: theEnv, objects: map[string]string{"failed/" + replay.BatchPrefix + "a": ""}})
	for _, format := range formats {
		tells(t, nil, "replay", "-o", format)
	}
	folder := withStandIn(t)
	for _, format := range formats {
		tells(t, nil, dev(folder, "--no-functions", "-o", format)...)
	}
}
