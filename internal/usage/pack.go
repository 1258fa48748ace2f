package usage

import (
	"encoding/binary"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// stateVersion is the first byte of the state. A state of another version is treated as lost.
const stateVersion = 3

// packer encodes a state.
type packer struct {
	b    []byte
	base int64 // epoch seconds; instants are encoded relative to it
	at   ledger.Position
	last string // the previous key; the next one omits the beginning they share

	names map[string]uint64 // lists of limits, numbered in order of appearance
	now   []ledger.Count    // the last such list, and its number
	named uint64
}

func (w *packer) uint(n uint64)  { w.b = binary.AppendUvarint(w.b, n) }
func (w *packer) int(n int64)    { w.b = binary.AppendVarint(w.b, n) }
func (w *packer) text(s string)  { w.uint(uint64(len(s))); w.b = append(w.b, s...) }
func (w *packer) bytes(s []byte) { w.uint(uint64(len(s))); w.b = append(w.b, s...) }

// first writes the base values to which the rest is relative.
func (w *packer) first(parts []Part) {
	w.b = append(w.b, stateVersion)
	if len(parts) > 0 {
		w.base, w.at = parts[0].Start/1000, parts[0].Runs[0].First
		for i := range parts {
			if p := parts[i].Runs[0].First; p.Compare(w.at) < 0 {
				w.at = p
			}
		}
	}
	w.int(w.base)
	w.int(w.at.Stream)
	w.bytes(w.at.Pack())
	w.uint(uint64(len(parts)))
}

// key writes the key of a bucket, without the beginning shared with the previous one.
func (w *packer) key(ns, resource, entity string) {
	k := ns + "\x00" + resource + "\x00" + entity
	same := 0
	for same < len(k) && same < len(w.last) && k[same] == w.last[same] {
		same++
	}
	w.uint(uint64(same))
	w.text(k[same:])
	w.last = k
}

// The bits of a part's and of a run's first byte.
const (
	partFresh = 1 << iota
	partFollows
	partManyRuns
	partSharded
	partBirth
)

const (
	runBorn = 1 << iota
	runGone
	runWide
	runLives // two lives instead of one
	runFar   // positions in full instead of distances
	runMoved // To has other limits than From
)

// flag returns a bit that is on, and else 0.
func flag(on bool, bit byte) byte {
	if on {
		return bit
	}
	return 0
}

func (w *packer) part(p *Part) {
	w.key(p.Namespace, p.Resource, p.Entity)
	w.b = append(w.b, flag(p.Clock >= p.Start, partFresh)|flag(p.Follows != 0, partFollows)|
		flag(len(p.Runs) != 1, partManyRuns)|flag(p.Shard != 0, partSharded)|flag(p.Birth != 0, partBirth))
	if p.Shard != 0 {
		w.uint(uint64(p.Shard))
	}
	w.int(p.Start/1000 - w.base)
	w.int((p.Oldest - p.Start) / 1000)
	if p.Follows != 0 {
		w.int(p.Follows/1000 - w.base)
	}
	if p.Birth != 0 {
		w.int((p.Start - p.Birth) / 1000)
	}
	if len(p.Runs) != 1 {
		w.uint(uint64(len(p.Runs)))
	}
	for i := range p.Runs {
		w.run(&p.Runs[i])
	}
}

func (w *packer) run(r *Run) {
	toFirst, near := r.First.Since(w.at)
	toLast, nearer := r.Last.Since(r.First)
	same := sameLimits(r.From, r.To)
	w.b = append(w.b, flag(r.Born, runBorn)|flag(r.Gone, runGone)|flag(r.Wide, runWide)|
		flag(r.FromGen != r.ToGen, runLives)|flag(!near || !nearer, runFar)|flag(!same, runMoved), r.FromGen)
	if r.FromGen != r.ToGen {
		w.b = append(w.b, r.ToGen)
	}
	if near && nearer {
		w.uint(toFirst)
		w.uint(toLast)
	} else {
		for _, p := range []ledger.Position{r.First, r.Last} {
			w.int(p.Stream)
			w.bytes(p.Pack())
		}
	}
	w.uint(uint64(r.Events))
	w.limits(r.From)
	for _, c := range r.From {
		w.int(c.Tokens)
	}
	if !same {
		w.limits(r.To)
	}
	for i, c := range r.To {
		if same {
			c.Tokens -= r.From[i].Tokens
		}
		w.int(c.Tokens)
	}
}

// limits writes the names of counters: in full the first time, then by number.
func (w *packer) limits(counts []ledger.Count) {
	if w.now != nil && sameLimits(w.now, counts) {
		w.uint(w.named)
		return
	}
	var all packer
	for _, c := range counts {
		all.text(c.Limit)
	}
	n, ok := w.names[string(all.b)]
	if !ok {
		n = uint64(len(w.names))
		w.names[string(all.b)] = n
	}
	w.now, w.named = counts, n
	if w.uint(n); !ok {
		w.bytes(all.b)
	}
}

// sameLimits reports whether two lists count the same limits.
func sameLimits(a, b []ledger.Count) bool {
	return slices.EqualFunc(a, b, func(a, b ledger.Count) bool { return a.Limit == b.Limit })
}
