package ahead

// Pace keeps a process that shares a saturated bucket from chasing single tokens. The process asks
// for an allotment once in half of a life or more, with two writes at most, and denies in between.
// The zero Pace hurries nobody.
type Pace struct {
	saturated int64   // when the bucket last had too little for this process, epoch ms; 0: not lately
	asked     int64   // when the last turn began, epoch ms
	writes    int     // in that turn
	wait      float64 // how long the turn lasts, in lives: about two thirds of one
}

const (
	// saturatedFor is how long, in milliseconds, a bucket counts as saturated after it had
	// too little.
	saturatedFor = 10_000
	// writesPerTurn is how often a process may write in a turn: an old image is refused, and
	// the fresh one tells what there is.
	writesPerTurn = 2
)

// Short notes that the bucket had too little for this process.
func (p *Pace) Short(now int64) { p.saturated = now }

// Calm notes that there is plenty again.
func (p *Pace) Calm() { p.saturated = 0 }

// Saturated reports whether the bucket lately had too little.
func (p *Pace) Saturated(now int64) bool {
	return p.saturated > 0 && now-p.saturated <= saturatedFor && now >= p.saturated
}

// Free returns from when a write may be sent: now, unless the bucket is saturated and this
// process has had its turn.
func (p *Pace) Free(life, now int64) int64 {
	next := p.asked + int64(p.wait*float64(life))
	if !p.Saturated(now) || p.writes < writesPerTurn || now >= next || now < p.asked {
		return now
	}
	return next
}

// Wrote notes that a write goes out. random is any number, for the length of the turn.
func (p *Pace) Wrote(life, now int64, random uint64) {
	if now >= p.asked+int64(p.wait*float64(life)) || now < p.asked {
		p.asked, p.writes, p.wait = now, 0, 0.55+0.25*float64(random%1024)/1024
	}
	p.writes++
}

// Answered notes that a write held: the turn is over.
func (p *Pace) Answered() { p.writes = writesPerTurn }
