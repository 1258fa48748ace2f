// Http-api is an HTTP API that is limited per key: a burst of ten requests and one
// more per second, and 20 credits per second of which a request takes as many as it
// says. The page at / shows the bucket drain and refill.
//
//	make dev                                    # in another shell; run here the line that it prints
//	go -C examples run ./http-api
//	curl -i -H 'X-Api-Key: demo' localhost:8080/api/hello
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/limiter"
)

//go:embed page.html
var page []byte

// tenants are the keys that this API knows. A program would ask a database; what it
// must not do is to limit whatever key somebody makes up.
var tenants = map[string]string{"demo": "acme", "other": "umbrella"}

var limits = []limiter.Limit{
	limiter.PerSecond("requests", 1).WithCapacity(10),
	limiter.PerSecond("credits", 20).WithCapacity(200),
}

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
	srv := &http.Server{Handler: handler(l), ReadHeaderTimeout: 5 * time.Second}
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

// handler is the API behind its limits.
func handler(l httplimit.Acquirer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("GET /api/hello", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello %s\n", httplimit.Lease(r).Entity())
	})
	return httplimit.New(l, httplimit.Options{
		Skip:    func(r *http.Request) bool { return r.URL.Path == "/" },
		Request: request,
		Fields:  []httplimit.Fields{httplimit.RateLimit, httplimit.XRateLimit},
		Settled: func(r *http.Request, err error) { log.Printf("%s %s: %v", r.Method, r.URL.Path, err) },
	})(mux)
}

// request returns what an HTTP request takes: one request, and the credits it asks for.
func request(r *http.Request) (limiter.Request, error) {
	tenant, ok := tenants[r.Header.Get("X-Api-Key")]
	if !ok {
		return limiter.Request{}, &httplimit.Error{Status: http.StatusUnauthorized, Err: errors.New("unknown key")}
	}
	credits, err := strconv.ParseInt(cmp.Or(r.FormValue("credits"), "5"), 10, 64)
	if err != nil || credits < 1 || credits > 200 {
		return limiter.Request{}, &httplimit.Error{Status: http.StatusBadRequest, Err: errors.New("credits: want 1 to 200")}
	}
	return limiter.Request{
		Entity: tenant, Resource: "api", Limits: limits, Costs: limiter.Costs{"requests": 1, "credits": credits},
	}, nil
}
