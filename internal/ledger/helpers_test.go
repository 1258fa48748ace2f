package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
)

const sampleNow = 1_700_000_000_000

func usageSample(window, start, part string) Snapshot {
	return Snapshot{
		Namespace: "aZ09_-aZ09_", Entity: "key-1", Resource: "openai/gpt-4", Window: window, Start: start, Part: part,
		Counts: map[string]int64{"rpm": 12, "tpm": -40, "window": 3}, Events: 13,
		Legend: Legend{Stream: sampleNow / 1000, Limits: []string{"rpm", "tpm", "window"}},
		Marks: map[int]Mark{
			0: {At: PositionOf(sampleNow/1000, "100000000000000000042"),
				Used: []Count{{"rpm", 4_000}, {"tpm", 9_000_000}, {"window", 3}}, Gen: 9},
			3: {At: PositionOf(sampleNow/1000, "100000000000000000007"), Gone: true},
		},
		TTL: sampleNow/1000 + 90*86400,
	}
}

// hour and day are snapshots of a bucket.
var (
	hour = Place{"n", "e", "r", "hourly", "2023-11-14T22:00:00Z", "2023-11-14T22:00:00Z", sampleNow / 1000}
	day  = Place{"n", "e", "r", "daily", "2023-11-14T00:00:00Z", "2023-11-14", sampleNow / 1000}
)

var applied = itemtest.Applied

// summed writes a sum over an item. The sum must be due.
func summed(t *testing.T, s *Sum, on item.Item) item.Item {
	t.Helper()
	u, due := s.Update(on)
	if !due {
		t.Fatal("not due")
	}
	return applied(t, u, on)
}

// randomMark returns a mark with random counters for the limits of a legend.
func randomMark(g *rand.Rand, l Legend) Mark {
	number := "0" // takes no bytes in the legend's stream
	if g.IntN(8) > 0 {
		number = fmt.Sprint(g.Uint64()) + fmt.Sprint(g.Uint64())
	}
	m := Mark{At: PositionOf(g.Int64N(3)*1_700_000_000, number),
		Gen: uint8(g.IntN(256)), Gone: g.IntN(4) == 0}
	for _, name := range l.Limits {
		if !m.Gone && g.IntN(3) > 0 {
			m.Used = append(m.Used, Count{name, g.Int64() >> g.IntN(64)})
		}
	}
	slices.SortFunc(m.Used, func(a, b Count) int { return strings.Compare(a.Limit, b.Limit) })
	return m
}
