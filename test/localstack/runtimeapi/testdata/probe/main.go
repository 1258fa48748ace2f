// Probe is a function whose behaviour its event chooses; the host's tests run it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

type event struct {
	Do string
}

type answer struct {
	Pid       int
	RequestID string
	LeftMs    int64
	Env       string
	ARN       string
}

func handle(ctx context.Context, ev event) (answer, error) {
	fmt.Println("probe asked to", ev.Do)
	switch ev.Do {
	case "fail":
		return answer{}, errors.New("told to fail")
	case "panic":
		panic("told to panic")
	case "exit":
		os.Exit(7)
	case "hang":
		time.Sleep(time.Hour)
	}
	lc, _ := lambdacontext.FromContext(ctx)
	deadline, _ := ctx.Deadline()
	return answer{Pid: os.Getpid(), RequestID: lc.AwsRequestID, LeftMs: time.Until(deadline).Milliseconds(),
		Env: os.Getenv("PROBE"), ARN: lc.InvokedFunctionArn}, nil
}

func main() {
	if os.Getenv("PROBE") == "refuse" {
		fmt.Fprintln(os.Stderr, "PROBE: refused to start")
		os.Exit(2)
	}
	lambda.Start(handle)
}
