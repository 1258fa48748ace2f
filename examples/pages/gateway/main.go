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

// stream sends what the model answers, and settles what that has cost.
func stream(ctx context.Context, l *limiter.Limiter, tenant string, expected int64, next model, w io.Writer) error {
	return l.Do(ctx, limiter.Request{
		Entity: tenant, Resource: "gpt-4", Costs: limiter.Costs{"rpm": 1, "tpm": expected, "budget": expected * price},
	}, func(ctx context.Context, lease *limiter.Lease) error {
		var used int64
		for {
			text, tokens, err := next(ctx)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err // nothing used yet: all is given back; else what was used stays settled
			}
			used += tokens // Settle is no call: Do writes the last one, once, at the end
			if err := lease.Settle(limiter.Costs{"tpm": used, "budget": used * price}); err != nil {
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
		err := stream(r.Context(), l, "acme", 100, echo(r.FormValue("prompt")), w) // acme: whose key it is
		if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
			httplimit.WriteDenied(w, r, httplimit.Denial{LimitError: denied})
		} else if err != nil {
			log.Print(err)
			httplimit.WriteFailed(w, r, err)
		}
	})
	log.Fatal(http.ListenAndServe("localhost:8080", nil))
}
