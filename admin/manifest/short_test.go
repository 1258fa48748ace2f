package manifest

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/limiter"
)

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]limiter.Limit{
		"rpm=600":                          limiter.PerMinute("rpm", 600),
		"rpd=1000@daily":                   limiter.Quota("rpd", 1000, limiter.Daily("")),
		"budget=$12.50@monthly Asia/Tokyo": limiter.Quota("budget", 12_500_000, limiter.Monthly(1, "Asia/Tokyo")),
		"s=5@5h after first use":           limiter.Quota("s", 5, limiter.FromFirstUse(5*time.Hour)),
		"rpm=600/m":                        limiter.PerMinute("rpm", 600),
		"tpm=40000/m:80000":                limiter.PerMinute("tpm", 40000).WithCapacity(80000),
		"tpm=5:10":                         limiter.PerMinute("tpm", 5).WithCapacity(10),
		"images=50/d":                      limiter.PerDay("images", 50),
		"x=1/90s":                          {Name: "x", Capacity: 1, Refill: 1, Period: 90 * time.Second},
		"x=1/30d":                          {Name: "x", Capacity: 1, Refill: 1, Period: 720 * time.Hour},
		"rpm=600/m:900+soft":               limiter.PerMinute("rpm", 600).WithCapacity(900).AsSoft(),
		"jobs=20@in-flight/2m":             limiter.InFlight("jobs", 20, 2*time.Minute),
		"jobs=20@in-flight/m":              limiter.InFlight("jobs", 20, time.Minute),
		"rpd=1000@daily+soft":              limiter.Quota("rpd", 1000, limiter.Daily("")).AsSoft(),
		"rpm=60+floors:free=60,batch=40":   limiter.PerMinute("rpm", 60).WithFloor("batch", 40).WithFloor("free", 60),
		"rpm=60+floors:batch=40+soft":      limiter.PerMinute("rpm", 60).WithFloor("batch", 40).AsSoft(),
		"jobs=20@in-flight/m+floors:a=5":   limiter.InFlight("jobs", 20, time.Minute).WithFloor("a", 5),
		"rps=5/s+ahead:500ms":              limiter.PerSecond("rps", 5).WithAhead(500 * time.Millisecond),
		"rpm=60+ahead:1s+floors:a=5":       limiter.PerMinute("rpm", 60).WithAhead(time.Second).WithFloor("a", 5),
		"rpm=60+floors:a=5+ahead:1s":       limiter.PerMinute("rpm", 60).WithAhead(time.Second).WithFloor("a", 5),
		"x=blocked":                        limiter.Blocked("x"),
		"x=unlimited":                      limiter.Unlimited("x"),
	} {
		if got, err := ParseLimit(text); err != nil || got != want {
			t.Errorf("%s is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "rpm", "rpm=", "rpm=x", "rpm=1.5", "=5", "rpm=0", "rpm=-1", "rpm=5/", "rpm=5/x", "rpm=5/0s", "rpm=5/500ms",
		"rpm=5:", "rpm=5:0", "rpm=5/m:x", "rpm=5/99999999999d", "rpm=9223372036854775808", "rpm=5/m/m", "wcu=5",
		"rpm=5+floors:", "rpm=5+floors:batch", "rpm=5+floors:batch=4%", "rpm=5+floors:batch=100", "rpm=x+floors:batch=4",
		"rpm=5+ahead:", "rpm=5+ahead:5", "rpm=5+ahead:1ms", "rpm=5+ahead:1h", "rpm=5+ahead:1s+soft", "rpd=5@daily+ahead:1s",
		"rpm=x+ahead:1s",
	} {
		if got, err := ParseLimit(text); err == nil {
			t.Errorf("%q is accepted: %v", text, got)
		}
	}
}
