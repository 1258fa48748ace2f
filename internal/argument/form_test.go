package argument

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

func TestLimitsComeBackAsTheyWereStored(t *testing.T) {
	l := Limit[string]{Name: "tpm", Capacity: 100, Refill: 50, Period: time.Minute}
	want := bucket.Limit{Name: "tpm", Capacity: 100_000, Amount: 50_000, Period: 60_000}
	if got := l.Stored(); got != want {
		t.Errorf("stored as %+v, want %+v", got, want)
	}
	if got := LimitOf[string](want); got != l {
		t.Errorf("read as %+v, want %+v", got, l)
	}
}

func TestPoliciesHaveOneWordEach(t *testing.T) {
	for p, word := range map[int]string{0: "", 1: "block", 2: "allow"} {
		if got, ok := PolicyWord(p); got != word || !ok {
			t.Errorf("policy %d is %q, %t, want %q", p, got, ok, word)
		}
		if got, ok := PolicyOf[int](word); got != p || !ok {
			t.Errorf("%q is policy %d, %t, want %d", word, got, ok, p)
		}
	}
	for _, p := range []int{-1, 3} {
		if word, ok := PolicyWord(p); ok {
			t.Errorf("policy %d can be stored, as %q", p, word)
		}
	}
	if p, ok := PolicyOf[int]("local"); ok || p != 0 {
		t.Errorf("policy %d is stored as local, want none", p)
	}
}
