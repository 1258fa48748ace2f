package table

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

var rpm80 = []bucket.Limit{newRate("rpm", 80_000, 60_000)}

// shardGeneration is a generation of a shard.
type shardGeneration struct {
	shard      int
	generation int64
}

// lives are the items of a bucket with up to two shards, and all their generations.
type lives struct {
	t      *testing.T
	items  map[int]item.Item
	had    map[shardGeneration]bool
	drawn  uint64
	defect string
	played int
}

func (l *lives) image(k int) Shard { return decode(l.t, l.items[k]) }

const ( // defects of generations
	keptOnly = "a merge is later than the shard that is kept only"
	clock    = "a generation is the instant of the write"
	undrawn  = "nothing is drawn"
)

// writes plans a step, or returns nil if it is impossible.
func (l *lives) writes(step string, now int64) []item.Write {
	_, zero := l.items[0]
	_, one := l.items[1]
	split := zero && l.image(0).State.Shards > 1
	l.drawn++
	n := NewBucket{Namespace: "ns", Entity: "e", Resource: "r", Costs: Costs(rpm80), Now: now, Draw: l.drawn}
	switch {
	case step == "create" && !zero && !one:
		put, _ := Create(n)
		return []item.Write{put}
	case step == "create empty" && !zero && one:
		put, _ := CreateEmpty(n, 2)
		return []item.Write{put}
	case step == "split" && zero && !split && !one:
		return Split(l.image(0), now)
	case step == "merge" && split && one:
		return Merge(l.image(0), l.image(1), 1, now)
	case step == "discount" && split && !one:
		return Discount(l.image(0), 1, now)[:1]
	case step == "restore" && split && !one:
		return Restore(l.image(0), 1, 2, now, l.drawn)[:1]
	case step == "raise 0" && zero:
		return []item.Write{Raise(l.image(0), nil, now)}
	case step == "raise 1" && one:
		return []item.Write{Raise(l.image(1), nil, now)}
	case step == "delete 0" && zero:
		return []item.Write{item.Delete{Key: l.image(0).Key()}}
	case step == "delete 1" && one:
		return []item.Write{item.Delete{Key: l.image(1).Key()}}
	}
	return nil
}

// step runs a step, and reports whether it is possible.
func (l *lives) step(step string, now int64) bool {
	var kept Shard
	if step == "merge" && l.items[0] != nil {
		kept = l.image(0)
	}
	writes := l.writes(step, now)
	for _, w := range writes {
		_, _, _, k, _ := layout.ParseBucketPK(w.Target().PK)
		was := l.items[k]
		after := applied(l.t, w, was)
		if delete(l.items, k); after == nil {
			continue
		}
		l.items[k] = after
		b := l.image(k)
		const drawn = 1<<12 - 1
		switch {
		case l.defect == keptOnly && step == "merge":
			b.Generation = max(Began(kept.Generation)+1, now)<<12 | b.Generation&drawn
		case l.defect == clock:
			b.Generation = now<<12 | b.Generation&drawn
		case l.defect == undrawn:
			b.Generation &^= drawn
		}
		l.items[k] = maps.Clone(after)
		l.items[k]["gn"] = item.N(b.Generation)
	}
	return writes != nil
}

// begun records the generations that a step began. It returns one that was used before, or one that
// began before another of its shard although nothing was deleted.
func (l *lives) begun(was map[int]item.Item, byHand bool) (begun []shardGeneration, back string) {
	for k, it := range l.items {
		n := shardGeneration{k, l.image(k).Generation}
		if was[k] != nil && fmt.Sprint(was[k]["gn"]) == fmt.Sprint(it["gn"]) {
			continue
		}
		for o := range l.had {
			if o == n || !byHand && o.shard == k && Began(o.generation) >= Began(n.generation) {
				return begun, fmt.Sprintf("shard %d began at %d after %d", k, Began(n.generation)-when,
					Began(o.generation)-when)
			}
		}
		l.had[n] = true
		begun = append(begun, n)
	}
	return begun, ""
}

const when = 1_700_000_000_000

