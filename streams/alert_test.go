package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// alerts receives alerts.
type alerts struct {
	mu    sync.Mutex
	sent  []Alert
	calls int
	fails func(call int) (sent bool, err error) // nil: never
}

func (a *alerts) send(ctx context.Context, x Alert) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := ctx.Deadline(); !ok {
		return errors.New("bug: the call has no end")
	}
	sent, err := true, error(nil)
	if a.calls++; a.fails != nil {
		sent, err = a.fails(a.calls)
	}
	if sent {
		a.sent = append(a.sent, x)
	}
	return errors.Join(err, ctx.Err())
}

// of returns the alerts for a threshold.
func (a *alerts) of(t ledger.Threshold) (out []Alert) {
	for _, x := range a.sent {
		if x.Limit == t.Limit && x.Percent == t.Percent && x.ResetsAt.UnixMilli() == t.End {
			out = append(out, x)
		}
	}
	return out
}

// spentHalf returns a rig with a bucket whose budget is half spent, the batch that shows it, and
// the same batch again.
func spentHalf(t *testing.T) (r *rig, to *alerts, payload []byte, again string) {
	r, to = newRig(t), &alerts{}
	r.agg.alert, r.agg.table = to.send, "limits"
	r.db.Store(spentShard(0, 1, 20_000).Item())
	changes := r.since(0)
	return r, to, payloadOf(changes), resumeAt(changes[0].SequenceNumber())
}

// An alert has all the fields of its record, and is sent once even if the batch is repeated.
func TestAlertsMatchTheirRecord(t *testing.T) {
	r, to, payload, _ := spentHalf(t)
	for range 2 {
		check.MustEqual(t, r.handle(payload), done)
	}
	want := Alert{Table: "limits", Namespace: "ns", Entity: "e", Resource: "gpt", Limit: "budget",
		Percent: 50, Spent: 20, Quota: 40, ResetsAt: time.UnixMilli(r.thresholds()[0].End).UTC()}
	if len(to.sent) != 1 || len(to.sent[0].ID) != 32 {
		t.Fatalf("sent %+v", to.sent)
	}
	want.ID = to.sent[0].ID
	check.Equal(t, to.sent[0], want, "sent")
}

// Sending the alert or writing its record may fail, with or without effect. The batch is repeated,
// usage is counted once, and every repetition has the same id.
func TestAlertsArriveAtLeastOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		alert  func(int) (bool, error)
		record func(memdynamo.Op) (bool, error)
		first  bool // another aggregator writes a record first, with one token more; it stays
		again  bool // the batch is repeated
		sent   int
	}{
		{"nothing fails", nil, nil, false, false, 1},
		{"another was first", nil, nil, true, false, 1},
		{"not sent", func(n int) (bool, error) { return n > 1, map[bool]error{true: errDown}[n == 1] }, nil, false, true, 1},
		{"sent, answer lost", func(n int) (bool, error) { return true, map[bool]error{true: errDown}[n == 1] }, nil,
			false, true, 2},
		{"record not written", nil, failing(false, store.Unavailable), false, true, 2},
		{"record written, answer lost", nil, failing(true, store.Unknown), false, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, to, payload, again := spentHalf(t)
			to.fails = c.alert
			met, spent := false, int64(20)
			r.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
				if met || !strings.HasPrefix(target(op).SK, "#QUOTA#") {
					return true, nil
				}
				if met = true; c.first {
					spent = 21
					u := op.Writes[0].(item.Update)
					u.Set = slices.Clone(u.Set)
					u.Set[slices.IndexFunc(u.Set, func(a item.Attr) bool { return a.Name == "spent" })].Value = item.N(spent)
					_, err := r.db.Bare().Write(t.Context(), u)
					return true, err
				}
				if c.record == nil {
					return true, nil
				}
				return c.record(op)
			})
			want := map[bool]string{true: again, false: done}[c.again]
			check.Equal(t, r.handle(payload), want, "response")
			check.Equal(t, r.handle(payload), done, "second response")
			if told := r.thresholds(); len(to.sent) != c.sent || len(told) != 1 || told[0].Spent != spent {
				t.Errorf("sent %+v, recorded %+v", to.sent, told)
			}
			for _, a := range to.sent {
				check.Equal(t, a.ID, to.sent[0].ID, "sent again as")
			}
			for _, part := range []string{anHour, aDay} {
				check.Equal(t, r.snapshot("e", part).Counts["budget"], 20, part)
			}
		})
	}
}

