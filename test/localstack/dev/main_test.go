package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// Who sets the environment that is printed, and nothing else, can be limited.
func TestEnvironmentFindsTheTable(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, w)
		w.CloseWithError(err)
		ended <- err
	}()
	lines := bufio.NewScanner(r)
	for set := 0; set < 5 && lines.Scan(); {
		if pair, ok := strings.CutPrefix(lines.Text(), "export "); ok {
			name, value, _ := strings.Cut(pair, "=")
			t.Setenv(name, value)
			set++
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l, err := limiter.Open(t.Context(), dynamodb.NewFromConfig(cfg), table, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Acquire(t.Context(), limiter.Request{
		Entity: "acme", Resource: "api", Costs: limiter.Costs{"rpm": 1},
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)},
	})
	if err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
