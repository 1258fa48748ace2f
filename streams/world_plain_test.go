package streams

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck/loadchecktest"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// kind is worlds of so many steps. setup says how they differ from the usual one, plants what can be planted.
func kind(t *testing.T, steps, worlds int, setup func(*world),
	plants map[string]func(*world)) loadchecktest.Kind[*world] {
	return loadchecktest.Kind[*world]{Steps: steps, Worlds: worlds, Short: (2*worlds + 4) / 5,
		New: func(seed uint64, planted string) *world {
			w := newWorld(t, seed)
			if setup(w); plants[planted] != nil {
				plants[planted](w)
			}
			return w
		}}
}

// plainly are worlds without tumbling windows, in which the process dies, too.
func plainly(w *world) {
	w.plain, w.crashes, w.trouble, w.oneIn, w.busy = true, true, true, 40, store.Conflict
	w.agg.conf.Windows = w.agg.conf.Windows[:2]
	w.agg.concurrency = 1 + w.IntN(4)
	w.split(3)
}

// I5: the sum of the snapshots is the growth of the counters, per window, under
// duplicates, lost answers, refusals, half-failed batches and crashes.
func TestUsageIsExactUnderTrouble(t *testing.T) {
	k := kind(t, 150, 30, plainly, nil)
	k.Short, k.Least = 0, map[string]float64{"windows": 34, "resumed": 3.4, "crashed": 1.7, "duplicates": 3.4}
	k.Keeps(t)
}

// I5: whatever write the process dies at, before or after it took effect.
func TestUsageIsExactAfterACrashAtEveryWrite(t *testing.T) {
	crashes := 0
	for _, applied := range []bool{false, true} {
		for at := 1; ; at++ {
			r := newRig(t)
			r.agg.concurrency, r.agg.log = 1, slog.New(slog.DiscardHandler)
			r.agg.conf.Windows = append(r.agg.conf.Windows, usage.Monthly)
			for i := range 24 {
				r.take(string(rune('a'+i%6)), i%2, int64(i), 100)
				r.now += 400_000
			}
			payload := streamtest.PayloadOf(records(r.since(0))...)
			calls := 0
			r.db.SetHook(func(memdynamo.Op) (bool, error) {
				calls++
				if calls < at {
					return true, nil
				}
				return calls == at && applied, memdynamo.Fail(store.Unavailable)
			})
			r.handle(payload) // nobody learns of the response
			r.db.SetHook(nil)
			check.MustEqual(t, r.handle(payload), done, "after a crash at write %d", at)
			check.MustEqual(t, r.inexact(), "", "after a crash at write %d (applied: %v)", at, applied)
			if calls < at {
				break
			}
			crashes++
		}
	}
	t.Logf("usage: diff=0 after each of %d crashes", crashes)
	if crashes < 40 {
		t.Errorf("only %d crashes", crashes)
	}
}

// planted is a store with a weakness of the register put back in.
type planted struct {
	store.Lister
	change func(item.Update) item.Update
}

func (p planted) Write(ctx context.Context, w item.Write) (item.Item, error) {
	if u, ok := w.(item.Update); ok {
		w = p.change(u)
	}
	return p.Lister.Write(ctx, w)
}

func isUsage(u item.Update) bool { return strings.HasPrefix(u.Key.SK, "#USAGE#") }

// The suite above must notice when a weakness comes back.
func TestPlantedDefectsAreCaught(t *testing.T) {
	plants := map[string]func(*world){
		"W9 the day and its first hour share a key": stores(func(_ *world, u *item.Update) {
			if isUsage(*u) && len(u.Key.SK) == len("#USAGE#gpt#2006-01-02") {
				u.Key.SK += "T00:00:00Z"
			}
		}),
		"W15 the first consumption is ignored": func(w *world) {
			w.deliver = func(recs []json.RawMessage) (out []json.RawMessage) {
				for _, r := range recs {
					if !strings.Contains(string(r), `"eventName":"INSERT"`) {
						out = append(out, r)
					}
				}
				return out
			}
		},
		"W18 usage is added blindly": blindly,
	}
	kind(t, 150, 0, plainly, plants).Sees(t, 5, 1, slices.Sorted(maps.Keys(plants))...)
}

// stores plants a change of what the aggregator writes.
func stores(change func(*world, *item.Update)) func(*world) {
	return func(w *world) {
		w.agg.store = planted{w.db, func(u item.Update) item.Update { change(w, &u); return u }}
	}
}

// blindly writes usage without a condition.
var blindly = stores(func(_ *world, u *item.Update) {
	if isUsage(*u) {
		u.If = nil
	}
})
