package usage

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// unpacker decodes a state. Once bad, it stays bad.
type unpacker struct {
	b    []byte
	bad  bool
	base int64
	at   ledger.Position
	last []byte // the previous key; the next one omits the beginning they share

	ns, resource string // of the previous key
	names        [][]string

	// Runs and counts are cut from these, because there are thousands.
	runs   []Run
	counts []ledger.Count
}

// cut returns an empty slice with room for n elements from a larger one; nil if n is zero.
func cut[T any](from *[]T, n int) []T {
	const atOnce = 1000
	if n == 0 {
		return nil
	}
	if len(*from) < n {
		*from = make([]T, max(n, atOnce))
	}
	out := (*from)[:0:n]
	*from = (*from)[n:]
	return out
}

func (r *unpacker) fail() { r.bad, r.b = true, nil }

func (r *unpacker) uint() uint64 { return number(r, binary.Uvarint) }
func (r *unpacker) int() int64   { return number(r, binary.Varint) }

func number[N any](r *unpacker, read func([]byte) (N, int)) (n N) {
	n, size := read(r.b)
	if size <= 0 {
		r.fail()
	} else {
		r.b = r.b[size:]
	}
	return n
}

func (r *unpacker) byte() byte { return r.bytes(1)[0] }

// bytes returns n bytes, or a single zero if there are fewer.
func (r *unpacker) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return []byte{0}
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *unpacker) text() string { return string(r.bytes(r.uint())) }

// count reads the number of following elements, each of at least one byte.
func (r *unpacker) count() int {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.fail()
		return 0
	}
	return int(n)
}

// millis reads a number of seconds after an instant; a result out of range is bad.
func (r *unpacker) millis(from int64) int64 {
	const most = math.MaxInt64 / 4000
	at := bucket.AddSat(from, r.int())
	if at > most || at < -most {
		r.fail()
		return 0
	}
	return at * 1000
}

func (r *unpacker) position() ledger.Position {
	stream := r.int()
	p, ok := ledger.UnpackPosition(stream, r.bytes(r.uint()))
	if !ok {
		r.fail()
	}
	return p
}

func (r *unpacker) parts() []Part {
	if r.byte() != stateVersion {
		r.fail()
	}
	r.base = r.millis(0) / 1000
	r.at = r.position()
	n := r.count()
	parts := make([]Part, 0, n)
	for range n {
		parts = append(parts, r.part())
	}
	return parts
}

func (r *unpacker) key() (ns, resource, entity string) {
	same := r.uint()
	if same > uint64(len(r.last)) {
		r.fail()
		return "", "", ""
	}
	r.last = append(r.last[:same], r.bytes(r.uint())...)
	first, rest, ok := bytes.Cut(r.last, []byte{0})
	second, third, also := bytes.Cut(rest, []byte{0})
	if !ok || !also {
		r.fail()
	}
	if string(first) != r.ns {
		r.ns = string(first)
	}
	if string(second) != r.resource {
		r.resource = string(second)
	}
	return r.ns, r.resource, string(third)
}

func (r *unpacker) part() (p Part) {
	p.Namespace, p.Resource, p.Entity = r.key()
	flags := r.byte()
	if flags&partSharded != 0 {
		shard := r.uint()
		if shard > math.MaxInt32 {
			r.fail()
		}
		p.Shard = int(shard)
	}
	p.Start = r.millis(r.base)
	p.Oldest = r.millis(p.Start / 1000)
	if flags&partFresh != 0 {
		p.Clock = p.Start
	}
	if flags&partFollows != 0 {
		p.Follows = r.millis(r.base)
	}
	if flags&partBirth != 0 {
		p.Birth = p.Start - r.millis(0)
	}
	runs := 1
	if flags&partManyRuns != 0 {
		runs = r.count()
	}
	if runs == 0 {
		r.fail()
	}
	p.Runs = cut(&r.runs, runs)
	for range runs {
		p.Runs = append(p.Runs, r.run())
	}
	return p
}

func (r *unpacker) run() (run Run) {
	flags := r.byte()
	run.Born, run.Gone, run.Wide = flags&runBorn != 0, flags&runGone != 0, flags&runWide != 0
	run.FromGen = r.byte()
	run.ToGen = run.FromGen
	if flags&runLives != 0 {
		run.ToGen = r.byte()
	}
	if flags&runFar != 0 {
		run.First, run.Last = r.position(), r.position()
	} else {
		run.First = r.at.Plus(r.uint())
		run.Last = run.First.Plus(r.uint())
	}
	run.Events = int64(r.uint())
	names := r.limits()
	run.From = cut(&r.counts, len(names))
	for _, name := range names {
		run.From = append(run.From, ledger.Count{Limit: name, Tokens: r.int()})
	}
	same := flags&runMoved == 0
	if !same {
		names = r.limits()
	}
	run.To = cut(&r.counts, len(names))
	for i, name := range names {
		c := ledger.Count{Limit: name, Tokens: r.int()}
		if same {
			c.Tokens += run.From[i].Tokens
		}
		run.To = append(run.To, c)
	}
	return run
}

func (r *unpacker) limits() []string {
	n := r.uint()
	if n < uint64(len(r.names)) {
		return r.names[n]
	}
	if n > uint64(len(r.names)) {
		r.fail()
		return nil
	}
	all := unpacker{b: r.bytes(r.uint())}
	var list []string
	for len(all.b) > 0 {
		list = append(list, all.text())
	}
	r.bad = r.bad || all.bad
	r.names = append(r.names, list)
	return list
}
