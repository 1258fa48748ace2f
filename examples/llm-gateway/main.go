// Llm-gateway stands between tenants and a language model: 60 requests and 20,000
// tokens per minute for each tenant. What an answer will take is estimated, and
// settled while it streams, so that it is right whatever ends it:
//
//   - the model is done: the tokens that it used are settled;
//   - the client goes away: the model is stopped. The request, the prompt and the answer so far
//     are settled, also if that is nothing yet;
//   - the model itself fails before its first word: everything is given back;
//   - it fails later: what it has used so far is settled, and the client gets an error;
//   - its provider refuses with 429: everything is given back, and the tenant's bucket is drained until it may
//     be asked again.
//
// The model is a parrot, so that it needs no account:
//
//	make dev                                    # in another shell; run here the line that it prints
//	go -C examples run ./llm-gateway
//	curl -N -H 'Authorization: Bearer demo' localhost:8080/v1/chat -d '{"prompt":"say it again","max_tokens":20}'
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/limiter"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "where to listen")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, addr string) error {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	l, err := limiter.Open(ctx, dynamodb.NewFromConfig(cfg), cmp.Or(os.Getenv("ZAEL_STACK"), "zae-limiter"),
		&limiter.Options{Register: true})
	if err != nil {
		return err
	}
	g := &gateway{limiter: l, model: parrot, tenants: map[string]string{"demo": "acme"}}
	srv := &http.Server{Handler: g, ReadHeaderTimeout: 5 * time.Second}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	over := make(chan error, 1)
	context.AfterFunc(ctx, func() { over <- end(srv, l) })
	log.Printf("listening on http://%s", listener.Addr())
	if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-over
}

// end waits for requests at work, which settle, and has the limiter give back what it holds.
func end(srv *http.Server, l *limiter.Limiter) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(srv.Shutdown(ctx), l.Close(ctx))
}