// search runs every sequence of steps, with two clocks for each step. It returns the first sequence
// in which a generation comes back.
func (l *lives) search(steps []string, depth int, byHand bool, path string) (back string) {
	l.played++
	for _, s := range steps[:len(steps)*min(depth, 1)] {
		for _, ahead := range []int64{0, 3} {
			was, drawn := maps.Clone(l.items), l.drawn
			if !l.step(s, when+ahead) {
				break
			}
			begun, back := l.begun(was, byHand)
			path := fmt.Sprintf("%s, %s at %d", path, s, ahead)
			if back != "" {
				back = path + ": " + back
			} else {
				back = l.search(steps, depth-1, byHand, path)
			}
			for _, n := range begun {
				delete(l.had, n)
			}
			l.items, l.drawn = was, drawn
			if back != "" {
				return back
			}
		}
	}
	return ""
}

// In every sequence of steps on two shards, generations are unique: each life and each set of rules
// has its own. The writers' clocks differ by three milliseconds, and no time passes. Without
// deletions the instants increase too, so they alone order images. Each planted defect breaks this
// in some sequence.
func TestGenerationsAreUnique(t *testing.T) {
	seen := []string{"split", "merge", "raise 0", "raise 1"}
	byHand := []string{"create", "create empty", "split", "merge", "discount", "restore", "raise 1", "delete 0",
		"delete 1"}
	for _, tt := range []struct {
		defect string
		steps  []string
		depth  int
	}{
		{"", seen, 6}, {keptOnly, seen, 6}, {clock, seen, 6}, {"", byHand, 5}, {clock, byHand, 5}, {undrawn, byHand, 5},
	} {
		back, played := "", 0
		for depth := 1; depth <= tt.depth && back == ""; depth++ { // find the shortest sequence
			l := &lives{t: t, items: map[int]item.Item{}, had: map[shardGeneration]bool{}, defect: tt.defect}
			l.step("create", when)
			l.begun(nil, false)
			back = l.search(tt.steps, depth, len(tt.steps) > len(seen), "create")
			played += l.played
		}
		t.Logf("%d sequences, %s: %s", played, cmp.Or(tt.defect, "no defect"), cmp.Or(back, "none comes back"))
		check.Equal(t, back != "", tt.defect != "", "defect %q: %q", tt.defect, back)
	}
}

// Successive generations differ in the byte that usage stores, whenever they begin; by chance, a
// dozen in 3,000 would not. The random bits of the life stay.
func TestSuccessiveGenerationsDifferInTheirByte(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	now := int64(when)
	_, b := create(when, Costs(rpm80))
	for i := range 3000 {
		now += r.Int64N(1000)
		next := decode(t, applied(t, Raise(b, nil, now), b.Item()))
		if GenerationByte(next.Generation) == GenerationByte(b.Generation) || next.Generation <= b.Generation ||
			next.Generation%4096 != 7 {
			t.Fatalf("generation %d after %d, the %dth", next.Generation, b.Generation, i)
		}
		b = next
	}
}

// A generation at the end of the range is followed by one that begins now.
func TestTheLastGenerationIsFollowedByANewOne(t *testing.T) {
	_, b := create(when, Costs(rpm80))
	for _, last := range []int64{1<<63 - 1, 1<<63 - 1<<12, 1<<63 - 1<<13} {
		b.Generation = last
		after := applied(t, Raise(b, nil, when+5), b.Item())
		want := int64(when + 5)
		if last == 1<<63-1<<13 { // one is left
			want = 1<<51 - 1
		}
		if got := Began(decode(t, after).Generation); got < want || got > want+1 {
			t.Errorf("after %d: began at %d, want %d", last, got, want)
		}
	}
}

// A generation's byte is 0 only if there is no generation. All other bytes are about equally
// frequent.
func TestGenerationBytesAreEvenlyDistributed(t *testing.T) {
	check.Equal(t, GenerationByte(0), 0, "no generation")
	var often [256]int
	for i := range int64(255 * 100) {
		often[GenerationByte((sampleNow+i)<<drawBits)]++
	}
	for b, n := range often {
		if few := n < 60 || n > 140; few != (b == 0) || b == 0 && n > 0 {
			t.Errorf("%d of 25,500 generations have the byte %d", n, b)
		}
	}
}
