package usage

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

func randomParts(r *rand.Rand) (out []Part) {
	counts := func() (c []ledger.Count) {
		for _, name := range []string{"", "rpm", "tpm", "x\ny", "z\x00"} {
			if r.IntN(2) == 0 {
				c = append(c, ledger.Count{Limit: name, Tokens: r.Int64N(1<<40) - 1<<39})
			}
		}
		return c
	}
	for i := range r.IntN(6) {
		p := Part{Bucket: Bucket{"n", "gpt", "customer-" + strconv.Itoa(i+r.IntN(2))}, Shard: r.IntN(3) * i}
		p.Start = hourMillis * (400_000 + r.Int64N(3))
		p.Oldest = p.Start + 1000*r.Int64N(3600)
		if r.IntN(2) == 0 {
			p.Clock = p.Start
		}
		if r.IntN(2) == 0 {
			p.Follows = p.Start - hourMillis
		}
		if r.IntN(2) == 0 {
			p.Birth = p.Start - hourMillis*r.Int64N(9999)
		}
		at := ledger.PositionOf(1_700_000_000, "44215845000000000"+strconv.Itoa(r.IntN(1e9)))
		for range 1 + r.IntN(3) {
			run := Run{First: at, Last: at.Plus(r.Uint64N(1e6)), From: counts(), To: counts(), Events: r.Int64N(9),
				Wide: r.IntN(5) == 0}
			run.Born, run.Gone, run.FromGen = r.IntN(3) == 0, r.IntN(3) == 0, uint8(r.IntN(256))
			if run.ToGen = run.FromGen; r.IntN(4) == 0 {
				run.ToGen, run.Last = 9, ledger.PositionOf(1_800_000_000, "7") // of another stream
			}
			p.Runs = append(p.Runs, run)
		}
		out = append(out, p)
	}
	SortParts(out)
	return out
}

