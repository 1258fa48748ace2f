package limiter

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestBlockedLimitsDeny: whoever takes from a blocked limit is denied, at whatever
// cost and whether the limit is stored or the call's own, without a call and
// without a bucket; whoever does not is not.
func TestBlockedLimitsDeny(t *testing.T) {
	for _, own := range [][]Limit{nil, {Blocked("rpm"), PerMinute("tpm", 10)}} {
		w, l := newProcess(t, Options{OnUnavailable: PolicyAllow})
		w.configure(l, "", "", Blocked("rpm"), PerMinute("tpm", 10))
		before := w.db.Snapshot()
		for _, cost := range []int64{1, 2, MaxTokens} {
			_, err := l.Acquire(t.Context(),
				Request{Entity: acme, Resource: gpt, Limits: own, Costs: Costs{"rpm": cost, "tpm": 1}})
			denied, ok := errors.AsType[*LimitError](err)
			if !ok || denied.Limit != "rpm" || denied.Wanted != cost || denied.Remaining != 0 ||
				denied.RetryAfter < 3650*24*time.Hour || denied.RetryAfter > maxPeriod {
				t.Fatalf("cost %d: %v", cost, err)
			}
			if !denied.Never() || !strings.HasSuffix(denied.Error(), " wanted, 0 left, never granted") {
				t.Errorf("cost %d: never is %v, in %v", cost, denied.Never(), denied)
			}
			s := denied.Statuses
			if len(s) != 2 || s[0].RetryAfter != -1 || s[0].Remaining != 0 || s[0].RefillAfter != blockedPeriod ||
				s[0].ResetAfter != blockedPeriod || s[1].Remaining != 10 || s[1].RetryAfter != 0 {
				t.Errorf("statuses %+v", s)
			}
		}
		w.sameTable(before)
		for _, costs := range []Costs{{"tpm": 1}, {"rpm": 0, "tpm": 1}} {
			if _, err := l.Acquire(t.Context(), Request{Entity: acme, Resource: gpt, Limits: own, Costs: costs}); err != nil {
				t.Errorf("taking nothing from it: %v", err)
			}
		}
	}
}

// A log says of a denial how long to wait, or that no wait helps.
func TestEventsSayNeverInWords(t *testing.T) {
	for denied, want := range map[*LimitError]string{
		{RetryAfter: time.Second}: "retry_after=1s", {RetryAfter: longestWait}: "never=true",
		{RetryAfter: blockedPeriod, Statuses: []Status{{RetryAfter: -1}}}: "never=true",
	} {
		got := (Event{Kind: EventAcquire, Err: denied}).LogValue().Group()
		if last := got[len(got)-1].String(); last != want {
			t.Errorf("%v: ends with %s, want %s", denied, last, want)
		}
	}
}

// TestUnlimitedLimitsCount: any cost is granted, as often as asked, and counted.
func TestUnlimitedLimitsCount(t *testing.T) {
	w, l := newProcess(t, Options{})
	req := Request{Entity: acme, Resource: gpt, Limits: []Limit{Unlimited("tpm")}, Costs: Costs{"tpm": 1_000_000_000}}
	for range 1000 {
		must(t, l, req)
		w.advance(time.Millisecond)
	}
	if got := w.used(l, "tpm"); got != 1000*1_000_000_000 {
		t.Errorf("%d used", got)
	}
	req.Costs["tpm"] = MaxTokens
	w.advance(time.Second)
	for range 3 {
		must(t, l, req)
		w.advance(time.Second)
	}
}
