package admin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// meanwhile lets somebody else do something once, just before the first transaction that writes an
// item.
func (w *world) meanwhile(k item.Key, do func()) {
	w.db.SetHook(func(op memdynamo.Op) (bool, error) {
		writes := func(x item.Write) bool { return x.Target() == k }
		if op.Name == memdynamo.TransactWriteItems && slices.ContainsFunc(op.Writes, writes) {
			w.db.SetHook(nil)
			do()
		}
		return true, nil
	})
}

// And so it is at a scope of more attributes than one condition compares.
func TestALargeScopeIsChangedMeanwhile(t *testing.T) {
	w := newWorld(t)
	at := Scope{Resource: "gpt-4"}
	var many, fewer []limiter.Limit
	for i := range limiter.MaxLimits {
		l := limiter.PerMinute(fmt.Sprintf("limit-%02d", i), 10).WithFloor("batch", 40).WithAhead(time.Second)
		many, fewer = append(many, l), append(fewer, l.WithFloor("batch", 50))
	}
	w.set(at, many...)
	if n := len(w.db.Item(w.ns.config(at).Key())); n <= maxCompared {
		t.Fatalf("%d attributes only", n)
	}
	w.meanwhile(w.ns.config(at).Key(), func() { w.set(at, fewer...) })
	err := w.ns.ChangeLimits(t.Context(), Config{Scope: at, Limits: many}, rpm10)
	w.wants(err, ErrBusy)
	c, err := w.ns.Config(t.Context(), at)
	if w.must(err); !slices.Equal(c.Limits, fewer) {
		t.Errorf("stored %v", c.Limits)
	}
}
