package manifest

import (
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// quota is what a limit has that is a quota; all but amount and reset are the words of the
// Python provisioner.
type quota struct {
	Tokens   *string `yaml:"amount"` // instead of capacity: may be dollars
	Reset    *string `yaml:"reset"`
	Schedule []reset `yaml:"reset_schedule"`
	After    *whole  `yaml:"reset_after_seconds"`
}

type reset struct {
	Cron string `yaml:"cron"`
	TZ   string `yaml:"tz"`
}

func (q quota) resets() bool {
	return q.Tokens != nil || q.Reset != nil || q.Schedule != nil || q.After != nil
}

// quotaOf returns the quota that a limit declares.
func (l *limit) quotaOf(name string) (limiter.Limit, error) {
	wrong := func(format string, args ...any) (limiter.Limit, error) {
		return limiter.Limit{}, fmt.Errorf("%w: limit %q "+format, append([]any{limiter.ErrInvalid, name}, args...)...)
	}
	if l.Amount != nil && *l.Amount != 0 || l.Period != nil || l.Burst != nil {
		return wrong("resets, and so has no refill_amount, refill_period nor burst")
	}
	if (l.Capacity == nil) == (l.Tokens == nil) {
		return wrong("resets, and so has either a capacity or an amount")
	}
	var n int64
	var err error
	if l.Capacity != nil {
		n = int64(*l.Capacity)
	} else if n, err = limiter.ParseAmount(*l.Tokens); err != nil {
		return wrong("has an amount: %w", err)
	}
	at, ways := limiter.Calendar(""), 0
	if l.Reset != nil {
		ways++
		if at, err = limiter.ParseCalendar(*l.Reset); err != nil {
			return wrong("has a reset: %w", err)
		}
	}
	if l.After != nil {
		ways++
		at = limiter.FromFirstUse(time.Duration(min(max(*l.After, -1), 1<<32)) * time.Second)
	}
	if l.Schedule != nil {
		ways++
		var crons []string
		for _, r := range l.Schedule {
			if crons = append(crons, r.Cron); r.TZ != l.Schedule[0].TZ {
				return wrong("has a reset_schedule with the time zones %q and %q, want one", l.Schedule[0].TZ, r.TZ)
			}
		}
		if len(crons) > 0 {
			at = limiter.Cron(strings.Join(crons, ";"), l.Schedule[0].TZ)
		}
	}
	if ways != 1 || at == "" {
		return wrong("wants one of reset, reset_schedule and reset_after_seconds")
	}
	out := limiter.Quota(name, n, at)
	out.Soft = l.Soft
	return out, out.Validate()
}
