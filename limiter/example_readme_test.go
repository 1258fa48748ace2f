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

// errModel is a failure of the model itself, which no client can cause.
var errModel = errors.New("the model has failed")

// Example is what the README begins with. It needs AWS and is only compiled.
func Example() {
	err := func(ctx context.Context) error {
		cfg, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return err
		}
		l, err := limiter.Open(ctx, dynamodb.NewFromConfig(cfg), "zae-limiter", nil)
		if err != nil {
			return err
		}
		if err := l.Allow(ctx, "acme", limiter.PerSecond("rps", 10)); err != nil {
			return err // denied: a *limiter.LimitError says when to try again
		}
		request := limiter.Request{
			Entity: "acme", Resource: "gpt-4", Costs: limiter.Costs{"rpm": 1, "tpm": 800}, // 800 tokens expected
			Limits: []limiter.Limit{limiter.PerMinute("rpm", 600), limiter.PerMinute("tpm", 40_000)},
		}
		return l.Do(ctx, request, func(ctx context.Context, lease *limiter.Lease) error {
			used, err := callModel(ctx)
			if errors.Is(err, errModel) {
				return err // the model itself has failed: everything is given back
			}
			if err != nil {
				return errors.Join(err, lease.Settle(nil)) // the client left, say: the estimate stays taken
			}
			return lease.Settle(limiter.Costs{"tpm": used}) // what it really was
		})
	}(context.Background())
	if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
		fmt.Println("try again in", denied.RetryAfter)
	}
}

// TestReadmeExampleIsThisOne compares the README's code with the example above. Ten
// lines limit; the second piece is for costs that are known afterwards.
func TestReadmeExampleIsThisOne(t *testing.T) {
	source, err := os.ReadFile("example_readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	pieces := strings.Split(string(readme), "```go\n")[1:]
	if len(pieces) != 2 {
		t.Fatalf("the README has %d pieces of Go, want 2", len(pieces))
	}
	for _, piece := range pieces {
		code, _, _ := strings.Cut(piece, "```")
		if !strings.Contains(squeeze(string(source)), squeeze(code)) {
			t.Errorf("the README's example is not the one compiled here:\n%s", code)
		}
		if n := strings.Count(code, "\n"); n > 10 {
			t.Errorf("the README's example has %d lines, want at most 10:\n%s", n, code)
		}
	}
}
