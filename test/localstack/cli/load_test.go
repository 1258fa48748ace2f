package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A load test admits what the limits allow, tells so in every form, and its report
// is one file that asks for no other.
func TestLoad(t *testing.T) {
	s := onTable(t)
	s.says(2, "load", "what does a request cost?")
	s.says(2, "load --limit rpm=1 --arrivals never", "accepted are poisson, constant, bursts")
	s.says(2, "load --limit rpm=1 --duration 1ms", "want 1s to 24h")
	s.says(2, "load --cost rpm", "like tpm=800")
	s.says(3, "load --duration 1s --rate 5 --cost rpm=1", "no decision", "limits set stores some")

	file := filepath.Join(t.TempDir(), "load.html")
	type result struct {
		Offered, Admitted, Denied, Failed int
		Over                              int64 `json:"tokens_over"`
		Writes                            int64
		Entities                          []struct{ Admitted, Allowed int64 }
		PerSecond                         []struct{ Offered int } `json:"per_second"`
	}
	got := prints[result](s, "load --rate 40 --duration 1s --entities 2 --limit rph=5/h --arrivals constant --report "+
		file)
	if got.Offered != 40 || got.Admitted != 10 || got.Denied != 30 || got.Failed != 0 || got.Over != 0 ||
		got.Writes < 10 ||
		len(got.Entities) != 2 || got.Entities[0].Allowed != 5 || got.PerSecond[0].Offered < 1 {
		t.Errorf("load: %+v", got)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(page), "<svg") != 2 || strings.Count(string(page), "<polyline") != 6 {
		t.Errorf("plots are missing:\n%s", page)
	}
	if other := regexp.MustCompile(`(?i)(src|href)=|url\(|@import|https?:`).Find(page); other != nil {
		t.Errorf("the report asks for more: %s", other)
	}
	s.says(0, "limits set -r api rps=1000/s")
	_, errs := s.run(0, strings.Fields(
		"load -r api --cost rps=1 --duration 3s --rate 20 --processes 2 --progress always")...)
	if !strings.Contains(errs, "of ") || !strings.Contains(errs, "admitted") {
		t.Errorf("no progress is told: %q", errs)
	}
	s.says(0, "peek load-1 api", "rps")
}
