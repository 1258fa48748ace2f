package bucket

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

func TestFloorOfAClass(t *testing.T) {
	for floors, want := range map[string]map[string]int64{
		"":                                {"": 0, "batch": 0},
		"batch=40":                        {"": 0, "batch": 40, "bath": 40},
		"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1": {"b": 1}, // at most eight
		"batch=40,free=60,live=0":         {"": 0, "batch": 40, "free": 60, "live": 0, "fre": 60, "z": 60},
	} {
		if !AreFloors(floors) {
			t.Errorf("%q is refused", floors)
		}
		for class, n := range want {
			if got := (Limit{Floors: floors}).Floor(class); got != n {
				t.Errorf("class %q of %q leaves %d percent, want %d", class, floors, got, n)
			}
		}
	}
}

func TestFloorsAreChecked(t *testing.T) {
	for _, s := range []string{"batch", "batch=", "=4", "batch=100", "batch=-1", "batch=+4", "batch=04", "batch=4,",
		",batch=4",
		"b=1,a=2", "a=1,a=2", "a b=1", "ä=1", "a=1;b=2", strings.Repeat("x", 33) + "=1",
		"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", "a=1.5", "a=400"} {
		if AreFloors(s) {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestWholeAbove(t *testing.T) {
	for _, c := range [][3]int64{{5000, 0, 5}, {5000, 2000, 3}, {5000, 2001, 2}, {2000, 2001, 0},
		{0, 5, 0}, {-1, 5, -1}, {-1500, 0, -2}} {
		if got := WholeAbove(c[0], c[1]); got != c[2] {
			t.Errorf("%d above %d are %d whole tokens, want %d", c[0], c[1], got, c[2])
		}
	}
}

// Classes have 1 to 32 letters, digits, '_', '.' and '-'.
func TestNamesOfClasses(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "Z": true, "0.9_-": true, strings.Repeat("x", 32): true,
		"": false, strings.Repeat("x", 33): false, "a b": false, "a=b": false, "é": false, "[": false, "`": false, "{": false, "@": false,
	} {
		check.Equal(t, IsClass(name), want, "%q", name)
	}
}
