package streams

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// The lists of an hour are due six minutes after it, including lists dated up to three minutes
// after it. With a fold of ten minutes or more, that is every second hour.
func TestListsAreDueAfterTheirHour(t *testing.T) {
	at := func(clock string) int64 {
		when, err := time.Parse(time.RFC3339, "2023-11-14T"+clock+"Z")
		check.Must(t, err)
		return when.UnixMilli()
	}
	for _, c := range []struct {
		fold      time.Duration
		now, want string
	}{
		{time.Minute, "21:05:59", "20:03:00"}, {time.Minute, "21:06:00", "21:03:00"},
		{10*time.Minute - time.Millisecond, "21:06:00", "21:03:00"},
		{10 * time.Minute, "21:06:00", "20:03:00"}, {10 * time.Minute, "22:05:59", "20:03:00"},
		{10 * time.Minute, "22:06:00", "22:03:00"},
	} {
		l := &tally{tumbling: stream.Tumbling{On: true, Length: c.fold.Milliseconds()}}
		got := time.UnixMilli(l.catchUpUntil(usage.Hourly, at(c.now))).UTC().Format(time.TimeOnly)
		check.Equal(t, got, c.want, "fold %v, at %s", c.fold, c.now)
	}
}

// When one invocation has begun to catch up, others wait a minute. If it died, one of them does the
// work. The list is kept for a week, so it still exists.
func TestDeadCatchUpsAreTakenOver(t *testing.T) {
	r, seen := newRig(t), int64(0)
	for range 2 { // the second continues the day
		r.take("a", 0, 1, 1)
		r.within(&seen, nil, true)
	}
	lists := 0
	for _, it := range r.db.Items() {
		if k := item.KeyOf(it); k.PK == ledger.OwedPK && !strings.HasPrefix(k.SK, "#") {
			lists++
			if ttl, _ := item.Saturated(it[layout.AttrTTL]); ttl != t0/1000+7*86_400 {
				t.Errorf("a list expires at %d", ttl)
			}
		}
	}
	day := func() int64 { return r.usageOf()["ns/ENTITY#a#USAGE#gpt#2023-11-14 rpm"] }
	r.now += 3 * time.Hour.Milliseconds()
	begun := r.now
	r.fails(func(op memdynamo.Op) bool { return op.Name == memdynamo.Query }) // the invocation dies after its claim
	r.within(&seen, nil, true)
	r.db.SetHook(nil)
	for _, c := range []struct {
		after time.Duration
		want  int64
	}{{0, 0}, {59 * time.Second, 0}, {time.Minute, 2}} {
		r.now = begun + c.after.Milliseconds()
		r.within(&seen, nil, true)
		check.Equal(t, day(), c.want, "%v after the claim", c.after)
	}
	check.Equal(t, lists, 1, "lists")
}

// Windows that cannot be summed are owed again, and the log says so. The next invocation sums them.
func TestFailedSumsAreOwedAgain(t *testing.T) {
	r, seen := newRig(t), int64(0)
	log := r.logged()
	for range 2 { // the second continues the day
		r.take("a", 0, 1, 1)
		r.within(&seen, nil, true)
	}
	fails := true
	r.fails(func(op memdynamo.Op) bool {
		ofUsage := func(k item.Key) bool { return strings.HasPrefix(k.SK, "#USAGE#") }
		return fails && slices.ContainsFunc(op.Keys, ofUsage)
	})
	for _, c := range []struct{ day, said int64 }{{0, 1}, {2, 1}} {
		r.now += 3 * time.Hour.Milliseconds()
		r.within(&seen, nil, true)
		day := r.usageOf()["ns/ENTITY#a#USAGE#gpt#2023-11-14 rpm"]
		said := strings.Count(log.String(), `msg="longer windows not summed" owed_again=1 err=`)
		if day != c.day || int64(said) != c.said {
			t.Errorf("fails: %v: the day has %d, want %d; owed anew %d times, want %d", fails, day, c.day, said, c.said)
		}
		fails = false
	}
}

// A clock that was ahead moves or claims the cursor far into the future: the lists created since are
// caught up nevertheless.
func TestAClockThatWasAheadHidesNoLists(t *testing.T) {
	for _, dies := range []bool{false, true} {
		r, seen := newRig(t), int64(0)
		r.take("a", 0, 1, 1)
		r.within(&seen, nil, true)
		r.now += aDayLong
		r.fails(func(op memdynamo.Op) bool { return dies && strings.HasPrefix(op.Query.PK, ledger.OwedPK) })
		r.within(&seen, nil, true)
		r.db.SetHook(nil)
		r.now -= aDayLong
		r.take("a", 0, 1, 1)
		for range 2 {
			r.within(&seen, nil, true)
			r.now += 3 * anHourLong
		}
		check.Equal(t, r.usageOf()["ns/ENTITY#a#USAGE#gpt#2023-11-14 rpm"], 2, "the process dies: %v", dies)
	}
}

