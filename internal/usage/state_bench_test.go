package usage

import (
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// BenchmarkState parses and packs what a window of 15 minutes carries of 10,000
// tenants, as every batch does.
func BenchmarkState(b *testing.B) {
	var s State
	for i := range 7000 {
		used := func(n int64) []ledger.Count {
			return []ledger.Count{{Limit: "rpm", Tokens: n}, {Limit: "tpm", Tokens: 350 * n}, {Limit: "wcu", Tokens: n}}
		}
		at := ledger.PositionOf(1_700_000_000, fmt.Sprintf("1000000000%09d00000", 13*i))
		start := int64(472_222) * hourMillis
		s.Parts = append(s.Parts, Part{Namespace: "kQ3xZp9LmNa", Resource: "gpt-4", Entity: fmt.Sprintf("customer-%06d", i),
			Start: start, Oldest: start + int64(i)*100, Clock: start, Runs: []Run{{
				First: at, Last: at.Plus(7_000_000), From: used(int64(i)), To: used(int64(i + 3)),
				FromGen: 7, ToGen: 7, Events: 3,
			}}})
	}
	text := s.JSON()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		got, err := ParseState(text)
		if err != nil || len(got.Parts) != len(s.Parts) || len(got.JSON()) != len(text) {
			b.Fatal(err)
		}
	}
}
