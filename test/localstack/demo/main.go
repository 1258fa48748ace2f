// Demo runs the whole system on this machine and checks it. Clients take tokens through the
// limiter, and the table's stream feeds the built functions. Usage is counted, a hot bucket splits,
// audit events expire into the archive. Some faults are injected on purpose.
//
// make demo starts it, after installing the emulators and building the functions.
//
// TRACE names a CSV file of real requests to replay: TIMESTAMP,ContextTokens,GeneratedTokens. The
// context is acquired, and the generated tokens are settled afterwards. It is played at 200
// requests a second. Without TRACE a workload is generated, the same one in every run.
//
// It writes its measurements as one page with pictures, dist/demo.html. With the argument picture,
// it runs nothing, and makes the README's pictures from the page of the last run.
//
// The last line is "demo: PASS" or "demo: FAIL" with the reasons. The exit status is 0 or 1
// accordingly, and 2 for a trace that is none.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	smithytime "github.com/aws/smithy-go/time"

	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// allTime is when the demo gives up. It normally takes about a minute, longer on a slow machine.
const allTime = 5 * time.Minute

// runPath is the record from which the README's pictures are made.
var runPath = filepath.Join(engine.Root(), "demo", "testdata", "run.json")

// pagePath is where the report goes.
var pagePath = filepath.Join(engine.Root(), "..", "..", "dist", "demo.html")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if slices.Equal(os.Args[1:], []string{"picture"}) {
		root := filepath.Join(engine.Root(), "..", "..")
		if err := savePictures(pagePath, runPath, filepath.Join(root, "docs")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(ctx, os.Getenv(envTrace), os.Stdout))
}

// run plays the demo, of a trace or without one, and returns the exit status.
func run(ctx context.Context, trace string, out io.Writer) int {
	begin := time.Now()
	requests, about, err := workload(trace)
	if err != nil {
		line, _ := last([]string{err.Error()})
		fmt.Fprintln(out, line)
		return 2
	}
	timed, cancel := context.WithTimeout(ctx, allTime)
	defer cancel()
	d := &demo{out: out, begin: begin, requests: requests, about: about}
	line, code := d.conclude(ctx, d.play(timed))
	fmt.Fprintln(out, line)
	return code
}

type demo struct {
	out      io.Writer
	begin    time.Time
	requests []request
	about    string

	rig    *rig
	book   *clients.Book
	fleet  *fleet
	audits *audits
	swept  int
	calmed int64   // when the rush was over, epoch ms
	busied int64   // when the busy tenant was finished, epoch ms
	rushed float64 // how long it took, in seconds
	writes int     // to the hot bucket in that time
	busy   *busyFleet
	result *result // nil until everything is measured
}

// conclude turns the end of play into the last line and the exit status.
func (d *demo) conclude(ctx context.Context, err error) (string, int) {
	var why []string
	switch {
	case ctx.Err() != nil:
		why = append(why, "interrupted")
	case err != nil:
		why = append(why, err.Error())
	default:
		var summary strings.Builder
		d.result.print(&summary)
		fmt.Fprint(d.out, summary.String())
		why = d.result.verdict()
		if err := savePage(pagePath, d.story(why), summary.String()); err != nil {
			why = append(why, err.Error())
		}
		fmt.Fprintf(d.out, "\nThe same with pictures: %s\n", pagePath)
	}
	fmt.Fprintf(d.out, "\n%.0f s in all.\n", time.Since(d.begin).Seconds())
	return last(why)
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "[%4.1fs] %s\n", time.Since(d.begin).Seconds(), fmt.Sprintf(format, args...))
}

// play runs the phases one after the other. When it returns, everything that it started has ended.
func (d *demo) play(ctx context.Context) (err error) {
	t := &trouble{begin: d.begin.UnixMilli()}
	d.say("starting the emulators: dynoxide, S3, the Lambda runtime, event source mappings")
	if d.rig, err = startRig(ctx, t); err != nil {
		return err
	}
	defer d.rig.stop()
	if err := d.seed(ctx); err != nil {
		return err
	}
	d.say("table %s of the synthesized template; built aggregator and archiver run behind %d stream shards", d.rig.Table,
		streamShards)
	d.say("workload: %s, for %d tenants from %d clients with caches of their own", d.about, len(tenants), processes)
	t.disturb(d.rig.Clients)
	if err := d.load(ctx); err != nil {
		return err
	}
	d.calmed = now()
	d.rig.Clients.Clear()
	d.writes = d.rig.watcher.hot().writes
	d.say("the rush is over; a busy tenant takes tokens ahead for %v", busyTime)
	if d.busy, err = openBusy(ctx, d.rig, d.book); err != nil {
		return err
	}
	defer d.busy.proxy.Stop()
	d.busy.play(ctx)
	d.busied = now()
	d.say("a few requests go on until the hot bucket is whole again")
	d.calm(ctx)
	d.say("requests are over; waiting until the stream is")
	n, err := d.rig.Sweeper.Sweep(ctx, now()+5000) // the rest of the audit events
	if d.swept += n; err != nil {
		return err
	}
	if err = d.rig.Idle(ctx); err != nil {
		return err
	}
	d.say("stream is empty; comparing")
	return d.measure(ctx)
}