// If everything due is caught up, an invocation only reads that.
func TestNothingIsClaimedOnceCaughtUp(t *testing.T) {
	r, seen, claims := newRig(t), int64(0), 0
	r.take("a", 0, 1, 1)
	r.within(&seen, nil, true)
	r.now += 3 * time.Hour.Milliseconds()
	r.watch(func(op memdynamo.Op) {
		for _, w := range op.Writes {
			if w.Target() == ledger.OwedCursorKey() {
				claims++
			}
		}
	})
	for i, want := range []int{2, 2, 2, 4} { // a claim and an advance
		if i == 3 {
			r.now += time.Hour.Milliseconds()
		}
		r.within(&seen, nil, true)
		check.Equal(t, claims, want, "invocation %d: the cursor is written times by now", i+1)
		r.now += 2 * owedClaim.Milliseconds()
	}
}

// A call without an answer ends after five seconds, so that a dead connection does not use up an
// invocation. The same write is sent again, and counts once.
func TestACallWithoutAnAnswerEndsAfterFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.take("a", 0, 1, 1)
		hung := false
		r.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if len(op.Writes) > 0 && !hung {
				hung = true
				<-op.Done
				return false, memdynamo.Fail(store.Unknown)
			}
			return true, nil
		})
		begin := time.Now()
		check.Equal(t, r.handle(r.payload()), done)
		check.Equal(t, r.inexact(), "")
		if took := time.Since(begin); !hung || took < 5*time.Second || took >= 6*time.Second {
			t.Errorf("hung %v, answered after %v", hung, took)
		}
	})
}

// So does a read of the cursor or of the lists, after which the invocation ends. The next one catches up.
func TestCatchUpsWithoutAnAnswerEndAfterFiveSeconds(t *testing.T) {
	for name, hits := range map[string]func(op memdynamo.Op) bool{
		"the cursor": func(op memdynamo.Op) bool { return slices.Contains(op.Keys, ledger.OwedCursorKey()) },
		"the lists":  func(op memdynamo.Op) bool { return op.Query.PK == ledger.OwedPK },
	} {
		synctest.Test(t, func(t *testing.T) {
			r, seen := newRig(t), int64(0)
			r.take("a", 0, 1, 1)
			r.within(&seen, nil, true)
			r.now += 3 * time.Hour.Milliseconds()
			r.db.SetHook(func(op memdynamo.Op) (bool, error) {
				if hits(op) {
					<-op.Done
					return false, memdynamo.Fail(store.Unavailable)
				}
				return true, nil
			})
			begin := time.Now()
			r.within(&seen, nil, true)
			check.Equal(t, time.Since(begin), callTimeout, name)
			r.db.SetHook(nil)
			r.now += 3 * time.Hour.Milliseconds()
			r.within(&seen, nil, true)
			check.Equal(t, r.inexact(), "", name)
		})
	}
}

// If longer windows cannot be caught up, the log says why: the cursor cannot be read, claimed or
// moved, or the lists cannot be read. The next invocation catches up.
func TestFailedCatchUpsAreLogged(t *testing.T) {
	cursor := ledger.OwedCursorKey()
	for name, hits := range map[string]func(op memdynamo.Op) bool{
		"the cursor is not read": func(op memdynamo.Op) bool { return slices.Contains(op.Keys, cursor) },
		"the lists are not read": func(op memdynamo.Op) bool { return op.Query.PK == ledger.OwedPK },
		"the cursor is not moved": func(op memdynamo.Op) bool {
			return target(op) == cursor
		},
	} {
		r, seen := newRig(t), int64(0)
		log := r.logged()
		r.take("a", 0, 1, 1)
		r.within(&seen, nil, true)
		r.now += 3 * time.Hour.Milliseconds()
		r.fails(hits)
		r.within(&seen, nil, true)
		logged := strings.Count(log.String(), `level=WARN msg="longer windows not caught up" err=`)
		check.Equal(t, logged, 1, "%s: times logged in\n%s", name, log)
		r.db.SetHook(nil)
		r.now += 3 * time.Hour.Milliseconds()
		r.within(&seen, nil, true)
		check.Equal(t, r.inexact(), "", name)
	}
}

// A day on several lists is summed once. If nothing is left, nothing is owed again.
func TestADayOnSeveralListsIsSummedOnce(t *testing.T) {
	r, seen := newRig(t), int64(0)
	r.agg.concurrency, r.db.PageSize = 1, 2
	for range 3 { // a list each, on two pages
		r.take("b", 0, 1, 1)
		r.take("a", 0, 1, 1)
		r.within(&seen, nil, true)
		r.now += time.Second.Milliseconds()
	}
	r.now += 3 * time.Hour.Milliseconds()
	read, lists := map[string]int{}, 0
	r.watch(func(op memdynamo.Op) {
		if strings.HasPrefix(op.Query.From, "#USAGE#") {
			read[op.Query.PK]++
		}
		if target(op).PK == ledger.OwedPK && target(op) != ledger.OwedCursorKey() {
			lists++
		}
	})
	r.within(&seen, nil, true)
	r.db.SetHook(nil)
	if read["ns/ENTITY#a"] != 1 || read["ns/ENTITY#b"] != 1 || lists != 0 {
		t.Errorf("hours are read %v times, and %d lists stored", read, lists)
	}
	check.Equal(t, r.inexact(), "")
}
