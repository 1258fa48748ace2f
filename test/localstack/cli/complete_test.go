package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// A bash with only the tool's script, without the package bash-completion, completes commands and
// names in the table when a key is pressed.
func TestBashCompletes(t *testing.T) {
	e := engine.ForTest(t, engine.Dynoxide)
	s := newShell(t, e, e.Table(t).Name)
	s.run(0, "namespace", "register", "default")
	s.run(0, "limits", "set", "-y", "-r", "gpt-4", "rpm=10", "budget=$5@daily")
	s.run(0, "limits", "set", "-y", "-e", "acme", "-r", "search", "own=10")
	s.run(0, "entity", "create", "user:7")
	const (
		tab     = "\t"    // completes a unique prefix
		all     = "\x1b*" // inserts all completions
		toStart = "\x01"  // of the line
		enter   = "\n"
	)
	lines := [][2]string{
		{"zae-limiter lim" + tab, "zae-limiter limits"},
		{"zae-limiter limits re" + all, "zae-limiter limits reach resolve"},
		{"zae-limiter peek " + all, "zae-limiter peek acme user:7"},
		{"X=1 zae-limiter  peek a" + tab, "X=1 zae-limiter peek acme"},
		{"zae-limiter peek user:" + tab, "zae-limiter peek user:7"},
		{"zae-limiter peek acme " + all, "zae-limiter peek acme gpt-4 search"},
		{"zae-limiter limits get -r g" + tab, "zae-limiter limits get -r gpt-4"},
		{"zae-limiter limits get --resource=g" + tab, "zae-limiter limits get --resource=gpt-4"},
		{"zae-limiter credit acme gpt-4 b" + tab + "5", "zae-limiter credit acme gpt-4 budget=5"},
		{"zae-limiter reset acme search o" + tab, "zae-limiter reset acme search own"},
		{"zae-limiter usage -e a" + tab, "zae-limiter usage -e acme"},
		{"zae-limiter peek nobody" + tab, "zae-limiter peek nobody"},
	}
	var in, want strings.Builder
	in.WriteString("source <(zae-limiter completion bash)" + enter)
	patient := strings.NewReplacer("zae-limiter ", "zae-limiter --timeout 5m ") // the default is two seconds
	for _, line := range lines {
		in.WriteString(patient.Replace(line[0]) + toStart + "echo " + enter)
		want.WriteString(patient.Replace(line[1]) + "\n")
	}
	cmd := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile", "-i")
	cmd.Env = append(s.env, "PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"), "TERM=dumb")
	cmd.Stdin = strings.NewReader(in.String())
	var screen strings.Builder
	cmd.Stderr = &screen
	got, err := cmd.Output()
	if err != nil || string(got) != want.String() {
		t.Errorf("%v, completed:\n%swant:\n%s\n%s", err, got, want.String(), screen.String())
	}
}