// seed opens the clients and stores the configuration.
func (d *demo) seed(ctx context.Context) (err error) {
	d.book = new(clients.Book)
	if d.fleet, err = openFleet(ctx, d.rig.ForClients, d.rig.Table, processes, d.book); err != nil {
		return err
	}
	ns := d.fleet.limiters[0].NamespaceID()
	direct := store.NewDynamo(d.rig.Engine.DynamoDB(), d.rig.Table)
	d.audits = &audits{store: direct, ns: ns, expire: map[string]bool{}}
	return seedConfig(ctx, direct, ns, now())
}

// load sends the requests while audit events are written and swept, and reports its progress every
// two seconds.
func (d *demo) load(ctx context.Context) error {
	playing, done := context.WithCancel(ctx)
	defer done()
	aside := []func(context.Context) error{d.audits.write, d.background, d.interrupt}
	side := make(chan error, len(aside))
	for _, f := range aside {
		go func() { side <- f(playing) }()
	}
	begin := time.Now()
	d.fleet.play(ctx, d.requests)
	d.exhaust(ctx)
	d.rushed = time.Since(begin).Seconds()
	done()
	var errs []error
	for range aside {
		errs = append(errs, <-side)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return ctx.Err()
}

// interrupt disconnects the clients once, after two thirds of the time.
func (d *demo) interrupt(ctx context.Context) error {
	if smithytime.SleepWithContext(ctx, playTime*2/3) != nil {
		return nil
	}
	return d.rig.trouble.interrupt(ctx, d.rig.Clients, func() int { return d.book.Ends().Unavailable })
}

// background sweeps every second and reports progress every two.
func (d *demo) background(ctx context.Context) error {
	for i := 1; smithytime.SleepWithContext(ctx, time.Second) == nil; i++ {
		d.rig.trouble.sample()
		n, err := d.rig.Sweeper.Sweep(context.WithoutCancel(ctx), now())
		d.swept += n
		if err != nil {
			return err
		}
		if i%2 == 0 {
			d.progress()
		}
	}
	return nil
}

func (d *demo) progress() {
	c, s := d.book.Ends(), d.rig.aggregating.Stats()
	d.say("acquired=%d denied=%d unavailable=%d unknown=%d adjusted=%d rolled_back=%d; hot bucket: %d shards; stream: "+
		"%d records, %d batches, %d crashes",
		c.Granted, c.Denied, c.Unavailable, c.Unknown, c.Adjusted, c.RolledBack, d.rig.watcher.hot().end,
		s.Records, s.Batches, d.rig.aggregator.Stats().Crashes)
}

// measure compares the stored items with the clients' records.
func (d *demo) measure(ctx context.Context) error {
	s := d.rig
	stored, err := readTable(ctx, s.Engine, s.Table)
	if err != nil {
		return err
	}
	gone, err := s.watcher.gone(ctx)
	if err != nil {
		return err
	}
	for account, n := range gone { // the consumption of deleted shards has been counted as well
		stored.counters[account] += n
	}
	kept, err := s.Archived(ctx, d.audits.ns)
	if err != nil {
		return err
	}
	pages := d.book.Pages()
	r := &result{
		ends: d.book.Ends(), hotDenied: d.book.Ends(hotEntity).Denied, errs: d.book.Errs(),
		usage: []sums{stored.sums("rpm", pages), stored.sums("tpm", pages)},
		hot:   s.watcher.hot().resharded, hotWrites: float64(d.writes) / d.rushed,
		stored: stored.shards[[2]string{hotEntity, hotResource}], uneven: stored.uneven,
		busy: d.busy.is, planned: len(d.requests), leftOut: int(d.fleet.leftOut.Load()), lost: d.fleet.lost.Load(),
		swept: d.swept, archive: checkArchive(d.audits, kept.Events),
		kept:        strings.Contains(strings.Join(kept.Malformed, ""), malformedMark),
		undelivered: s.aggregating.Stats().Dropped + s.archiving.Stats().Dropped,
	}
	all, err := d.book.Judge(0, false)
	if err != nil {
		return err
	}
	for entity, to := range map[string]*loadcheck.Judged{
		"": &r.worst, hotEntity: &r.worstHot, busyTenant.entity: &r.worstBusy,
	} {
		if *to, err = worst(all, entity); err != nil {
			return err
		}
	}
	r.writesPer, r.writes, r.records = writesPerThousand(s)
	r.trouble, r.missing = s.trouble.report(s)
	d.result = r
	return nil
}
