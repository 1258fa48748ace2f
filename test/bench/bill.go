package bench

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/pricing"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
)

// Bill is the cost of one run of a path.
type Bill struct {
	Calls map[string]float64 // by API operation
	Read  float64            // read units
	Write float64            // write units of tables and indexes, including failed conditions
}

// String lists the calls, as "1 BatchGetItem + 2 UpdateItem".
func (b Bill) String() string {
	var parts []string
	for _, op := range slices.Sorted(maps.Keys(b.Calls)) {
		if n := b.Calls[op]; n != 0 {
			parts = append(parts, fmt.Sprintf("%g %s", n, op))
		}
	}
	if parts == nil {
		return "no call"
	}
	return strings.Join(parts, " + ")
}

// Dollars returns the price of a million runs.
func (b Bill) Dollars() float64 {
	return b.Read*pricing.DollarsPerMillionReads + b.Write*pricing.DollarsPerMillionWrites
}

// Equal reports whether bills differ by less than a millionth: averages are not exact.
func (b Bill) Equal(o Bill) bool {
	return near(b.Read, o.Read) && near(b.Write, o.Write) && maps.EqualFunc(b.Calls, o.Calls, near)
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// minus returns the difference to o, divided by n.
func (b Bill) minus(o Bill, n float64) Bill {
	out := Bill{Calls: map[string]float64{}, Read: (b.Read - o.Read) / n, Write: (b.Write - o.Write) / n}
	for op := range b.Calls {
		if d := (b.Calls[op] - o.Calls[op]) / n; d != 0 {
			out.Calls[op] = d
		}
	}
	return out
}

// only returns the bill of one operation.
func only(usage map[string]fault.Usage, op string) Bill {
	return sum(map[string]fault.Usage{op: usage[op]})
}

func sum(usage map[string]fault.Usage) Bill {
	b := Bill{Calls: map[string]float64{}}
	for op, u := range usage {
		if u.Calls > 0 {
			b.Calls[op] = float64(u.Calls)
		}
		b.Read += u.ReadUnits
		b.Write += u.WriteUnits + u.FailedUnits
	}
	return b
}

// billed runs f n times and returns the bill of one run.
func (w *world) billed(n int, f func(i int) error) (Bill, error) {
	usage, err := w.metered(n, f)
	return sum(usage).minus(Bill{}, float64(n)), err
}

func (w *world) metered(n int, f func(i int) error) (map[string]fault.Usage, error) {
	w.proxy.Reset()
	for i := range n {
		if err := f(i); err != nil {
			return nil, err
		}
	}
	return w.proxy.Usage(), nil
}
