package loadchecktest

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Player is a world with moves and rules. It embeds a [Run] or a [World].
type Player interface {
	Step() // one mover moves
	Pass(ms int64)
	End()
	Base() *Run
}

// Nothing is planted in a world that is made like those with a defect, but has none.
const Nothing = "nothing"

// Kind is one kind of worlds.
type Kind[P Player] struct {
	// New makes the world of a seed, with a planted defect; "" is none.
	New           func(seed uint64, planted string) P
	Steps         int
	Worlds, Short int                // how many are played, and how many with go test -short; 0: the same number
	Env           string             // a variable that overrides the number
	Least         map[string]float64 // how often each action must happen per world, on average
	First         map[string]uint64  // the first seed that Sees plays for a defect that few worlds show; otherwise 0
}

// Play plays one world until its end, or until a promise is broken. Calls due at the instant of a
// step arrive before the next step.
func (k Kind[P]) Play(seed uint64, planted string) (P, error) {
	p := k.New(seed, planted)
	r := p.Base()
	for range k.Steps {
		p.Step()
		if p.Pass(0); r.Err != nil {
			return p, r.Err
		}
	}
	p.End()
	return p, r.Err
}

func (k Kind[P]) worlds() int {
	if n, err := strconv.Atoi(os.Getenv(k.Env)); err == nil {
		return n
	}
	if testing.Short() && k.Short > 0 {
		return k.Short
	}
	return k.Worlds
}

// Keeps requires that all worlds without a defect keep their promises, and do enough to prove
// something.
func (k Kind[P]) Keeps(t *testing.T) {
	t.Helper()
	worlds, done := k.worlds(), map[string]int{}
	for seed := range uint64(worlds) {
		p, err := k.Play(seed, "")
		check.Must(t, err, "seed %d", seed)
		for what, n := range p.Base().Done {
			done[what] += n
		}
	}
	t.Logf("%d worlds: %v", worlds, done)
	for what, least := range k.Least {
		if float64(done[what]) < least*float64(worlds) {
			t.Errorf("%d %s in %d worlds, want %g in each", done[what], what, worlds, least)
		}
	}
}

// Sees requires that each defect is found in at least least of the worlds, and that no defect is
// found in the same worlds with [Nothing].
func (k Kind[P]) Sees(t *testing.T, worlds uint64, least int, defects ...string) {
	t.Helper()
	for _, planted := range defects {
		seen, from := 0, k.First[planted]
		for seed := from; seed < from+worlds && seen < least; seed++ {
			_, err := k.Play(seed, planted)
			if err == nil {
				continue
			}
			if seen++; seen == 1 {
				first, _, _ := strings.Cut(err.Error(), "\n")
				t.Logf("%s: seed %d: %s", planted, seed, first)
			}
			check.NoError(t, check.Err(k.Play(seed, Nothing)), "%s: seed %d: seen without it, too", planted, seed)
		}
		if seen < least {
			t.Errorf("%s: seen in %d of %d worlds, want %d", planted, seen, worlds, least)
		}
	}
}
