package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// SIGTERM arrives in the middle of traffic, after a thousand requests of a rate, a quota and slots,
// with prefetching and delayed settlements. The quota has lost exactly the costs, and no slot is
// taken.
func TestServeEndsWithNothingLost(t *testing.T) {
	s := onTable(t)
	s.says(0, "limits set -y -e acme -r api rps=100000/s quota=1000000@daily jobs=100@in-flight/1m")
	cmd := exec.Command(binary, "serve", "--http", "127.0.0.1:0", "--timeout", "1m")
	cmd.Env = s.env
	errs, err := cmd.StderrPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	lines := bufio.NewReader(errs)
	line, err := lines.ReadString('\n')
	_, address, _ := strings.Cut(strings.TrimSpace(line), " on ")
	if err != nil || address == "" {
		t.Fatalf("%q: %v", line, err)
	}
	post := func(path, body string) (map[string]any, error) {
		a, err := http.Post("http://"+address+"/v1/"+path, "application/json", strings.NewReader(body))
		if err != nil {
			return nil, err // it has ended before it started this
		}
		defer a.Body.Close()
		var out map[string]any
		if err := json.NewDecoder(a.Body).Decode(&out); err != nil || a.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %s %v %v", path, body, a.Status, out, err)
		}
		return out, nil
	}
	var granted, cost, unsettled atomic.Int64
	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			for costs := []string{`"rps": 1, "quota": 3`, `"rps": 1, "quota": 3, "jobs": 1`}[i%2]; ; {
				out, err := post("acquire", `{"entity": "acme", "resource": "api", "lease_seconds": 60, "costs": {`+costs+`}}`)
				if err != nil {
					return
				}
				n := granted.Add(1)
				settled := n%3 + 1
				_, err = post("settle", fmt.Sprintf(`{"lease": %q, "costs": {"quota": %d}}`, out["lease"], settled))
				if err != nil {
					settled = 3
					unsettled.Add(1)
				}
				if cost.Add(settled); n == 1000 {
					check.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
				}
			}
		})
	}
	clients.Wait()
	rest := &bytes.Buffer{}
	check.NoError(t, check.Err(io.Copy(rest, lines)))
	if err := cmd.Wait(); err != nil || rest.Len() > 0 {
		t.Errorf("ended with %v\n%s", err, rest)
	}
	if granted.Load() < 1000 {
		t.Errorf("only %d were granted", granted.Load())
	}
	type bucket struct {
		Levels []struct {
			Name string
			Used int64
		}
	}
	want := map[string]int64{"quota": cost.Load(), "jobs": 0}
	for _, l := range prints[[]bucket](s, "peek acme api")[0].Levels {
		if used, ok := want[l.Name]; ok && l.Used != used {
			t.Errorf("%d of %s are used, want %d, of which %d leases were open in the end", l.Used, l.Name, used,
				unsettled.Load())
		}
	}
}
