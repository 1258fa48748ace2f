// Worker is a process that works off jobs of an API that takes 120 calls per minute
// from all workers together, in bursts of at most 4: start it as often as you like.
// Each call waits in line for its turn (Limiter.Wait), so none is sent too early, and
// none is given up. A call has cost its token once it was made, also if it fails. Ctrl-C
// ends the waiting at once, and a wait that ends gives its token back.
//
//	make dev                                    # in another shell; run here the line that it prints
//	go -C examples run ./worker
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/limiter"
)

func main() {
	jobs := flag.Int("jobs", 40, "how many jobs there are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *jobs); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, n int) error {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	l, err := limiter.Open(ctx, dynamodb.NewFromConfig(cfg), cmp.Or(os.Getenv("ZAEL_STACK"), "zae-limiter"),
		&limiter.Options{Register: true, Timeout: time.Minute}) // jobs wait anyway, also for a table that is slow
	if err != nil {
		return err
	}
	jobs := make(chan int)
	go func() {
		defer close(jobs)
		for i := 1; i <= n; i++ {
			select {
			case jobs <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	p := &pool{limiter: l, workers: 8, work: func(_ context.Context, job int) error {
		_, err := fmt.Fprintf(out, "%s job %d\n", time.Now().Format("15:04:05.000"), job)
		return err
	}}
	failed := p.run(ctx, jobs)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(failed, l.Close(ctx))
}

// pool works off jobs, several at once.
type pool struct {
	limiter *limiter.Limiter
	workers int
	work    func(ctx context.Context, job int) error
}

// run returns when jobs is closed and everything is done, or when ctx is: then nil,
// because that is how a worker ends. The first error of a job ends it too.
func (p *pool) run(ctx context.Context, jobs <-chan int) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var all sync.WaitGroup
	for range p.workers {
		all.Go(func() {
			for job := range jobs {
				if err := p.do(ctx, job); err != nil {
					end(err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (p *pool) do(ctx context.Context, job int) error {
	_, err := p.limiter.Wait(ctx, limiter.Request{ // the token stays taken, so the lease needs no end
		Entity: "workers", Resource: "partner-api", Costs: limiter.Costs{"calls": 1},
		Limits: []limiter.Limit{limiter.PerMinute("calls", 120).WithCapacity(4)},
	})
	if err == nil {
		err = p.work(ctx, job)
	}
	if err != nil {
		return fmt.Errorf("job %d: %w", job, err)
	}
	return nil
}
