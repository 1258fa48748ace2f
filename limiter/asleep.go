package limiter

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/queue"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// sleep waits until the debt of a request is paid back. It reports whether ctx let it.
func (l *Limiter) sleep(ctx context.Context, owed []queue.Owed, after time.Duration) bool {
	s := l.sleepers.Add(owed)
	defer l.sleepers.Remove(s)
	timer, looks := time.NewTimer(after), time.NewTimer(queue.LongestPause)
	defer timer.Stop()
	defer looks.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-s.Sooner():
			timer.Reset(wait(l.now(), max(l.sleepers.Until(s), l.now())))
		case <-looks.C:
			looks.Reset(l.lookFor(ctx, s))
		case <-ctx.Done():
			return false
		}
	}
}

// lookFor reads the shards that a sleeper owes on, for all that sleep for them. A shard that
// it cannot read changes nothing: they sleep for as long as they knew. It returns when to look
// again.
func (l *Limiter) lookFor(ctx context.Context, s *queue.Sleeper) time.Duration {
	looks, next := l.sleepers.Due(s)
	if len(looks) == 0 {
		return next
	}
	l.background.Go(func() {
		_ = guarded(func() {
			bounded := l.bounded(context.WithoutCancel(ctx)) // others go by it, also if this one leaves
			defer bounded.end()
			for _, k := range looks {
				items, err := l.store.Read(bounded, true, k.Key)
				if err != nil || items[0] == nil {
					continue
				}
				if b, err := table.DecodeShard(items[0]); err == nil {
					l.sleepers.Saw(k, b)
				}
			}
		})
	})
	return next
}
