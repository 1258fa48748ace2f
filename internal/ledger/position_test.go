package ledger

import (
	"bytes"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Positions are ordered by stream, then by sequence number of any length. Before returns the
// previous one. Plus and Since are inverse.
func TestPositionsAreInOrder(t *testing.T) {
	numbers := []string{"0", "1", "9999999999999999999", "10000000000000000000", "10000000000000000001",
		"99999999999999999999999999999999999999", "100000000000000000000000000000000000000",
		"1999999999999999999999999999999999999999"}
	var all []Position
	for _, stream := range []int64{0, 5} {
		for _, n := range numbers {
			all = append(all, PositionOf(stream, n))
		}
	}
	for i, p := range all {
		for j, q := range all {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			check.Equal(t, p.Compare(q), want, "%+v to %+v", p, q)
		}
		before := p.Before()
		if i%len(numbers) == 0 {
			check.Equal(t, before, p, "before the first")
			continue
		}
		if before.Compare(p) >= 0 || before.Stream != p.Stream || before.Compare(all[i-1]) < 0 {
			t.Errorf("before %+v is %+v", p, before)
		}
	}
	for _, other := range []string{"1/2", "1 2", "1x2", "1:2"} { // not digits
		check.Equal(t, PositionOf(5, other), PositionOf(5, "102"), "%q", other)
	}
	long := numbers[len(numbers)-1]
	check.Equal(t, PositionOf(5, "0000000"+long), PositionOf(5, long), "with leading zeros, %s", long)
	check.Equal(t, PositionOf(5, "10000000000000000000").Before(), PositionOf(5, "9999999999999999999"),
		"before 10^19")
	check.Equal(t, PositionOf(5, "100000000000000000000000000000000000000").Before(), all[len(numbers)+5],
		"before 10^38")
	p := PositionOf(5, "700")
	if n, ok := p.Plus(30).Since(p); n != 30 || !ok || p.Plus(30) != PositionOf(5, "730") {
		t.Errorf("30 after it is %d, %v after it", n, ok)
	}
	for _, o := range []Position{PositionOf(4, "600"), PositionOf(5, "701"), PositionOf(5, "10000000000000000000")} {
		if _, ok := p.Since(o); ok {
			t.Errorf("%+v is near %+v", o, p)
		}
	}
}

// Only packed positions can be unpacked: not with a leading zero, not longer ones, and not beyond
// all numbers.
func TestOnlyPackedPositionsUnpack(t *testing.T) {
	p := PositionOf(5, "700")
	longest := PositionOf(5, "1999999999999999999999999999999999999999").Pack()
	beyond := append([]byte{1}, bytes.Repeat([]byte{0xFF}, packedNumber-1)...)
	for _, c := range []struct {
		b    []byte
		want bool
	}{
		{nil, true}, {p.Pack(), true}, {longest, true}, {append([]byte{0}, p.Pack()...), false},
		{append([]byte{1}, longest...), false}, {make([]byte, packedNumber+1), false}, {beyond, false},
	} {
		got, ok := UnpackPosition(5, c.b)
		if ok != c.want || ok && !bytes.Equal(got.Pack(), c.b) {
			t.Errorf("% x is %+v, %v", c.b, got, ok)
		}
	}
}
