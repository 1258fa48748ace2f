package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// walled is a table in memory by the clock on the wall.
type walled struct{ *memdynamo.Client }

func (walled) Now() time.Time { return time.Now() }

// settled returns the number of goroutines when no work is under way, and the memory in use, without the
// history of the table.
func settled(db *memdynamo.DB) (goroutines int, memory uint64) {
	time.Sleep(10 * time.Second) // tokens taken ahead expire
	synctest.Wait()
	db.Drain()
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // of what pools have kept
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}

// A thousand connections, half of them of Envoys, ask again and again: memory and goroutines do not grow,
// and all goroutines end with their connections. LONG=1 asks 50 times as often.
func TestServeAThousandConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const connections = 1000
		rounds := 6
		if os.Getenv("LONG") != "" {
			rounds = 300
		}
		db := memdynamo.New(func() int64 { return time.Now().UnixMilli() })
		table := walled{db.Client()}
		all, err := admin.Open(t.Context(), table, "x", nil)
		check.Must(t, err)
		ns, err := all.Register(t.Context(), "default")
		check.Must(t, err)
		many := limiter.PerSecond("rps", 1_000_000_000)
		check.Must(t, ns.SetLimits(t.Context(), admin.Scope{Resource: "api"}, many))
		s := serveFrom(t, table, "--ahead", "500ms")
		s.write("edge.yaml", "domain: edge\ndescriptors:\n"+
			"  - {key: user, rate_limit: {unit: second, requests_per_unit: 4000000000}}\n")
		s.line() // the rules are in force
		before, _ := settled(db)

		post := func(c *http.Client, path string, in, out any) error {
			text, err := json.Marshal(in)
			if err != nil {
				return err
			}
			resp, err := c.Post("http://http/v1/"+path, "application/json", bytes.NewReader(text))
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: %d %s, %w", path, resp.StatusCode, answer, err)
			} else {
				return json.Unmarshal(answer, out)
			}
		}
		var round [connections]func() error
		var ends [connections]func()
		for i := range connections {
			entity := fmt.Sprint("user-", i%100)
			if i%2 == 0 {
				conn := s.dial(insecure.NewCredentials())
				ends[i] = func() { _ = conn.Close() }
				round[i] = func() error {
					_, err := ask(t.Context(), conn, "user", entity)
					return err
				}
				continue
			}
			c := s.newClient()
			ends[i] = c.CloseIdleConnections
			round[i] = func() error {
				var out settleBody
				acquire := acquireBody{Entity: entity, Resource: "api", Costs: limiter.Costs{"rps": 2},
					LeaseSeconds: 3600}
				if err := post(c, "acquire", acquire, &out); err != nil {
					return err
				}
				return post(c, "settle", settleBody{out.Lease, limiter.Costs{"rps": 1}}, &out)
			}
		}
		var goroutines int
		var memory uint64
		for r := range rounds {
			var senders sync.WaitGroup
			for _, do := range round {
				senders.Go(func() {
					check.NoError(t, do())
				})
			}
			if senders.Wait(); t.Failed() {
				break
			}
			if r == rounds/4 { // all connections are open, and all buckets known
				goroutines, memory = settled(db)
			}
			time.Sleep(time.Second)
		}
		after, used := settled(db)
		t.Logf("goroutines: %d before, %d then %d with connections; memory %d, then %d KB", before, goroutines, after,
			memory>>10, used>>10)
		if after > goroutines {
			t.Errorf("%d goroutines, then %d", goroutines, after)
		}
		if used > memory+16<<20 { // chance accounts for a third of this
			t.Errorf("%d KB in use, then %d", memory>>10, used>>10)
		}
		if _, text := s.get("/metrics"); !strings.Contains(text, "\nzae_limiter_leases 0\n") {
			t.Errorf("leases are held:\n%s", text)
		}
		s.client.CloseIdleConnections()
		for _, end := range ends {
			end()
		}
		if after, _ := settled(db); after > before {
			t.Errorf("%d goroutines without connections, %d when they are closed", before, after)
		}
	})
}
