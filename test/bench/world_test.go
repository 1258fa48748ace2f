package bench

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Measurements do not span the end of an hour.
func TestMeasuresBetweenHours(t *testing.T) {
	hour := time.Date(2026, 11, 24, 1, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]time.Duration{
		0:                            12 * time.Second,
		11 * time.Second:             time.Second,
		12 * time.Second:             0,
		30 * time.Minute:             0,
		58 * time.Minute:             0,
		58*time.Minute + time.Second: 2*time.Minute - time.Second + 12*time.Second,
		time.Hour - time.Second:      13 * time.Second,
	} {
		check.Equal(t, untilMidHour(hour.Add(after)), want, "%v after the hour: waits", after)
	}
}
