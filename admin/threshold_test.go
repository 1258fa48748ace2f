package admin

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// Thresholds are listed by resource and by period, of one resource without those of another
// whose name begins like it, and go with the entity.
func TestThresholdsAreListed(t *testing.T) {
	w := newWorld(t)
	end := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	store := func(resource string, end time.Time, percent int) {
		w.db.Store(ledger.Threshold{
			Namespace: w.ns.ID(), Entity: "acme", Resource: resource, Limit: "budget", End: end.UnixMilli(),
			Percent: percent, Spent: 412, Quota: 500, At: "2026-11-20T10:00:00Z", TTL: end.Unix() + 90*86400,
		}.Item())
	}
	store("gpt", end.AddDate(0, 1, 0), 50)
	store("gpt", end, 100)
	store("gpt", end, 80)
	store("gpt#4", end, 50)
	got := collect(t, w.ns.Thresholds(t.Context(), Scope{Entity: "acme", Resource: "gpt"}))
	if len(got) != 3 || got[0].Percent != 80 || got[1].Percent != 100 || got[2].Percent != 50 {
		t.Fatalf("%+v", got)
	}
	want := Threshold{Scope: Scope{"acme", "gpt"}, Limit: "budget", Percent: 80, PeriodEnd: end,
		At: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), Spent: 412, Quota: 500}
	check.Equal(t, got[0], want)
	check.Equal(t, len(collect(t, w.ns.Thresholds(t.Context(), Scope{Entity: "acme"}))), 4, "on all resources")
	check.Must(t, check.Err(w.ns.DeleteEntity(t.Context(), "acme")))
	check.Equal(t, len(collect(t, w.ns.Thresholds(t.Context(), Scope{Entity: "acme"}))), 0, "of a deleted entity")
}
