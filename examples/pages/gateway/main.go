// The program of docs/llm-gateway.md: a gateway to a model with limits and a budget.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/limiter"
)

const price = 15 // of a token, in millionths of a dollar

// model returns a piece of its answer and the tokens that it took; io.EOF at the end.
type model func(context.Context) (text string, tokens int64, err error)

// errModel is a failure of the model itself: no client that leaves, and no prompt that it rejects.
var errModel = errors.New("the model has failed")

func request(tenant string, tokens int64) limiter.Request {
	return limiter.Request{
		Entity: tenant, Resource: "gpt-4", Costs: limiter.Costs{"rpm": 1, "tpm": tokens, "budget": tokens * price},
	}
}

// stream sends what the model answers, and settles what that has cost. Settle is no call: Do writes the last one.
func stream(ctx context.Context, l *limiter.Limiter, req limiter.Request,
	prompt int64, next model, w io.Writer) error {
	return l.Do(ctx, req, func(ctx context.Context, lease *limiter.Lease) error {
		settle := func(tokens int64) error {
			return lease.Settle(limiter.Costs{"tpm": tokens, "budget": tokens * price})
		}
		used := prompt // the model reads it, whatever happens then
		if err := settle(used); err != nil {
			return err
		}
		for {
			text, tokens, err := next(ctx)
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case errors.Is(err, errModel) && used == prompt && ctx.Err() == nil: // before its first token: all is given back
				return errors.Join(err, lease.Settle(limiter.Costs{"rpm": 0, "tpm": 0, "budget": 0}))
			case err != nil:
				return err // settled tokens stay taken
			}
			used += tokens
			if err := settle(used); err != nil {
				return err
			}
			if _, err := io.WriteString(w, text); err != nil {
				return err // the client has gone away
			}
		}
	})
}

// echo stands for the model: it answers with the prompt, a word for each token.
func echo(prompt string) model {
	words := strings.Fields(prompt)
	return func(context.Context) (string, int64, error) {
		if len(words) == 0 {
			return "", 0, io.EOF
		}
		word := words[0] + "\n"
		words = words[1:]
		return word, 1, nil
	}
}

func main() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	l, err := limiter.Open(ctx, dynamodb.NewFromConfig(cfg), "zae-limiter", nil)
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		prompt := r.FormValue("prompt")
		tokens := int64(len(strings.Fields(prompt)))
		req := request("acme", tokens+100) // acme: whose key it is; 100 more are expected
		err := stream(r.Context(), l, req, tokens, echo(prompt), w)
		if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
			httplimit.WriteDenied(w, r, httplimit.Denial{LimitError: denied, Request: req})
		} else if err != nil {
			log.Print(err)
			httplimit.WriteFailed(w, r, err)
		}
	})
	log.Fatal(http.ListenAndServe("localhost:8080", nil))
}
