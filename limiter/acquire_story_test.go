package limiter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// TestLifeOfAnAcquire runs the story of docs/life.md in the in-memory twin, and fails if
// docs/life.md differs.
func TestLifeOfAnAcquire(t *testing.T) {
	w, l := newProcess(t, Options{})
	cfg := config.Config{Namespace: l.NamespaceID(), Resource: "gpt-4", Limits: []bucket.Limit{
		PerMinute("rpm", 10).stored(), PerMinute("tpm", 1000).stored(),
	}}
	w.db.Store(cfg.Item())
	w.db.ResetStats()
	start := w.now.Load()

	var story strings.Builder
	tell := func(what, outcome string) {
		st := w.db.ResetStats()
		var calls []string
		for _, c := range []struct {
			n    int
			name string
		}{{st.Reads, "BatchGetItem"}, {st.Updates, "UpdateItem"}, {st.Puts, "PutItem"}} {
			if c.n > 0 {
				calls = append(calls, fmt.Sprintf("%d %s", c.n, c.name))
			}
		}
		if calls == nil {
			calls = []string{"no call"}
		}
		fmt.Fprintf(&story, "%-8s  %-26s  %-38s  %-42s  %s\n",
			time.Duration(w.now.Load()-start)*time.Millisecond, what, strings.Join(calls, ", "), outcome, w.levels(l))
	}
	acquire := func(costs Costs) *Lease {
		lease, err := l.Acquire(context.Background(), Request{Entity: "acme", Resource: "gpt-4", Costs: costs})
		outcome := "granted"
		if d, ok := errors.AsType[*LimitError](err); ok {
			outcome = fmt.Sprintf("denied by %s, retry after %s", d.Limit, d.RetryAfter)
		} else if err != nil {
			t.Fatal(err)
		}
		tell(fmt.Sprintf("acquire rpm=%d tpm=%d", costs["rpm"], costs["tpm"]), outcome)
		return lease
	}

	acquire(Costs{"rpm": 1, "tpm": 400})
	lease := acquire(Costs{"rpm": 1, "tpm": 400})
	w.advance(2 * time.Second)
	check.Must(t, more(lease, Costs{"tpm": 300}))
	check.Must(t, lease.Commit(t.Context()))
	tell("adjust tpm=+300, commit", "settled, into debt")
	acquire(Costs{"rpm": 1, "tpm": 100})
	acquire(Costs{"rpm": 1, "tpm": 100})
	w.advance(9999 * time.Millisecond)
	acquire(Costs{"rpm": 1, "tpm": 100})
	w.advance(time.Millisecond)
	acquire(Costs{"rpm": 1, "tpm": 100})

	readme, err := os.ReadFile("../docs/life.md")
	check.Must(t, err)
	if !strings.Contains(string(readme), story.String()) {
		t.Errorf("docs/life.md differs from this story:\n%s", story.String())
	}
}

// levels shows the current levels of the bucket.
func (w *world) levels(l *Limiter) string {
	b, err := table.DecodeShard(w.db.Item(layout.BucketKey(l.NamespaceID(), "acme", "gpt-4", 0)))
	check.Must(w.t, err)
	s := b.State.At(w.now.Load())
	var out []string
	for i, sl := range s.Slots {
		if sl.Name != bucket.WCU {
			out = append(out, fmt.Sprintf("%s %s/%s", sl.Name, bucket.Tokens(sl.Tokens), bucket.Tokens(s.Rate(i).Capacity)))
		}
	}
	return strings.Join(out, "  ")
}
