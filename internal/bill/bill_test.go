package bill

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/cost.md")

const page = "../../docs/cost.md"

// bytes returns what an item of a golden takes in the table and in its indexes, with the
// 100 bytes that AWS adds to the item and to each entry.
func bytes(t *testing.T, name string) (sum float64) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../table/testdata/items", name))
	if err != nil {
		t.Fatal(err)
	}
	var it map[string]map[string]any
	if err := json.Unmarshal(text, &it); err != nil {
		t.Fatal(err)
	}
	size := func(attr string) float64 {
		n := float64(len(attr))
		for kind, v := range it[attr] {
			text := fmt.Sprint(v)
			n += float64(len(text)) * map[string]float64{"S": 1, "N": 0.6, "B": 0.75, "BOOL": 0.2}[kind]
		}
		return n
	}
	for attr := range it {
		sum += size(attr)
	}
	sum += 100
	for _, index := range []string{"GSI1", "GSI2", "GSI3", "GSI4"} {
		if it[index+"PK"] != nil {
			sum += 100 + size("PK") + size("SK") + size(index+"PK") + size(index+"SK")
		}
	}
	return sum
}

// What is stored is counted as what the goldens of the table take, ids of 40 letters
// instead of 5 and indexes included.
func TestWhatIsStored(t *testing.T) {
	for name, is := range map[string]float64{"bucket.json": bytesOfBucket, "usage_hourly.json": bytesOfSnapshot} {
		const longer, copies = 35, 8 // the id is in the keys of the item, of each entry, and in an attribute
		least, most := bytes(t, name), bytes(t, name)+longer*copies
		if is < least || is > most {
			t.Errorf("%s: %.0f bytes, the golden takes %.0f, with longer ids up to %.0f", name, is, least, most)
		}
	}
}

// Provisioned capacity costs as much as on demand where the part of it is used that
// BreakEven says, less above and more below.
func TestBreakEven(t *testing.T) {
	u := Use{Rate: 1000, Settled: 0.5, Levels: 1, Processes: 4, Entities: 200, Windows: 2, FoldSeconds: 60,
		SnapshotDays: 90, StreamShards: 4}
	demand, provisioned := Stack{Table: true}, Stack{Table: true, Provisioned: true}
	ratio := func(part float64) float64 {
		u.Utilization = part
		return Sum(Month(u, provisioned)) / Sum(Month(u, demand))
	}
	if at := ratio(BreakEven); math.Abs(at-1) > 0.01 { // storage is the same
		t.Errorf("at %.3f of capacity %.3f times as much", BreakEven, at)
	}
	if above, below := ratio(0.7), ratio(0.2); above > 0.45 || below < 1.4 {
		t.Errorf("at 70 %% %.2f times as much, at 20 %% %.2f", above, below)
	}
	for rate, pays := range map[float64]bool{20: false, 30: true} { // docs/cost.md says 25
		u := Use{Rate: rate, Levels: 1, LimitsInCode: true, Utilization: 0.5}
		if is := Sum(Month(u, Provisioned(demand))) < Sum(Month(u, demand)); is != pays {
			t.Errorf("%v acquires a second, half of the capacity used: it pays is %v", rate, is)
		}
	}
	least := provisioned
	least.LeastWrite = 1e4
	if all := Sum(Month(u, least)); all < 1e4*monthHours*priceWriteHour {
		t.Errorf("%.0f dollars, less than the least capacity costs", all)
	}
}

// Reads of limits and writes of usage are at most one for each request.
func TestAtMostOneForEachRequest(t *testing.T) {
	u := Use{Rate: 0.001, Levels: 1, Processes: 100, Entities: 1000, Windows: 2, FoldSeconds: 60, SnapshotDays: 90,
		StreamShards: 4, Utilization: 1}
	units := map[string]float64{}
	for _, l := range Month(u, Default()) {
		units[l.Part] = l.Units
	}
	if n := units["acquire"]; n == 0 || units["read stored limits"] != 2.5*n || units["usage"] != 6*n ||
		units["invocations"] > n {
		t.Errorf("%v", units)
	}
}

// What is said of usage is what was measured, within a twentieth. What was measured begins
// more days than an hour does in the mean.
func TestUsageIsWhatWasMeasured(t *testing.T) {
	text, err := os.ReadFile("../../docs/measured.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| ([\d,]+), (\d+) \| (\d+) s \| (\d) \| ([\d.]+)[^|]*\| ([\d.]+) \| [\d.]+ \| `).
		FindAllStringSubmatch(string(text), -1)
	for _, row := range rows {
		number := func(i int) float64 {
			n, err := strconv.ParseFloat(strings.ReplaceAll(row[i], ",", ""), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		u := Use{Entities: int(number(1)), Rate: number(2), FoldSeconds: number(3), Windows: int(number(4)),
			Skew: 1.1, Levels: 1}
		all, _ := u.usage()
		if got, want := all/u.requests(), number(6); math.Abs(got-want) > want/20 {
			t.Errorf("%s tenants, folded for %s s, %s windows: %.3f units for each acquire, measured were %.3f",
				row[1], row[3], row[4], got, want)
		}
	}
	if len(rows) < 8 {
		t.Errorf("measured.md has %d rows of usage", len(rows))
	}
}

func TestUseIsChecked(t *testing.T) {
	right := Use{Rate: 1, Levels: 1, Processes: 1, Entities: 1, SnapshotDays: 90, StreamShards: 1, Utilization: 0.5}
	most := right
	most.Settled, most.Levels, most.Skew, most.Windows, most.FoldSeconds, most.Ahead = 1, 4, 3, 3, 900, 600
	for _, u := range []Use{right, most} {
		if err := u.Check(); err != nil {
			t.Fatalf("%+v: %v", u, err)
		}
	}
	for name, change := range map[string]func(*Use){
		"rate": func(u *Use) { u.Rate = 0 }, "settled": func(u *Use) { u.Settled = 2 },
		"levels": func(u *Use) { u.Levels = 5 }, "windows": func(u *Use) { u.Windows = 4 },
		"fold": func(u *Use) { u.FoldSeconds = 901 }, "utilization": func(u *Use) { u.Utilization = 0 },
		"more than all": func(u *Use) { u.Utilization = 1.1 }, "not a number": func(u *Use) { u.Utilization = math.NaN() },
		"shards": func(u *Use) { u.StreamShards = 0 }, "skew": func(u *Use) { u.Skew = 4 },
	} {
		u := right
		if change(&u); u.Check() == nil {
			t.Errorf("%s is accepted: %+v", name, u)
		}
	}
}

func TestTemplatesThatAreNotUnderstood(t *testing.T) {
	for _, text := range []string{"Resources:", `{"Resources":{"X":{"Type":"AWS::Neptune::DBCluster"}}}`} {
		if s, err := Of([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, s)
		}
	}
}
