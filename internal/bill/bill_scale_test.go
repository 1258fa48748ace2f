package bill

import (
	"fmt"
	"math"
	"strings"
)

const perPartition = 1000 // write units a second

// scales are the loads of docs/at-scale.md: a stream shard for each partition, and as many
// partitions as the writes need.
func scales(ahead float64) (out []Use) {
	for _, c := range []struct {
		rate                float64
		entities, processes int
	}{{1e4, 1e3, 16}, {1e4, 1e6, 100}, {1e5, 1e4, 1000}, {1e5, 1e6, 1000}, {1e6, 1e3, 1000}, {1e6, 1e6, 1e4},
		{1e6, 1e6, 1e5}} {
		u := Use{Rate: c.rate, Levels: 1, Processes: c.processes, Starts: 30, Ahead: ahead, Entities: c.entities, Skew: 1.1,
			Windows: 2, FoldSeconds: 60, SnapshotDays: 90, Utilization: .5}
		u.StreamShards = max(4, int(math.Ceil(u.Rate*u.perAcquire()/perPartition)))
		out = append(out, u)
	}
	return out
}

func (u Use) named() string {
	return fmt.Sprintf("| %s | %s | %s |", dollars(u.Rate), dollars(float64(u.Entities)), dollars(float64(u.Processes)))
}

// loadTable is what parts of the system are asked for.
func loadTable() string {
	var b strings.Builder
	b.WriteString("| requests a second | tenants | processes | writes a second | partitions, stream shards | " +
		"functions at once | busiest tenant: writes a second | its shards |\n|---|---|---|---|---|---|---|---|\n")
	for i, u := range scales(0) {
		for _, u := range []Use{u, scales(.5)[i]} {
			writes := u.Rate * u.perAcquire()
			each := u.invocations()/monthSeconds*msOfInvocation/1000 + u.changes()/monthSeconds*msOfRecord/1000
			busiest := u
			busiest.Entities = 1
			for share := range u.shares() {
				busiest.Rate *= share
				break
			}
			top := busiest.Rate * busiest.perAcquire()
			shards := math.Exp2(max(0, math.Ceil(math.Log2(top/perPartition))))
			if u.Ahead == 0 {
				b.WriteString(u.named())
			} else {
				b.WriteString("| taken ahead | | |")
			}
			fmt.Fprintf(&b, " %s | %s | %s | %s | %s |\n", dollars(writes), dollars(float64(u.StreamShards)),
				dollars(math.Ceil(each)), dollars(top), dollars(shards))
		}
	}
	return b.String()
}

// scaleTable is what a month costs.
func scaleTable() string {
	var b strings.Builder
	b.WriteString("| requests a second | tenants | processes | acquires | first touches | stored limits, at most | " +
		"usage | storage | functions, logs | sum | taken ahead, limits in code |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i, u := range scales(0) {
		parts := map[string]float64{}
		lines := Month(u, Default())
		for _, l := range lines {
			parts[l.Part] += l.Dollars
		}
		sum := Sum(lines)
		stored := parts["storage"] + parts["point-in-time recovery"]
		usage := parts["usage"] + parts["read for usage"]
		ahead := scales(.5)[i]
		ahead.LimitsInCode = true
		b.WriteString(u.named())
		first := parts["first touches"]
		for _, d := range []float64{parts["acquire"], first, parts["read stored limits"], usage, stored,
			sum - parts["acquire"] - first - parts["read stored limits"] - usage - stored, sum,
			Sum(Month(ahead, Default()))} {
			fmt.Fprintf(&b, " %s |", dollars(d))
		}
		b.WriteString("\n")
	}
	return b.String()
}
