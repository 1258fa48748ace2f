package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/envoylimit"
	"github.com/zeroae/zae-limiter-go/limiter"
)

type serveFlags struct {
	config, grpc, http  string
	cert, key, clientCA string
	ahead               time.Duration
}

func serveCommand(a *app) *cobra.Command {
	var f serveFlags
	cmd := a.inNamespace(&cobra.Command{
		Use: "serve [--config FOLDER]", Short: "serve Envoy, and programs in any language, until SIGTERM",
		Long: `Serve programs in any language with an HTTP API, which /openapi.yaml describes, and with
--config also Envoy and other clients of its rate limit service v3 (gRPC).

The rules for Envoy are the *.yaml files of a folder, as envoyproxy/ratelimit reads them.
They are read again when they change; rules with errors are refused, and the old ones stay in
force. Limits named requests that are stored for the same entity and resource override them.

HTTP also has POST /json (requests of Envoy's service, in JSON), /healthz and /metrics
(Prometheus). It has neither TLS nor authentication: let only your own network reach it.

With --tls-cert and --tls-key gRPC has TLS, and with --tls-client-ca clients need a
certificate too. The files are read for every connection, so they can be replaced.

SIGTERM ends it when running requests are answered, after at most ten seconds. Then leases
of the API end: their tokens stay taken, and their slots are free. Tokens taken ahead are
given back, and pending settlements are written.`,
		Example: "  zae-limiter serve --http localhost:8080\n" +
			"  zae-limiter serve --config /etc/ratelimit --http ''",
		PreRunE: func(c *cobra.Command, _ []string) error {
			switch {
			case f.config == "" && c.Flags().Changed("grpc"):
				return usage(c, "want --grpc only with --config, the folder of its rules")
			case f.http == "" && (f.grpc == "" || f.config == ""):
				return usage(c, "there is nothing to serve, want an address for --http, or --config and one for --grpc")
			case (f.cert == "") != (f.key == ""), f.clientCA != "" && f.cert == "":
				return usage(c, "want --tls-cert with --tls-key, and --tls-client-ca only with both")
			}
			if f.config == "" {
				f.grpc = ""
			}
			return nil
		},
	}, func(c *call) (answer, error) {
		timeout := time.Duration(0)
		if c.cmd.Flags().Changed("timeout") {
			timeout = a.timeout
		}
		return answer{}, c.serve(f, timeout)
	})
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "folder of the rules for Envoy; empty: no Envoy")
	fs.StringVar(&f.grpc, "grpc", ":8081", "address of gRPC; empty: none")
	fs.StringVar(&f.http, "http", ":8080", "address of HTTP; empty: none")
	fs.StringVar(&f.cert, "tls-cert", "", "file of the certificate, PEM")
	fs.StringVar(&f.key, "tls-key", "", "file of the certificate's key, PEM")
	fs.StringVar(&f.clientCA, "tls-client-ca", "", "file of the clients' authorities, PEM")
	fs.DurationVar(&f.ahead, "ahead", 500*time.Millisecond,
		"the longest time that tokens are taken ahead and settlements wait; 0: none")
	return cmd
}

// lookEvery is how often the rules are read. New rules are in force after two equal reads.
const lookEvery = time.Second

// serve serves until the command's context ends.
func (c *call) serve(f serveFlags, timeout time.Duration) error {
	db, o, err := c.client(c.ctx)
	if err != nil {
		return err
	}
	held := newLeases(maxLeases)
	m := newMetrics(func() float64 { return float64(len(held.room)) })
	l, err := limiter.Open(c.ctx, db, c.table, &limiter.Options{Namespace: c.namespace, Timeout: timeout, Now: o.Now,
		Ahead: f.ahead, SettleWithin: min(f.ahead, time.Minute), // the longest allowed
		Observe: func(_ context.Context, e limiter.Event) { m.event(e) }})
	if err != nil {
		return err
	}
	report := c.seldom()
	service, follow, err := c.envoy(f.config, l, m, report)
	if err != nil {
		return err
	}
	all, err := f.servers(service, &api{l, c.ns, held, report}, m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.ctx)
	var following sync.WaitGroup
	following.Go(func() { follow(ctx) })
	err = c.runServers(ctx, all...)
	cancel()
	following.Wait()
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	return errors.Join(err, held.close(ctx), l.Close(ctx))
}

// envoy returns the service for Envoy, and a function that follows changes of its rules until the
// context ends. Without a folder of rules there is no service.
func (a *app) envoy(folder string, l *limiter.Limiter, m *metrics, report func(error)) (
	*envoylimit.Service, func(context.Context), error) {
	if folder == "" {
		return nil, func(context.Context) {}, nil
	}
	config, err := envoylimit.ReadFolder(folder)
	if err != nil {
		return nil, nil, err
	}
	service := envoylimit.New(l, config, envoylimit.Options{Decided: func(_ context.Context, d envoylimit.Decision) {
		if m.decision(d); d.Err != nil {
			report(d.Err)
		}
	}})
	return service, func(ctx context.Context) {
		envoylimit.Watch(ctx, folder, config, lookEvery, func(c *envoylimit.Config, err error) {
			if m.config(err); err != nil {
				a.say("the rules are refused, the old ones stay in force:\n%v", err)
				return
			}
			service.SetConfig(c)
			a.say("the new rules are in force")
		})
	}, nil
}

// seldom returns a function that prints errors, at most one a second.
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
