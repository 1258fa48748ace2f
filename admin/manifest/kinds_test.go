package manifest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

func TestQuotasInManifests(t *testing.T) {
	for text, want := range map[string]limiter.Limit{
		"{amount: '5', reset: monthly Asia/Tokyo}":     limiter.Quota("q", 5, limiter.Monthly(1, "Asia/Tokyo")),
		"{capacity: 10, reset: '0 0 L * *'}":           limiter.Quota("q", 10, limiter.Monthly(31, "")),
		"{capacity: 10, soft: true}":                   limiter.PerMinute("q", 10).AsSoft(),
		"{capacity: 10, soft: true, reset: daily}":     limiter.Quota("q", 10, limiter.Daily("")).AsSoft(),
		"{in_flight: 20, epoch_seconds: 120}":          limiter.InFlight("q", 20, 2*time.Minute),
		"{capacity: 10, floors: {f: 60, b: 40}}":       limiter.PerMinute("q", 10).WithFloor("b", 40).WithFloor("f", 60),
		"{capacity: 10, floors: {b: 4}, reset: daily}": limiter.Quota("q", 10, limiter.Daily("")).WithFloor("b", 4),
		"{capacity: 10, schedule: }":                   limiter.PerMinute("q", 10),
		"{capacity: 10, schedule: [{cron: '* 9-16 * * MON-FRI', tz: Asia/Tokyo, capacity: 5}]}": limiter.PerMinute("q", 10).
			During("* 9-16 * * 1-5", "Asia/Tokyo", limiter.Limit{Capacity: 5}),
		"{capacity: 10, soft: on, schedule: [{cron: '* * 1 * *', refill_period_seconds: 9, refill_amount: 3}, " +
			"{cron: '* * * * *', capacity: 2}]}": limiter.PerMinute("q", 10).AsSoft().
			During("* * 1 * *", "", limiter.Limit{Refill: 3, Period: 9 * time.Second}).
			During("* * * * *", "UTC", limiter.Limit{Capacity: 2}),
		"{capacity: 10, schedule: [{cron: '* * * * *', scale: 0.0015}]}": scheduled("s2@UTC"), // as Python rounds
		"{capacity: 10, schedule: [{cron: '* * * * *', scale: 0.0025}]}": scheduled("s2@UTC"),
		"{capacity: 10, schedule: [{cron: '* * * * *', scale: 1e-9}]}":   scheduled("s1@UTC"),
		"{capacity: 10, schedule: [{cron: '* * * * *', scale: 2}]}":      scheduled("s2000@UTC"),
		"{capacity: 10, ahead_milliseconds: 500}":                        scheduled("").WithAhead(500 * time.Millisecond),
		"{capacity: 10, reset_after_seconds: 18000}": limiter.Quota("q", 10,
			limiter.FromFirstUse(5*time.Hour)),
		"{capacity: 10, refill_amount: 0, reset_schedule: [{cron: 0 0 * * *, tz: Europe/Berlin}]}": limiter.Quota("q", 10,
			limiter.Daily("Europe/Berlin")),
		"{capacity: 9, reset_schedule: [{cron: 0 6 * * 1}, {cron: 0 7 * * 2}, {cron: 0 8 * * 3}]}": limiter.Quota("q", 9,
			limiter.Cron("0 6 * * 1;0 7 * * 2;0 8 * * 3", "")),
		"{capacity: 10, refill_period: 316224000}": {Name: "q", Capacity: 10, Refill: 10, Period: 3660 * 24 * time.Hour},
		"{capacity: 9, reset_schedule: [{cron: 0 6 * * 1-5}, {cron: 0 8 * * 6}]}": limiter.Quota("q", 9,
			limiter.Cron("0 6 * * 1-5;0 8 * * 6", "")),
	} {
		m, err := Parse([]byte("namespace: n\nsystem:\n  limits:\n    q: " + text + "\n"))
		if err != nil || len(m.Scopes) != 1 || len(m.Scopes[0].Limits) != 1 || m.Scopes[0].Limits[0] != want {
			t.Errorf("%s: %v, %v, want %v", text, m.Scopes, err, want)
		}
	}
	const (
		ways    = "wants one of reset, reset_schedule and reset_after_seconds"
		one     = "resets, and so has either a capacity or an amount"
		none    = "resets, and so has no refill_amount, refill_period nor burst"
		slots   = "wants in_flight and epoch_seconds, and nothing else"
		zones   = `has a reset_schedule with the time zones "A" and "B", want one`
		amount  = `has an amount: limiter: invalid: amount is "$5.1234567", want`
		seconds = " seconds, want 1 to 316224000"
		reset   = `has a reset: limiter: invalid: calendar "sometimes": `
		other   = "wants either a scale, or some of capacity, refill_amount and refill_period_seconds"
	)
	for text, want := range map[string]string{
		"{amount: $5.1234567, reset: daily}":                                    amount,
		"{amount: $5, reset: daily}":                                            `the name "q" counts no dollars`,
		"{amount: 5}":                                                           ways,
		"{capacity: 5, amount: 5, reset: daily}":                                one,
		"{capacity: 5, reset: daily, reset_after_seconds: 5}":                   ways,
		"{capacity: 5, reset: daily, refill_amount: 5}":                         none,
		"{capacity: 5, reset: daily, refill_period: 60}":                        none,
		"{capacity: 5, reset: daily, burst: 5}":                                 none,
		"{capacity: 5, reset_after_seconds: 5, reset_schedule: [{}]}":           ways,
		"{amount: x, reset: daily}":                                             `has an amount: limiter: invalid: amount is "x`,
		"{in_flight: 2, epoch_seconds: 30, refill_amount: 2}":                   slots,
		"{in_flight: 2, epoch_seconds: 30, refill_period: 2}":                   slots,
		"{in_flight: 2, epoch_seconds: 30, burst: 2}":                           slots,
		"{in_flight: 2, epoch_seconds: 30, amount: 2}":                          slots,
		"{capacity: 5, reset: sometimes}":                                       reset,
		"{capacity: 5, reset: daily Mars/Olympus}":                              "Mars/Olympus",
		"{capacity: 5, reset_schedule: [{cron: 0 0 30 2 *}]}":                   "never comes",
		"{capacity: 5, reset_schedule: []}":                                     ways,
		"{capacity: 5, reset_after_seconds: 0}":                                 "+0",
		`{capacity: 5, floors: {"b=1,c": 10}}`:                                  "b=1,c",
		"{capacity: 5, floors: {batch: 100}}":                                   "batch=100",
		"{capacity: 5, floors: {batch: -9}}":                                    "batch=-1",
		"{capacity: 5, floors: {a b: 10}}":                                      "a b=10",
		"{capacity: 5, floors: {batch: 99999999999}}":                           "batch=100",
		"{capacity: 5, ahead_milliseconds: 9}":                                  "Ahead is 9ms",
		"{capacity: 5, ahead_milliseconds: -50}":                                "Ahead is -1ms",
		"{capacity: 5, ahead_milliseconds: 5000000000000000}":                   "10ms to 10m",
		"{capacity: 5, ahead_milliseconds: 50, soft: true}":                     "not soft",
		"{capacity: 5, ahead_milliseconds: 50, reset: daily}":                   "for a rate",
		"{in_flight: 20}":                                                       "epoch_seconds",
		"{epoch_seconds: 20}":                                                   "in_flight",
		"{in_flight: 20, epoch_seconds: 3}":                                     "Period is 3s",
		"{in_flight: 20, epoch_seconds: 30, soft: true}":                        slots,
		"{in_flight: 2, epoch_seconds: 30, capacity: 2}":                        slots,
		"{in_flight: 2, epoch_seconds: 30, reset: monthly}":                     slots,
		"{capacity: 0, reset: daily}":                                           "Capacity",
		"{capacity: 5, reset_schedule: [{cron: x, tz: A}, {cron: y, tz: B}]}":   zones,
		"{in_flight: 2, epoch_seconds: 9223372036854775807}":                    "Period is 1193046h28m16s",
		"{in_flight: 2, epoch_seconds: -9}":                                     "Period is 0s",
		"{capacity: 5, reset_after_seconds: 9223372036854775807}":               `"+4294967296"`,
		"{capacity: 5, reset_after_seconds: -9}":                                `"+-1"`,
		"{capacity: 5, refill_period: 9223372037}":                              "refill_period of 9223372037" + seconds,
		"{capacity: 5, refill_period: 9223372036}":                              "refill_period of 9223372036" + seconds,
		"{capacity: 5, refill_period: 316224001}":                               "refill_period of 316224001" + seconds,
		"{capacity: 5, refill_period: 3153600000}":                              "refill_period of 3153600000" + seconds,
		"{capacity: 5, refill_period: 0}":                                       "refill_period of 0" + seconds,
		"{capacity: 5, refill_period: -1}":                                      "refill_period of -1" + seconds,
		"{capacity: 0}":                                                         "Capacity is 0, want",
		"{capacity: 5, refill_amount: 0}":                                       "Refill is 0, want",
		"{capacity: 5, schedule: [{cron: '* * * * *'}]}":                        "has a schedule whose window 1 " + other,
		"{capacity: 5, schedule: [{cron: '* * * * *', scale: 2, capacity: 2}]}": other,
		"{capacity: 5, schedule: [{cron: '* * * * *', capacity: 0}]}":           "has a capacity of 0, want 1 to",
		"{capacity: 5, schedule: [{cron: '* * * * *', refill_amount: -1}]}":     "has a refill_amount of -1, want 1 to",
		"{capacity: 5, schedule: [{cron: '* * * * *', scale: 2}, " +
			"{cron: '* 9 * * *', tz: Asia/Tokyo, scale: 2}]}": "window 2 " +
			`is in the time zone "Asia/Tokyo", and the first in "UTC", want one`,
		"{capacity: 5, schedule: [{cron: '* 25 * * *', scale: 2}]}":                        `has the cron expression "* 25 * * *": `,
		"{capacity: 5, schedule: [{cron: '* * 30 2 *', scale: 2}]}":                        "never comes",
		"{capacity: 5, schedule: [{scale: 2}]}":                                            "want five fields",
		"{capacity: 5, schedule: [{cron: '* * * * *', scale: 2, tz: Mars/X}]}":             "Mars/X",
		"{capacity: 5, schedule: [{cron: '* * * * *', refill_period_seconds: 316224001}]}": "in each window",
		"{capacity: 1000000000000000, schedule: [{cron: '* * * * *', scale: 2}]}":          "in each window",
		"{capacity: 5, reset: daily, schedule: [{cron: '* * * * *', scale: 2}]}":           "only a rate has a schedule",
		"{in_flight: 2, epoch_seconds: 30, schedule: [{cron: '* * * * *', scale: 2}]}":     "only a rate has a schedule",
		"{soft: true}": "has no capacity",
	} {
		_, err := Parse([]byte("namespace: n\nsystem:\n  limits:\n    q: " + text + "\n"))
		if !errors.Is(err, limiter.ErrInvalid) || !strings.HasPrefix(err.Error(),
			"manifest: line 4: system: limiter: invalid: ") ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `imit "q" `) {
			t.Errorf("%s: %v\ndoes not say %s", text, err, want)
		}
	}
}

func scheduled(form string) limiter.Limit {
	l := limiter.PerMinute("q", 10)
	l.Schedule = form
	return l
}
