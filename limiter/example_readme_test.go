package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/limiter"
)

func callModel(context.Context) (tokens int64, err error) { return 1170, nil }

// Example is what the README begins with. It needs AWS and is only compiled.
func Example() {
	err := func(ctx context.Context) error {
		cfg, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return err
		}
		l, err := limiter.Open(ctx, dynamodb.NewFromConfig(cfg), "zae-limiter", &limiter.Options{Register: true})
		if err != nil {
			return err
		}
		return l.Do(ctx, limiter.Request{
			Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 1, "tpm": 800}, // 800 tokens expected
			Limits: []limiter.Limit{limiter.PerMinute("rpm", 600), limiter.PerMinute("tpm", 40_000)},
		}, func(ctx context.Context, lease *limiter.Lease) error {
			used, err := callModel(ctx)
			if err != nil {
				return err // everything is given back
			}
			return lease.Settle(limiter.Costs{"tpm": used}) // what it really was
		})
	}(context.Background())
	if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
		fmt.Println("try again in", denied.RetryAfter)
	}
}

// TestReadmeExampleIsThisOne compares the README's code with the example above.
func TestReadmeExampleIsThisOne(t *testing.T) {
	source, err := os.ReadFile("example_readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```go\n")
	code, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("the README has no Go example")
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if !strings.Contains(squeeze(string(source)), squeeze(code)) {
		t.Errorf("the README's example is not the one compiled here:\n%s", code)
	}
	if n := strings.Count(code, "\n"); n > 15 {
		t.Errorf("the README's example has %d lines, which nobody reads", n)
	}
}
