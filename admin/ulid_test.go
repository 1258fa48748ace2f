package admin

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

func TestULIDs(t *testing.T) {
	u := &ulids{}
	last := ""
	for i := range 1000 {
		id := u.next(start + int64(i/100))
		if len(id) != 26 || id <= last {
			t.Fatalf("%q after %q", id, last)
		}
		last = id
	}
	if a, b := new(ulids).next(start), new(ulids).next(start); a == b || a[:10] != b[:10] {
		t.Errorf("two processes make %q and %q at the same instant", a, b)
	}
	for range 50 { // an identifier has room to count up, so that it stays of its instant
		if id := new(ulids).next(start); id[10] >= 'G' {
			t.Errorf("%q begins at %c", id, id[10])
		}
	}
	check.Equal(t, encode([16]byte{}), "00000000000000000000000000")
	var most [16]byte
	for i := range most {
		most[i] = 0xff
	}
	check.Equal(t, encode(most), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ")
	check.Equal(t, (&ulids{}).next(1469918176385)[:10], "01ARYZ6S41", "the time of the specification's example")
}
