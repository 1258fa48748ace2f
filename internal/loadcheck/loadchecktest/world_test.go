package loadchecktest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/loadcheck/loadchecktest"
)

func counter(name string) item.Key { return item.Key{PK: name, SK: "n"} }

func more(name string) item.Update {
	return item.Update{Key: counter(name), Add: []item.Attr{{Name: "n", Value: item.N(1)}}}
}

// What is due arrives in order, each at its instant, and what is due at one instant in the order in
// which it was sent.
func TestArrivalsAreInOrder(t *testing.T) {
	w := loadchecktest.New(1, 1)
	var seen []string
	note := func(what string) func() {
		return func() { seen = append(seen, fmt.Sprint(what, w.Now-loadchecktest.Begin)) }
	}
	w.After(20, note("b"))
	w.After(10, func() { note("a")(); w.After(10, note("c")); w.After(15, note("late")) })
	w.Pass(20)
	w.PassToEdge(1000, 0)
	if want := []string{"a10", "b20", "c20", "late25"}; !slices.Equal(seen, want) || w.Now%1000 != 0 {
		t.Errorf("%v at %d, want %v", seen, w.Now, want)
	}
}

// Of writes that are one call all are carried out or none, and the process learns which, or nothing.
func TestCallsArriveAndAnswersAreLost(t *testing.T) {
	w := loadchecktest.New(1, 1)
	w.Late = func() int64 { return 5 }
	var seen []string
	send := func(writes ...item.Write) {
		note := func(what string) func(bool) { return func(held bool) { seen = append(seen, fmt.Sprint(what, held)) } }
		w.Send(loadchecktest.Call{Writes: writes, Arrived: note("arrived "), Answered: note("answered "),
			Lost: func() { seen = append(seen, "lost") }})
		w.Pass(5)
		seen = append(seen, "-")
		w.Pass(5)
	}
	never := more("b")
	never.If = item.Exists("never")
	send(more("a"), never)
	if len(w.Items) > 0 {
		t.Errorf("half a call was carried out: %v", w.Items)
	}
	w.Lost = 1
	send(more("a"), more("b"))
	w.Write(item.Delete{Key: counter("a")})
	if len(w.Items) != 1 || w.Items[counter("b")] == nil {
		t.Errorf("stored: %v, want b", w.Items)
	}
	want := []string{"arrived false", "-", "answered false", "arrived true", "-", "lost"}
	if !slices.Equal(seen, want) || w.Err != nil {
		t.Errorf("%q, %v, want %q", seen, w.Err, want)
	}
}

// counting is a world that counts its steps; with a defect it breaks a promise in the tenth.
type counting struct {
	*loadchecktest.World
	planted string
}

func (c counting) Step() {
	if c.Count("steps"); c.Done["steps"] == 10 && c.planted == "defect" {
		c.Fail("step %d", 10)
		c.Fail("and another")
	}
}

func TestKindPlaysWorlds(t *testing.T) {
	k := loadchecktest.Kind[counting]{Steps: 10, Worlds: 3, Least: map[string]float64{"steps": 10},
		New: func(seed uint64, planted string) counting { return counting{loadchecktest.New(seed, 1), planted} }}
	k.Keeps(t)
	k.Sees(t, 2, 2, "defect")
	if w, err := k.Play(0, "defect"); err == nil || err.Error() != "step 10" || w.Done["steps"] != 10 {
		t.Errorf("%v after %d steps", err, w.Done["steps"])
	}
}
