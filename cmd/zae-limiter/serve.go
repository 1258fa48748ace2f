package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/envoylimit"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// serveFlags are the settings of serve.
type serveFlags struct {
	config, grpc, http  string
	cert, key, clientCA string
	ahead               time.Duration
}

func serveCommand(a *app) *cobra.Command {
	var f serveFlags
	cmd := a.does(&cobra.Command{
		Use: "serve --config FOLDER", Short: "answer Envoy's rate limit service, until SIGTERM",
		Long: `Answer Envoy, and all that speaks its rate limit service v3 (gRPC), from the table. The
rules are the *.yaml files of a folder, as envoyproxy/ratelimit reads them. They are read
again when they change; ones with errors are refused, and the old ones stay in force.
Limits that are stored for the same entity and resource, with the name requests, win.

HTTP has POST /json (the same requests, in JSON), /healthz and /metrics (Prometheus), and
neither TLS nor authentication: let only your own network reach it.

With --tls-cert and --tls-key gRPC has TLS, and with --tls-client-ca clients need a
certificate too. The files are read for every connection, so they can be exchanged.

SIGTERM ends it when the requests at work are answered, after ten seconds at most. Then
what it has taken ahead is given back.`,
		Example: "  zae-limiter serve --config /etc/ratelimit\n" +
			"  zae-limiter serve --config rules --grpc localhost:8081 --http ''",
		Args: args(0, 0),
		PreRunE: func(c *cobra.Command, _ []string) error {
			switch {
			case f.config == "":
				return usage(c, "--config is missing, want the folder of the rules")
			case f.grpc == "" && f.http == "":
				return usage(c, "--grpc and --http are both empty, want an address")
			case (f.cert == "") != (f.key == ""), f.clientCA != "" && f.cert == "":
				return usage(c, "want --tls-cert with --tls-key, and --tls-client-ca only with both")
			}
			return nil
		},
	}, func(c *call) (answer, error) {
		timeout := time.Duration(0)
		if c.cmd.Flags().Changed("timeout") {
			timeout = a.timeout
		}
		return answer{}, a.serve(c.ctx, f, timeout)
	})
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "folder of the rules")
	fs.StringVar(&f.grpc, "grpc", ":8081", "address of gRPC; empty: none")
	fs.StringVar(&f.http, "http", ":8080", "address of HTTP; empty: none")
	fs.StringVar(&f.cert, "tls-cert", "", "file of the certificate, PEM")
	fs.StringVar(&f.key, "tls-key", "", "file of its key, PEM")
	fs.StringVar(&f.clientCA, "tls-client-ca", "", "file of the authorities of clients, PEM")
	fs.DurationVar(&f.ahead, "ahead", 500*time.Millisecond, "how long tokens are taken ahead at most; 0: not at all")
	return cmd
}

// lookEvery is how often the rules are looked at. They are in force after two looks.
const lookEvery = time.Second

// serve serves until ctx ends.
func (a *app) serve(ctx context.Context, f serveFlags, timeout time.Duration) error {
	config, err := envoylimit.ReadFolder(f.config)
	if err != nil {
		return err
	}
	m := newMetrics()
	l, err := a.limiter(ctx, &limiter.Options{Namespace: a.namespace, Ahead: f.ahead, Timeout: timeout,
		Observe: func(_ context.Context, e limiter.Event) { m.event(e) }})
	if err != nil {
		return err
	}
	tell := a.seldom()
	service := envoylimit.New(l, config, envoylimit.Options{Decided: func(_ context.Context, d envoylimit.Decision) {
		if m.decision(d); d.Err != nil {
			tell(d.Err)
		}
	}})
	s, err := a.listen(f, service, m)
	if err != nil {
		return err
	}
	a.progress.end() // it has begun: no work of a command goes on
	a.progress = nil
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() {
		envoylimit.Watch(ctx, f.config, config, lookEvery, func(c *envoylimit.Config, err error) {
			if m.config(err); err != nil {
				a.say("the rules are refused, the old ones stay in force:\n%v", err)
				return
			}
			service.SetConfig(c)
			a.say("the rules are in force anew")
		})
	})
	err = s.run(ctx)
	cancel()
	watching.Wait()
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer done()
	return errors.Join(err, l.Close(closing))
}

// limiter opens the table to take from.
func (a *app) limiter(ctx context.Context, opts *limiter.Options) (*limiter.Limiter, error) {
	if a.memory != nil {
		opts.Now = a.memory.Now
		return limiter.Open(ctx, a.memory, a.table, opts)
	}
	db, err := a.database(ctx)
	if err != nil {
		return nil, err
	}
	return limiter.Open(ctx, db, a.table, opts)
}

// seldom returns a function that prints errors, one a second at most.
func (a *app) seldom() func(error) {
	var mu sync.Mutex
	var last time.Time
	left := 0
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) < time.Second {
			left++
			return
		}
		if left > 0 {
			err = fmt.Errorf("%w (and %d more)", err, left)
		}
		last, left = time.Now(), 0
		a.say("no decision: %v", err)
	}
}

// servers are the two servers of serve; nil is one that is not asked for.
type servers struct {
	grpc    *grpc.Server
	http    *http.Server
	listens map[string]net.Listener
	health  interface{ Shutdown() }
}

// listen makes the servers, and listens before any of them serves.
func (a *app) listen(f serveFlags, service *envoylimit.Service, m *metrics) (s *servers, err error) {
	s = &servers{listens: map[string]net.Listener{}}
	defer func() {
		for _, l := range s.listens {
			if err != nil {
				_ = l.Close()
			}
		}
	}()
	if f.grpc != "" {
		if s.grpc, s.health, err = grpcServer(f, service); err != nil {
			return s, err
		}
	}
	if f.http != "" {
		s.http = httpServer(service, m)
	}
	for name, address := range map[string]string{"gRPC": f.grpc, "HTTP": f.http} {
		if address == "" {
			continue
		}
		if s.listens[name], err = net.Listen("tcp", address); err != nil {
			delete(s.listens, name)
			return s, err
		}
		a.say("%s on %s", name, s.listens[name].Addr())
	}
	return s, nil
}

// run serves until ctx ends or one of the servers fails, and ends both.
func (s *servers) run(ctx context.Context) error {
	ended := make(chan error, 2)
	if s.grpc != nil {
		go func() { ended <- s.grpc.Serve(s.listens["gRPC"]) }()
	}
	if s.http != nil {
		go func() { ended <- s.http.Serve(s.listens["HTTP"]) }()
	}
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-ended:
	}
	return errors.Join(failed, s.stop())
}

// stopWithin is how long requests at work have to be answered.
const stopWithin = 10 * time.Second

// stop ends the servers when the requests at work are answered.
func (s *servers) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	var all sync.WaitGroup
	if s.grpc != nil {
		s.health.Shutdown()
		stopped := make(chan struct{})
		go func() { s.grpc.GracefulStop(); close(stopped) }()
		all.Go(func() {
			select {
			case <-stopped:
			case <-ctx.Done():
				s.grpc.Stop()
			}
		})
	}
	var err error
	if s.http != nil {
		if err = s.http.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
			err = s.http.Close()
		}
	}
	all.Wait()
	return err
}
