package manifest

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// window is an entry of a schedule.
type window struct {
	Cron     string  `yaml:"cron"`
	TZ       string  `yaml:"tz"` // empty: UTC
	Scale    *factor `yaml:"scale"`
	Capacity *int64  `yaml:"capacity"`
	Amount   *int64  `yaml:"refill_amount"`
	Period   *int64  `yaml:"refill_period_seconds"`
}

// factor is a scale, in thousandths.
type factor int64

// UnmarshalYAML reads a number, which is rounded to thousandths as Python rounds it.
func (f *factor) UnmarshalYAML(node *yaml.Node) error {
	n, err := strconv.ParseFloat(node.Value, 64)
	if tag := node.ShortTag(); tag != "!!int" && tag != "!!float" || err != nil || !(n > 0 && n <= maxScale) {
		return fmt.Errorf("found %q, want a number above 0, up to %d", node.Value, maxScale)
	}
	*f = factor(max(1, math.RoundToEven(n*1000)))
	return nil
}

// maxScale is Python's bound.
const maxScale = 1_000_000

// schedule returns the windows of a limit in the form of [limiter.Limit].
func (l *limit) schedule(name string) (form string, err error) {
	wrong := func(i int, format string, args ...any) (string, error) {
		return "", fmt.Errorf("%w: limit %q has a schedule whose window %d "+format,
			append([]any{limiter.ErrInvalid, name, i + 1}, args...)...)
	}
	var all []string
	zone := cmp.Or(l.Windows[0].TZ, "UTC")
	for i, w := range l.Windows {
		if tz := cmp.Or(w.TZ, "UTC"); tz != zone {
			return wrong(i, "is in the time zone %q, and the first in %q, want one", tz, zone)
		}
		var to calendar.Change
		for _, set := range []struct {
			to   *int64
			n    *int64
			name string
		}{{&to.Capacity, w.Capacity, "capacity"}, {&to.Refill, w.Amount, "refill_amount"},
			{&to.Period, w.Period, "refill_period_seconds"}} {
			if set.n == nil {
				continue
			}
			if *set.to = *set.n; *set.to < 1 || *set.to > limiter.MaxTokens {
				return wrong(i, "has a %s of %d, want 1 to %d", set.name, *set.to, int64(limiter.MaxTokens))
			}
		}
		if (w.Scale != nil) == (to != calendar.Change{}) {
			return wrong(i, "wants either a scale, or some of capacity, refill_amount and refill_period_seconds")
		}
		if w.Scale != nil {
			to.Scale = int64(*w.Scale)
		}
		one, err := calendar.Window(w.Cron, to)
		if err != nil {
			return wrong(i, "has the cron expression %q: %w", w.Cron, err)
		}
		all = append(all, one)
	}
	return strings.Join(all, ";") + "@" + zone, nil
}
