package loadcheck

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// world is an exact bucket whose limit changes. Levels are in 1/unit tokens.
type world struct {
	rng    *rand.Rand
	b      Bound
	unit   int64
	rule   Rule
	level  int64
	now    int64 // the clock of clients
	at     int64 // the instant of the level
	seen   []Rule
	events []Event
	under  []Event // taken, and not given back yet
}

// refill advances the level to an instant.
func (w *world) refill(at int64) {
	full := w.rule.Capacity * w.unit
	if at > w.at && w.level < full {
		w.level = min(full, w.level+(at-w.at)*w.rule.Amount*(w.unit/w.rule.Period))
	}
	w.at = max(w.at, at)
}

// adopt puts another rule in force. It adds no tokens, and cuts the level to the new capacity.
func (w *world) adopt(r Rule) {
	w.refill(w.now)
	w.rule = r
	w.level = min(w.level, r.Capacity*w.unit)
}

func (w *world) grant(tokens int64) {
	w.refill(w.now)
	if w.level < tokens*w.unit {
		return
	}
	w.level -= tokens * w.unit
	e := Event{Grant, w.now - w.rng.Int64N(6), w.now + w.rng.Int64N(6), tokens}
	w.events = append(w.events, e)
	w.seen = append(w.seen, Rule{e.Sent, e.Answered, w.rule.Capacity, w.rule.Amount, w.rule.Period})
}

// pass takes tokens and gives them back later, without a grant.
func (w *world) pass(tokens int64) {
	if n := len(w.under); n > 0 && w.rng.IntN(2) == 0 {
		e := w.under[n-1]
		w.under, w.level = w.under[:n-1], w.level+e.Tokens*w.unit
		e.Answered = w.now + w.rng.Int64N(6)
		w.events = append(w.events, e)
		return
	}
	if w.refill(w.now); w.level >= tokens*w.unit {
		w.level -= tokens * w.unit
		w.under = append(w.under, Event{Kind: Passing, Sent: w.now - w.rng.Int64N(6), Tokens: tokens})
	}
}

// play makes n steps. Each rule is seen before it is replaced.
func (w *world) play(n int, rules []Rule) {
	for range n {
		w.now += w.rng.Int64N(40)
		tokens := 1 + w.rng.Int64N(w.rule.Capacity/4+1)
		switch w.rng.IntN(12) {
		case 0:
			if len(rules) == 1 {
				break
			}
			w.level = max(w.level, 0)
			w.grant(1)
			if last := len(w.seen) - 1; last >= 0 && w.seen[last].same(w.rule) {
				w.adopt(rules[w.rng.IntN(len(rules))])
			}
		case 1:
			w.refill(w.now + w.rng.Int64N(w.b.Skew+1)) // by another clock
		case 2, 3:
			w.pass(tokens)
		default:
			w.grant(tokens)
		}
	}
	for _, e := range w.under {
		e.Answered = w.now
		w.events = append(w.events, e)
	}
}

func randomWorld(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 9))
	w := &world{rng: rng, unit: 60_000, now: 1000, at: 1000, b: Bound{Kept: true}}
	var rules []Rule
	for range 1 + rng.IntN(3) {
		rules = append(rules, Rule{Capacity: 1 + rng.Int64N(100), Amount: 1 + rng.Int64N(500),
			Period: []int64{1000, 60_000, 20}[rng.IntN(3)]})
	}
	if seed%2 == 0 {
		w.b.Skew = rng.Int64N(300)
	}
	w.rule = rules[0]
	w.level = w.rule.Capacity * w.unit
	w.play(400, rules)
	w.b.Rules = InForce(w.seen)
	return w
}

// An exact bucket is never accused, even with a changing limit, clocks that differ, and tokens
// under way. Without the skew, the replaced rule, or the passing tokens, it would be, so each of
// them is needed.
func TestAChangingBucketIsNeverAccused(t *testing.T) {
	tight, accused := 0, map[string]int{}
	for seed := range uint64(600) {
		w := randomWorld(seed)
		if len(w.seen) == 0 {
			continue
		}
		got, err := Worst(w.b, w.events)
		if err != nil || got.Excess > 0 {
			t.Fatalf("seed %d: %v, %v\n%+v", seed, got, err, w.b)
		}
		if got.Excess > -2000 {
			tight++
		}
		last := w.seen[len(w.seen)-1]
		bare := slices.DeleteFunc(slices.Clone(w.events), func(e Event) bool { return e.Kind == Passing })
		for name, c := range map[string]struct {
			b      Bound
			events []Event
		}{
			"skew": {Bound{Rules: w.b.Rules, Kept: true}, w.events},
			"rules": {Bound{Rules: always(last.Capacity, last.Amount, last.Period), Skew: w.b.Skew, Kept: true},
				w.events},
			"passing": {w.b, bare},
		} {
			if got, err := Worst(c.b, c.events); err == nil && got.Excess > 0 {
				accused[name]++
			}
		}
	}
	if tight < 60 {
		t.Errorf("%d worlds of 600 have a window within two tokens of the bound, want 60", tight)
	}
	for _, name := range []string{"skew", "rules", "passing"} {
		if accused[name] == 0 {
			t.Errorf("without %s no world has a false excess", name)
		}
	}
}

// One token too many is found wherever it is granted, if calls take no time and clients request all
// tokens.
func TestOneTokenTooManyIsFoundAnywhere(t *testing.T) {
	honest := []Event{{Grant, 0, 0, 50}}
	for at := int64(100); at <= 20_000; at += 100 {
		honest = append(honest, Event{Grant, at, at, 1})
	}
	b := Bound{Rules: always(50, 10, 1000)}
	if got, err := Worst(b, honest); err != nil || got.Excess != 0 {
		t.Fatalf("honest: %v, %v, want exactly 0", got, err)
	}
	for at := int64(0); at <= 20_000; at += 25 {
		got, err := Worst(b, append(slices.Clone(honest), Event{Grant, at, at, 1}))
		if err != nil || got.Excess <= 0 || got.Over() != 1 {
			t.Fatalf("one more at %d: %v, %v", at, got, err)
		}
	}
}

// Compared with a computation by hand: a rule may be in force from the last sighting of another
// rule before it until the first one after it.
func TestInForceEqualsAComputationByHand(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for round := range 3000 {
		seen := make([]Rule, 1+rng.IntN(8))
		for i := range seen {
			from := rng.Int64N(60)
			seen[i] = Rule{From: from, To: from + rng.Int64N(12), Capacity: 1 + rng.Int64N(2), Amount: 1 + rng.Int64N(2),
				Period: 1 + rng.Int64N(2)}
		}
		want := map[[4]int64]bool{} // an instant and a rule
		for _, r := range seen {
			from, to := int64(0), int64(100)
			for _, o := range seen {
				if o.To < r.From {
					from = max(from, o.From)
				}
				if o.From > r.To {
					to = min(to, o.To)
				}
			}
			for at := from; at <= to; at++ {
				want[[4]int64{at, r.Capacity, r.Amount, r.Period}] = true
			}
		}
		got := map[[4]int64]bool{}
		for _, r := range InForce(seen) {
			for at := r.From; at <= min(r.To, 100); at++ {
				key := [4]int64{at, r.Capacity, r.Amount, r.Period}
				if got[key] {
					t.Fatalf("round %d: of %+v a rule is listed twice for %d: %+v", round, seen, at, InForce(seen))
				}
				got[key] = true
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("round %d: %+v gives %+v", round, seen, InForce(seen))
		}
	}
}
