// The program of docs/lambda.md: a worker that waits until each job may begin.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/limiter"
)

type job struct{ Tenant string }

func worker(ctx context.Context, l *limiter.Limiter, jobs <-chan job, work func(job) error) error {
	for j := range jobs {
		_, err := l.Wait(ctx, limiter.Request{Entity: j.Tenant, Resource: "jobs", Costs: limiter.Costs{"rpm": 1}})
		if err != nil {
			return err
		}
		if err := work(j); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	l, err := limiter.Open(ctx, dynamodb.NewFromConfig(cfg), "zae-limiter", nil)
	if err != nil {
		log.Fatal(err)
	}
	jobs := make(chan job, 10) // your queue
	for range cap(jobs) {
		jobs <- job{"acme"}
	}
	close(jobs)
	err = worker(ctx, l, jobs, func(j job) error {
		_, err := fmt.Println(time.Now().Format(time.TimeOnly), j.Tenant)
		return err
	})
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := errors.Join(err, l.Close(end)); err != nil {
		log.Print(err)
	}
}
