//go:build interop

package interop

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Python serves a bucket with any number of limits, and 0.10.3 one with any number of tokens. Our
// client refuses more than 32 limits and, like 0.17.0, more than 10^15 tokens of one limit. The
// error is not a denial, and the bucket is unchanged.
func TestLimitsThatOnlyOursRefuses(t *testing.T) {
	onBothEngines(t, func(w *world) {
		l, p := w.open(), w.python()
		var many []pyLimit
		for i := range 33 {
			many = append(many, pyLimits(still(fmt.Sprint("limit", i), 100))...)
		}
		huge := pyLimits(still("limit0", 1_000_000_000_000_001))
		for entity, limits := range map[string][]pyLimit{"many": many, "huge": huge} {
			err := p.try(nil, "set_limits", kv{"entity_id": entity, "resource": "api", "limits": limits})
			if entity == "huge" && w.release == newer {
				if err == nil {
					w.Error("Python stores more than 10^15 tokens")
				}
				continue
			} else if err != nil {
				w.Fatal(err)
			}
			r := limiter.Request{Entity: entity, Resource: "api", Costs: limiter.Costs{"limit0": 1}}
			for range 2 { // without a bucket, and with one
				_, err := l.Acquire(w.Context(), r)
				if err == nil || errors.Is(err, limiter.ErrLimited) {
					w.Errorf("%s: acquire: %v, want it refused", entity, err)
				}
				p.take(entity, "api", limiter.Costs{"limit0": 1})
			}
			w.wantLevelOf(entity, "limit0", map[string]int64{"many": 98, "huge": 999_999_999_999_999}[entity])
		}
	})
}

// wantLevelOf compares one level of a bucket, in tokens.
func (w *world) wantLevelOf(entity, limit string, want int64) {
	w.Helper()
	check.Equal(w, levelsOf(w.bucket(entity, "api"))[limit], want*1000,
		"%s: %s is at millitokens, want %d tokens", entity, limit, want)
}