// A state survives encoding. Any other text decodes to a lost state, without a panic.
func TestStatesSurviveEncoding(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		s := State{Parts: randomParts(r)}
		text := s.JSON()
		got, err := ParseState(text)
		if err != nil || len(got.Parts)+len(s.Parts) > 0 && !reflect.DeepEqual(got, s) {
			t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, s)
		}
		text[r.IntN(len(text))] = byte(r.IntN(256))
		_, _ = ParseState(text)
		owed := MergeOwed([]Owed{{Bucket{"n", "gpt", "b"}, dayMillis * 7}, {Bucket{"n", "gpt", "a"}, dayMillis * 9},
			{Bucket{"n", "gpt", "b"}, dayMillis * 7}})
		back, err := UnpackOwed(PackOwed(owed), Daily)
		if err != nil || len(back) != 2 || !reflect.DeepEqual(back, owed) {
			t.Fatalf("owed %+v, %v", back, err)
		}
	}
	for _, text := range []string{"", "{}"} {
		if s, err := ParseState([]byte(text)); err != nil || len(s.Parts) > 0 {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
	for _, text := range []string{"null x", `{"zae":"!"}`, `{"zae":"AA"}`, `{"other":"x"}`, "[]"} {
		if s, err := ParseState([]byte(text)); err == nil || len(s.Parts) > 0 {
			t.Errorf("%q: %+v", text, s)
		}
	}
}

// The state is decoded from any form of the JSON: with other members, spaces, or escaped
// characters.
func TestStateInAnotherFormOfJSON(t *testing.T) {
	want := State{Parts: []Part{{Bucket: ner, Start: Hourly.Start(t0), Oldest: t0, Runs: []Run{ran("1", "2", 0, 3)}}}}
	packed, err := packedState(want.JSON())
	check.Must(t, err)
	p, first := string(packed), fmt.Sprintf(`\u%04x`, packed[0])
	for _, text := range []string{`{"zae":"` + p + `"}`, ` {"zae": "` + p + `"} `, `{"zae":"` + p + `","other":"x"}`,
		`{"other":"x","zae":"` + p + `"}`, `{"zae":"` + p + `" }`, `{"zae":"` + first + p[1:] + `"}`} {
		if got, err := ParseState([]byte(text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

func TestOwedSumsInAnyOrderAreTheSame(t *testing.T) {
	want := []Owed{{Bucket{"n", "r", "ab"}, 9 * dayMillis}, {Bucket{"n", "r", "a"}, 7 * dayMillis},
		{Bucket{"n", "r", "abc"}, 8 * dayMillis}, {Bucket{"m", "r", "abc"}, 0}}
	if got, err := UnpackOwed(PackOwed(want), Daily); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func TestRecordsCloseToEachOtherTakeLittleSpace(t *testing.T) {
	var parts []Part
	for i := range int64(10) {
		at := ledger.PositionOf(1_700_000_000, "44215845000000000000000001").Plus(uint64(i))
		counts := []ledger.Count{{Limit: strings.Repeat("x", 100), Tokens: 5}}
		parts = append(parts, Part{Bucket: ner, Shard: int(i), Start: Hourly.Start(t0),
			Oldest: Hourly.Start(t0), Runs: []Run{{First: at, Last: at, From: counts, To: counts, Events: 1}}})
	}
	for range 2 {
		for n, most := range map[int]int{1: 230, 10: 420} {
			if s := (State{Parts: parts[:n]}); len(s.JSON()) > most {
				t.Errorf("%d parts are %d bytes", n, len(s.JSON()))
			}
		}
		slices.Reverse(parts)
	}
}

func TestThousandsOfRunsAndLimitsSurviveEncoding(t *testing.T) {
	part := Part{Bucket: ner, Start: Hourly.Start(t0), Oldest: Hourly.Start(t0)}
	for i := range 3000 {
		part.Runs = append(part.Runs, ran(fmt.Sprint(2*i), fmt.Sprint(2*i+1), int64(i), int64(i+1)))
	}
	for i := range 3000 {
		part.Runs[7].To = append(part.Runs[7].To, ledger.Count{Limit: fmt.Sprint(i), Tokens: int64(i)})
	}
	s := State{Parts: []Part{part}}
	if got, err := ParseState(s.JSON()); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("%v", err)
	}
}

// A state with an invalid reference is lost: a key that reuses more of the previous key than there
// is, a run with an unknown list of limits, a part without runs, or a position without a number.
func TestStatesWithInvalidReferencesAreLost(t *testing.T) {
	part := Part{Start: Hourly.Start(t0), Runs: []Run{ran("1", "2", 0, 3)}}
	state := func(same uint64, flags byte, runs []uint64, limits uint64) []byte {
		w := packer{names: map[string]uint64{}}
		w.first([]Part{part})
		if w.uint(same); same == 0 {
			w.text("n\x00r\x00e")
		}
		w.b = append(w.b, flags)
		w.int(0) // its start and its oldest record
		w.int(0)
		for _, n := range runs {
			w.uint(n)
		}
		if len(runs) == 0 || runs[0] > 0 {
			w.b = append(w.b, 0, 0) // a run of generation 0
			w.uint(0)
			w.uint(1)
			w.uint(2)
			w.uint(limits)
			w.text("")
		}
		return w.b
	}
	for _, c := range []struct {
		name string
		b    []byte
		ok   bool
	}{
		{"nothing is missing", state(0, 0, nil, 0), true},
		{"the same, with a number of runs", state(0, partManyRuns, []uint64{1}, 0), true},
		{"no runs", state(0, partManyRuns, []uint64{0}, 0), false},
		{"a list of limits beyond the next", state(0, 0, nil, 5), false},
		{"a key before", state(5, 0, nil, 0), false},
		{"a position with too many bytes", append([]byte{stateVersion, 0, 0, 18}, make([]byte, 19)...), false},
		{"a position with a leading zero", []byte{stateVersion, 0, 0, 1, 0, 0}, false},
		{"the position 0", []byte{stateVersion, 0, 0, 0, 0}, true},
		{"an instant of more than 64 bits", append([]byte{stateVersion}, bytes.Repeat([]byte{0xff}, 11)...), false},
		{"a number of more than 64 bits", append([]byte{stateVersion, 0, 0}, bytes.Repeat([]byte{0xff}, 11)...), false},
	} {
		got, err := ParseState([]byte(`{"zae":"` + base64.RawStdEncoding.EncodeToString(c.b) + `"}`))
		check.Equal(t, err == nil, c.ok, "%s: %+v, %v", c.name, got, err)
	}
	for n := range 3 { // whole groups of base64, and trailing bytes
		part.Entity = strings.Repeat("e", n)
		text := bytes.Replace((&State{Parts: []Part{part}}).JSON(), []byte(`"}`), []byte(`!"}`), 1)
		if got, err := ParseState(text); err == nil || len(got.Parts) > 0 {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if got, err := UnpackOwed([]byte{owedVersion, 1, 5, 0}, Daily); err == nil {
		t.Errorf("a list with an invalid key: %+v", got)
	}
}

func TestAnyPartMayHaveTheOldestRecord(t *testing.T) {
	for _, c := range []struct {
		parts []int64
		want  int64
	}{{nil, 0}, {[]int64{7}, 7}, {[]int64{5, 3, 9}, 3}, {[]int64{3, 5}, 3}} {
		s := State{}
		for _, at := range c.parts {
			s.Parts = append(s.Parts, Part{Oldest: at})
		}
		check.Equal(t, s.Oldest(), c.want, "%v", c.parts)
	}
}

// A list of owed sums that is truncated, has trailing bytes, or is of another version is an error,
// and returns no list.
func TestBrokenListIsAnError(t *testing.T) {
	whole := PackOwed([]Owed{{Bucket{"n", "gpt", "a"}, dayMillis * 7}, {Bucket{"n", "gpt", "b"}, dayMillis * 9}})
	broken := [][]byte{append(bytes.Clone(whole), 0), append([]byte{9}, whole[1:]...)}
	for n := range whole {
		broken = append(broken, whole[:n])
	}
	for _, b := range broken {
		if owed, err := UnpackOwed(b, Daily); err == nil || owed != nil {
			t.Errorf("%x: %v, %v", b, owed, err)
		}
	}
}

// A state is lost if it is truncated, has trailing bytes, is of another version, has no bucket, or
// has an invalid instant.
func TestBrokenStateIsLost(t *testing.T) {
	part := Part{Bucket: Bucket{"n", "gpt", "acme"}, Start: 400_000 * hourMillis}
	part.Oldest = part.Start
	at := ledger.PositionOf(1_700_000_000, "44215845000000000000000001")
	part.Runs = []Run{{First: at, Last: at.Plus(1), From: []ledger.Count{{Limit: "rpm", Tokens: 5}},
		To: []ledger.Count{{Limit: "rpm", Tokens: 7}}, Events: 1}}
	carried := State{Parts: []Part{part}}
	packed, err := packedState(carried.JSON())
	check.Must(t, err)
	whole, err := base64.RawStdEncoding.DecodeString(string(packed))
	check.Must(t, err)
	parse := func(b []byte) (State, error) {
		return ParseState([]byte(`{"zae":"` + base64.RawStdEncoding.EncodeToString(b) + `"}`))
	}
	if s, err := parse(whole); err != nil || len(s.Parts) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	for n := range whole {
		if s, err := parse(whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are %+v", n, len(whole), s)
		}
	}
	if s, err := parse(append(bytes.Clone(whole), 0)); err == nil {
		t.Errorf("with a trailing byte: %+v", s)
	}
	if s, err := parse(append([]byte{9}, whole[1:]...)); err == nil {
		t.Errorf("of another version: %+v", s)
	}
	for _, at := range []int64{math.MaxInt64 / 2, math.MinInt64 / 2} { // invalid instants of 64 bits
		for name, edit := range map[string]func(*Part){
			"a window": func(p *Part) { p.Start = at }, "its oldest record": func(p *Part) { p.Oldest = at },
			"the window before":          func(p *Part) { p.Follows = at },
			"the window of its creation": func(p *Part) { p.Birth = at },
		} {
			absurd := part
			edit(&absurd)
			carried := State{Parts: []Part{part, absurd}}
			if s, err := ParseState(carried.JSON()); err == nil {
				t.Errorf("%s at %d: %+v", name, at, s)
			}
		}
	}
	for _, key := range []string{"n gpt acme", "n\x00gpt acme"} {
		if s, err := parse(bytes.Replace(whole, []byte("n\x00gpt\x00acme"), []byte(key), 1)); err == nil {
			t.Errorf("with the key %q: %+v", key, s)
		}
	}
}

// A state with a shard number beyond any bucket's is lost.
func TestStatesWithImpossibleShardsAreLost(t *testing.T) {
	for shard, broken := range map[int]bool{1<<31 - 1: false, 1 << 31: true} {
		s := State{Parts: []Part{{Bucket: ner, Shard: shard, Start: Hourly.Start(t0),
			Oldest: t0, Runs: []Run{ran("1", "2", 0, 3)}}}}
		got, err := ParseState(s.JSON())
		if (err != nil) != broken || !broken && got.Parts[0].Shard != shard {
			t.Errorf("shard %d: %+v, %v", shard, got, err)
		}
	}
}

// Parts are in the order in which Fold sorts a batch: by namespace, resource, entity, shard and
// time.
func TestOrderOfParts(t *testing.T) {
	want := []Part{{Bucket: Bucket{"a", "z", ""}}, {Bucket: Bucket{"b", "a", "z"}},
		{Bucket: Bucket{"b", "b", "a"}, Shard: 9, Start: 9},
		{Bucket: Bucket{"b", "b", "b"}, Shard: 1},
		{Bucket: Bucket{"b", "b", "b"}, Shard: 2, Start: 1},
		{Bucket: Bucket{"b", "b", "b"}, Shard: 2, Start: 2}}
	got := slices.Clone(want)
	slices.Reverse(got)
	SortParts(got)
	check.Deep(t, got, want)
}
