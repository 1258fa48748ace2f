package desk

import "sync"

// background counts the work that runs. Unlike a [sync.WaitGroup], it accepts new work while a
// caller waits for the end.
type background struct {
	mu   sync.Mutex
	n    int
	shut bool
	idle chan struct{} // closed once nothing runs; nil while no caller waits
}

// enter is begin, unless background is closed: then it reports false.
func (b *background) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.shut {
		b.n++
	}
	return !b.shut
}

// try runs f, unless background is closed.
func (b *background) try(f func()) {
	if b.enter() {
		defer b.done()
		f()
	}
}

// close stops enter and try. It reports whether it was open.
func (b *background) close() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.shut
	b.shut = true
	return !was
}

// Go runs f in a goroutine of its own.
func (b *background) Go(f func()) {
	b.begin()
	go func() {
		defer b.done()
		f()
	}()
}

// begin counts a goroutine that is about to start and calls done at its end.
func (b *background) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
}

func (b *background) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// rest returns a channel that is closed at an instant at which nothing runs.
func (b *background) rest() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	idle := b.idle
	if idle == nil {
		idle = make(chan struct{})
	}
	if b.n == 0 {
		close(idle)
	} else {
		b.idle = idle
	}
	return idle
}
