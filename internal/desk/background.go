package desk

import "sync"

// background counts what runs without a caller that waits for it. Unlike with a [sync.WaitGroup], more may
// begin while somebody waits for the end of what runs.
type background struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed once nothing runs; nil while nobody waits
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

// Wait returns at an instant at which nothing runs.
func (b *background) Wait() {
	b.mu.Lock()
	if b.n == 0 {
		b.mu.Unlock()
		return
	}
	if b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	<-idle
}
