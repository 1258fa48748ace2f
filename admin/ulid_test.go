package admin

import (
	"testing"
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
	if got := encode([16]byte{}); got != "00000000000000000000000000" {
		t.Error(got)
	}
	var most [16]byte
	for i := range most {
		most[i] = 0xff
	}
	if got := encode(most); got != "7ZZZZZZZZZZZZZZZZZZZZZZZZZ" {
		t.Error(got)
	}
	if id := (&ulids{}).next(1469918176385); id[:10] != "01ARYZ6S41" {
		t.Errorf("the time of the specification's example is %q", id[:10])
	}
}
