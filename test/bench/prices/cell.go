package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/pricing"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/usage"
	"github.com/zeroae/zae-limiter-go/streams"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

// load is the traffic of a cell, and how its usage is folded.
type load struct {
	tenants, perSecond int
	fold               int64 // seconds of a tumbling window; 1: usage is written with every batch of a second
	windows            int   // kinds of them: hourly, daily, monthly
}

// price is the cost of usage in the measured hours.
type price struct {
	load
	acquires                           int64
	snapshots, longer, refused, others int // writes: of snapshots, of days and months among them, refused, of lists
	tableUnits, indexUnits             int
	readUnits                          float64
	largest, buckets                   int // bytes of state at its largest, and how many buckets are pending in it
}

func (p price) per(n float64) float64 { return n / float64(p.acquires) }

// writes per acquire, those refused included.
func (p price) writes() float64 { return p.per(float64(p.snapshots + p.refused + p.others)) }

// units per acquire: write units, indexes included.
func (p price) units() float64 { return p.per(float64(p.tableUnits + p.indexUnits)) }

// dollars per million acquires.
func (p price) dollars() float64 {
	return p.units()*pricing.DollarsPerMillionWrites + p.per(p.readUnits)*pricing.DollarsPerMillionReads
}

// perBucket is how many bytes of state a pending bucket takes.
func (p price) perBucket() float64 {
	if p.buckets == 0 {
		return 0
	}
	return float64(p.largest) / float64(p.buckets)
}

// cell is one aggregator with a table and a mapping of its own.
type cell struct {
	load
	aggregator *streams.Aggregator
	db         *memdynamo.DB
	mapping    *eventsource.Stepped

	largest json.RawMessage // response
	changed int             // writes that changed something

	mu    sync.Mutex
	price price // while it is measured
}

// patient is a table whose calls have all the time there is: they are carried out in no time, and
// a machine that stands still for seconds must not end one.
type patient struct{ store.Lister }

func (p patient) Write(ctx context.Context, w item.Write) (item.Item, error) {
	return p.Lister.Write(context.WithoutCancel(ctx), w)
}

func (p patient) Transact(ctx context.Context, token string, writes []item.Write) error {
	return p.Lister.Transact(context.WithoutCancel(ctx), token, writes)
}

func (p patient) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	return p.Lister.Read(context.WithoutCancel(ctx), consistent, keys...)
}

func (p patient) List(ctx context.Context, q item.Query) (item.Page, error) {
	return p.Lister.List(context.WithoutCancel(ctx), q)
}

// newCell returns an aggregator whose clock is now, epoch ms.
func newCell(l load, now func() int64) (*cell, error) {
	c := &cell{load: l, db: memdynamo.New(now)}
	c.db.SetHook(c.count)
	o := streams.Options{DynamoDB: memory{Lister: patient{c.db}}, Table: "limits",
		Now: func() time.Time { return time.UnixMilli(now()) },
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
	for _, name := range function.WindowNames()[:l.windows] {
		o.Windows = append(o.Windows, streams.Window(name))
	}
	var err error
	if c.aggregator, err = streams.New(o); err != nil {
		return nil, err
	}
	settings := eventsource.DefaultSettings()
	settings.BatchSize, settings.Report = 10_000, true
	if l.fold > 1 {
		settings.Tumbling = time.Duration(l.fold) * time.Second
	}
	c.mapping, err = eventsource.NewStepped(settings, streamARN, eventsource.InvokerFunc(c.invoke))
	return c, err
}

// invoke passes on to the aggregator, and keeps the largest state.
func (c *cell) invoke(ctx context.Context, payload []byte) (runtimeapi.Result, error) {
	answer, err := c.aggregator.Invoke(ctx, payload)
	if len(answer) > len(c.largest) {
		c.largest = answer
	}
	return runtimeapi.Result{Payload: answer}, err
}

// play delivers the due batches.
func (c *cell) play(ctx context.Context, now int64, records ...eventsource.Record) error {
	err := c.mapping.Play(ctx, now, records...)
	c.changed += len(c.db.Drain())
	return err
}

// count is called for every call that reaches the table.
func (c *cell) count(op memdynamo.Op) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range op.Writes {
		switch key := w.Target(); {
		case !strings.HasPrefix(key.SK, "#USAGE#"):
			c.price.others++
		case strings.HasSuffix(key.SK, "Z"): // an hour's
			c.price.snapshots++
		default:
			c.price.snapshots++
			c.price.longer++
		}
	}
	return true, nil
}

// measure begins to count.
func (c *cell) measure() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.db.ResetStats()
	c.largest, c.changed, c.price = nil, 0, price{load: c.load}
}

func (c *cell) measured(acquires int64) (price, error) {
	p, stats := c.price, c.db.Stats()
	p.acquires = acquires
	p.tableUnits, p.indexUnits, p.readUnits = stats.WriteUnits, stats.IndexUnits, stats.ReadUnits
	p.refused = p.snapshots + p.others - c.changed
	p.snapshots -= p.refused
	var response struct{ State json.RawMessage }
	if err := json.Unmarshal(c.largest, &response); err != nil {
		return p, err
	}
	state, err := usage.ParseState(response.State)
	p.largest, p.buckets = len(response.State), len(state.Parts)
	return p, err
}

// end ends a tumbling window of another shard of the stream, which had no records: then owed sums
// of longer windows are settled.
func (c *cell) end(ctx context.Context, now int64) error {
	if c.fold <= 1 {
		return nil
	}
	begin := now - 1 - (now-1)%(c.fold*1000)
	payload := fmt.Sprintf(`{"window":{"start":%q,"end":%q},"state":{},"shardId":"other",`+
		`"isFinalInvokeForWindow":true,"Records":[]}`, layout.Timestamp(begin), layout.Timestamp(begin+c.fold*1000))
	_, err := c.aggregator.Invoke(ctx, []byte(payload))
	c.changed += len(c.db.Drain())
	return err
}

// exact returns an error if the snapshots of any kind do not equal the grants.
func (c *cell) exact(granted int64) error {
	items := c.db.Items()
	for _, window := range function.WindowNames()[:c.windows] {
		gotRequests, gotTokens, err := counted(items, window)
		if err != nil {
			return err
		}
		if gotRequests != granted*requests || gotTokens != granted*tokens {
			return fmt.Errorf("%s snapshots hold %d requests and %d tokens, granted were %d and %d", window, gotRequests,
				gotTokens, granted*requests, granted*tokens)
		}
	}
	return nil
}
