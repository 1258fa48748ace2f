package limiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Every message begins with the kind of error and names it once.
func TestMessagesSayTheirKindOnce(t *testing.T) {
	w, l := newProcess(t, Options{})
	acquire := func(req Request) error { _, err := l.Acquire(t.Context(), req); return err }
	errs := map[string]error{}
	w.configure(l, "", "", rpm10)
	for what, capacity := range map[string]item.Value{"stored limit": item.N(0), "stored record": item.S("many")} {
		it := w.db.Item(layout.SystemConfigKey(l.namespace))
		if it["l_rpm_cp"] == nil {
			t.Fatalf("no capacity in %s", itemtest.JSON(it))
		}
		it["l_rpm_cp"] = capacity
		w.db.Store(it)
		l.ForgetConfig()
		errs[what] = acquire(asks(Costs{"rpm": 1}))
	}
	w.configure(l, "", "", rpm10)
	l.ForgetConfig()
	errs["request"] = acquire(Request{})
	errs["too large"] = acquire(asks(Costs{"rpm": 11}, rpm10))
	errs["limited"] = nil
	for errs["limited"] == nil {
		errs["limited"] = acquire(asks(Costs{"rpm": 6}, rpm10))
	}
	lease := must(t, l, asks(Costs{"rpm": 1}, rpm10))
	l.Reserve(t.Context(), asks(Costs{"rpm": 10}, rpm10))
	for queueFull(errs["queue full"]) == nil {
		_, _, errs["queue full"] = l.Reserve(t.Context(), asks(Costs{"rpm": 5}, rpm10))
	}
	for what, full := range map[string]bool{"queue full": true, "limited": false} {
		err := errs[what]
		if !errors.Is(err, ErrLimited) || errors.Is(err, ErrQueueFull) != full || errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if s := errs["queue full"].Error(); !strings.Contains(s, "limit rpm: queue full: 5 wanted") {
		t.Errorf("queue full: %q", s)
	}
	errs["adjust"] = more(lease, Costs{"tpm": 1})
	w.db.SetHook(func(memdynamo.Op) (bool, error) { return false, memdynamo.Fail(store.Unavailable) })
	errs["unavailable"] = lease.Rollback(t.Context())
	_, errs["open"] = open(t.Context(), w.db, &Options{Timeout: ages, Namespace: "other"})
	if s := errs["unavailable"].Error(); strings.Count(s, acme) != 1 {
		t.Errorf("one failed shard is named more than once: %q", s)
	}
	gone := canceled("acquire", acmeGPT, context.Canceled, &store.Failure{Kind: store.Unknown, Op: "UpdateItem"})
	const text = `limiter: canceled by the caller: acquire "acme/gpt-4": limiter: outcome unknown: context canceled`
	check.Equal(t, gone.Error(), text, "canceled")
	for what, err := range errs {
		if err == nil {
			t.Errorf("%s: no error", what)
			continue
		}
		if s := err.Error(); strings.Count(s, "limiter: ") != 1 || !strings.HasPrefix(s, "limiter: ") {
			t.Errorf("%s: %q", what, s)
		}
	}
	for _, what := range []string{"stored limit", "stored record", "request", "adjust"} {
		check.Is(t, errs[what], ErrInvalid, "%s: not invalid", what)
	}
}

// A write that may be applied is unknown, even if the reason is an unreadable bucket. It is
// unreadable only if nothing can have been written.
func TestFailedCallIsUnknownIfItsWriteMayHold(t *testing.T) {
	unread := fmt.Errorf("%w: attribute rf", ErrUnreadable)
	for what, c := range map[string]struct{ err, want, not error }{
		"cannot be read":               {unread, ErrUnreadable, ErrUnknown},
		"cannot be read, not sent":     {&store.Failure{Kind: store.Unavailable, Err: unread}, ErrUnavailable, ErrUnknown},
		"cannot be read, may be taken": {&store.Failure{Kind: store.Unknown, Err: unread}, ErrUnknown, ErrUnavailable},
		"no answer":                    {&store.Failure{Kind: store.Unknown}, ErrUnknown, ErrUnavailable},
	} {
		err, begins := outcome("acquire", acmeGPT, c.err), c.want.Error()+`: acquire "acme/gpt-4"`
		if !errors.Is(err, c.want) || errors.Is(err, c.not) || !strings.HasPrefix(err.Error(), begins) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}
