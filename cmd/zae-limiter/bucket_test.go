package main

import (
	"testing"
)

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