// While the record of the reached threshold or a lower one cannot be read, nothing is sent, and the
// batch is repeated.
func TestUnreadableRecordsDelayAlerts(t *testing.T) {
	for read := range 2 {
		r, to, payload, again := spentHalf(t)
		r.agg.conf.Percents = map[string][]int{"": {25, 50}}
		reads := 0
		r.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
			if len(op.Keys) > 0 && strings.HasPrefix(op.Keys[0].SK, "#QUOTA#") {
				if reads++; reads > read {
					return false, memdynamo.Fail(store.Unavailable)
				}
			}
			return true, nil
		})
		check.Equal(t, r.handle(payload), again, "read %d fails", read+1)
		if len(to.sent) != 0 || reads == 0 {
			t.Errorf("read %d fails, and %+v is sent", read+1, to.sent)
		}
		r.db.SetHook(nil)
		check.Equal(t, r.handle(payload), done, "second response")
		check.Equal(t, len(to.sent), 2, "sent")
		check.Equal(t, len(r.thresholds()), 2, "recorded")
	}
}

// An alert that its target refuses permanently does not block the stream: the batch is done. The
// first use in another hour of the period tries once more.
func TestRefusedAlertsDoNotBlockTheStream(t *testing.T) {
	r, to, payload, _ := spentHalf(t)
	to.fails = func(n int) (bool, error) {
		return n > 1, map[bool]error{true: fmt.Errorf("no such topic: %w", ErrAlertRefused)}[n == 1]
	}
	check.Equal(t, r.handle(payload), done)
	check.Equal(t, len(r.thresholds()), 0, "recorded")
	r.wants(r.metrics.String(), `"WritesFailed":1`)
	seen := len(r.since(0))
	r.now += 3_600_000
	b := spentShard(0, 1, 20_000)
	b.State = b.State.At(r.now).Take([]int64{1_000, 1000})
	r.db.Store(b.Item())
	check.Equal(t, r.handle(payloadOf(r.since(0)[seen:])), done, "an hour later")
	if len(to.sent) != 1 || len(r.thresholds()) != 1 || to.sent[0].Percent != 50 {
		t.Errorf("sent %+v, recorded %+v", to.sent, r.thresholds())
	}
}

// Configured percentages are used in any order. Invalid ones are refused with their name.
func TestConfiguredThresholdsAreUsed(t *testing.T) {
	o := Options{DynamoDB: dynamodb.New(dynamodb.Options{}), Table: "t"}
	for _, c := range []struct {
		given, want map[string][]int
		err         string
	}{
		{nil, map[string][]int{"": {50, 80, 100}}, ""},
		{map[string][]int{"budget": {100, 1}}, map[string][]int{"budget": {1, 100}}, ""},
		{map[string][]int{"budget": {0}}, nil, `streams: Thresholds["budget"]=[0]: want percents from 1 to 100, each at most once`},
		{map[string][]int{"": {101}}, nil, `streams: Thresholds[""]=[101]: want percents`},
		{map[string][]int{"": {5, 5}}, nil, `streams: Thresholds[""]=[5 5]: want percents`},
	} {
		o.Thresholds = c.given
		a, err := New(o)
		check.Says(t, err, c.err, "%v", c.given)
		if err == nil {
			check.Deep(t, a.conf.Percents, c.want, "%v", c.given)
		}
	}
}

// A quota whose period ends outside the years that JSON can express is not reported, so it does not
// block the stream.
func TestPeriodsWithoutEndAreNotReported(t *testing.T) {
	for year, reported := range map[int]int{9999: 1, 10_000: 0, -1: 0} {
		r := newRig(t)
		r.agg.alert = func(_ context.Context, a Alert) error { return check.Err(json.Marshal(a)) }
		l := bucket.Limit{Name: "budget", Capacity: 40_000, Period: bucket.QuotaPeriod, Reset: "+7200000"}
		b := budgetShard(0, 1)
		b.State = bucket.New([]bucket.Limit{l}, 0, 1, t0)
		b.State = b.State.Take([]int64{20_000, 1000})
		b.State.Slots[0].End = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
		r.db.Store(b.Item())
		check.Equal(t, r.handle(r.payload()), done, "%d", year)
		check.Equal(t, len(r.thresholds()), reported, "%d: reported", year)
	}
}
