package main

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// A reset of one limit leaves the others as they are.
func TestResetOfOneLimit(t *testing.T) {
	s := newShell(t)
	s.run(0, "limits", "set", "-y", "-r", "gpt-4", "rpm=10/h", "tpm=100/h")
	take := func(costs limiter.Costs) error {
		ask := limiter.Request{Entity: "acme", Resource: "gpt-4", Costs: costs}
		_, err := s.table.Limiter(nil).Acquire(t.Context(), ask)
		return err
	}
	check.Must(t, take(limiter.Costs{"rpm": 9, "tpm": 90}))
	s.run(0, "reset", "-y", "acme", "gpt-4", "rpm")
	check.NoError(t, take(limiter.Costs{"rpm": 10, "tpm": 10}), "10 of 10 after the reset")
	check.Is(t, take(limiter.Costs{"tpm": 1}), limiter.ErrLimited, "1 of 0")
}

// Each limit says where it comes from: the scope at which it is stored, or the bucket itself, whose
// callers brought it.
func TestPeekSaysWhoseLimitsTheyAre(t *testing.T) {
	s := newShell(t)
	s.run(0, "limits", "set", "-y", "-r", "gpt-4", "rpm=10/h")
	s.says(0, "peek acme gpt-4 -o csv", "acme,gpt-4,rpm,10,0,10,0,0s,0,*/gpt-4")
	s.takes(limiter.Request{Entity: "beta", Resource: "images", Costs: limiter.Costs{"mine": 1},
		Limits: []limiter.Limit{limiter.PerHour("mine", 5)}})
	s.says(0, "peek beta images -o csv", "beta,images,mine,4,0,5,1,12m0s,1,bucket")
	s.says(0, "peek beta images -o json", `"limits_from": "bucket"`)
	s.run(0, "limits", "set", "-y", "-e", "beta", "own=3/h")
	s.says(0, "peek beta images -o csv", "beta,images,mine,4,0,5,1,12m0s,1,bucket", "beta,images,own,3,0,3,0,0s,1,beta/*")
}

// Schedules are shown where limits are, and peek says which parameters are in force and for how long; JSON has them
// as manifests do.
func TestSchedulesAreShown(t *testing.T) {
	onAWS(t, &anAWS{there: true, expires: true})
	s, declare, real := furnished(t) // at midnight
	declare("resources:\n  images:\n    limits:\n      rpm:\n        capacity: 60\n        schedule:\n" +
		"          - {cron: '* 0-5,23 * * *', scale: 0.5}\n          - {cron: '* 9 * * *', capacity: 90}\n")
	const note = "rpm: 60 per 1m0s, capacity 60, during * 0-5,23 * * * UTC times 0.5; during * 9 * * * UTC capacity 90"
	plan := real.Replace("plan MANIFEST")
	s.says(3, plan, note)
	s.says(0, real.Replace("apply -y MANIFEST"), note)
	s.says(0, plan)
	s.says(0, "limits list", "* images rpm 60 60 1m0s during * 0-5,23 * * * UTC times 0.5; during * 9")
	s.says(0, "limits get -r images -o json", `"schedule": [ { "cron": "* 0-5,23 * * *", "tz": "UTC", "scale": 0.5 }, `+
		`{ "cron": "* 9 * * *", "tz": "UTC", "capacity": 90 } ]`)
	s.says(0, "peek acme images", "acme images rpm 30 0 30 for 6h0m1s") // a second behind the edge
	s.says(0, "peek acme images -o json", `"capacity": 30`, `"changes_in_seconds": 21601`)
	s.says(0, "status", "served")
	s.says(0, "table check")
}

// What never fills up says so, in words and in JSON.
func TestPeekAtABlockedLimit(t *testing.T) {
	s := newShell(t)
	s.run(0, "limits", "set", "-y", "-r", "gpt-4", "images=blocked")
	s.says(0, "peek acme gpt-4 -o csv", "acme,gpt-4,images,blocked,0,,0,never")
	s.says(0, "peek acme gpt-4 -o json", `"full_in_seconds": null`)
}
