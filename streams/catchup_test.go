package streams

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
)

// Days catch up after each hour, and after each second one where usage is folded for
// long, by one write to each day, over however many pages the lists are spread.
func TestDaysCatchUpLessOftenWhereTheFoldIsLong(t *testing.T) {
	for fold, want := range map[time.Duration]string{time.Minute: "1 1 1 1", 15 * time.Minute: "1 0 1 0"} {
		r := newRig(t)
		r.db.PageSize = 1
		const hour = 3_600_000
		r.now = t0 - t0%(24*hour)
		seen, days := int64(0), 0
		r.db.SetHook(func(op memdb.Op) (bool, error) {
			for _, w := range op.Writes {
				if u, ok := w.(item.Update); ok && isUsage(u) && !strings.HasSuffix(u.Key.SK, "Z") {
					days++
				}
			}
			return true, nil
		})
		var caughtUp []string
		for i := range 5 {
			for range 3 { // folds of the hour
				r.take("a", 0, 1, 1)
				changes := r.since(seen)
				seen = changes[len(changes)-1].Seq
				r.handle(windowedFor(fold, records(changes), nil, true))
				r.now += hour / 3
			}
			before := days
			r.now += 2 * owedGrace.Milliseconds()
			r.handle(windowedFor(fold, nil, nil, true))
			r.now -= 2 * owedGrace.Milliseconds()
			if i > 0 { // the first hour begins the day
				caughtUp = append(caughtUp, string(rune('0'+days-before)))
			}
		}
		if got := strings.Join(caughtUp, " "); got != want {
			t.Errorf("fold %v: days are written %s times after the hours, want %s", fold, got, want)
		}
	}
}
