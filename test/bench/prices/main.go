// Prices measures the cost of usage: writes and write units per acquire, and the state that a
// tumbling window carries.
//
//	go -C test run ./bench/prices                      # everything; takes an hour
//	go -C test run ./bench/prices -loads 10000:60:2    # tenants:fold:windows
//
// Tenants acquire through the real limiter, some much more often than others (Zipf 1.1), 100 times
// a second, 100,000 of them 500 times. Its writes go as batches of a second through an event source
// mapping (package eventsource) to the aggregator (package streams), which writes into a table in
// memory. All of it is one process in virtual time. It measures one hour of a day in which each
// tenant was seen once; for folds of ten minutes and more two, because longer windows catch up so
// often.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	only := flag.String("loads", "", "the loads to play, as tenants:fold:windows,…; default: all")
	minutes := flag.Int("minutes", 60, "how long to measure; less than an hour tells too much of what is once an hour")
	lead := flag.Int("lead", 0, "how many minutes of the hour go by before it is measured, with what is first in it")
	flag.Parse()
	p := span{lead: 60 * *lead, measured: 60 * *minutes, twice: 120 * *minutes, together: 2}
	debug.SetGCPercent(400) // there is memory, and most of the time goes into the tables here
	if err := run(ctx, *only, p, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "prices:", err)
		os.Exit(1)
	}
}

// grid is all loads, by traffic.
func grid() (out [][]load) {
	for _, t := range []struct{ tenants, perSecond int }{{1000, 100}, {10_000, 100}, {100_000, 500}} {
		var loads []load
		for _, fold := range []int64{60, 900, 300, 1} {
			for _, windows := range []int{2, 1, 3} {
				loads = append(loads, load{tenants: t.tenants, perSecond: t.perSecond, fold: fold,
					windows: windows})
			}
		}
		out = append(out, loads)
	}
	return out
}

func run(ctx context.Context, only string, p span, out io.Writer) error {
	for _, loads := range grid() {
		loads = slices.DeleteFunc(loads, func(l load) bool {
			return only != "" && !slices.Contains(strings.Split(only, ","), l.String())
		})
		if len(loads) == 0 {
			continue
		}
		if err := playAll(ctx, p, loads, func(p price) { fmt.Fprintln(out, p) }); err != nil {
			return err
		}
	}
	return nil
}

// String names the load as the command line does.
func (l load) String() string { return fmt.Sprintf("%d:%d:%d", l.tenants, l.fold, l.windows) }

func (p price) String() string {
	return fmt.Sprintf("%-12s %3d/s: %.3f writes per acquire (%.4f of days and months, %.4f refused, %.4f lists); "+
		"%.3f write units with indexes (%.3f), %.3f read units: $%.3f per million; state %d bytes, %.0f per bucket",
		p.load, p.perSecond, p.writes(), p.per(float64(p.longer)), p.per(float64(p.refused)), p.per(float64(p.others)),
		p.units(), p.per(float64(p.indexUnits)), p.per(p.readUnits), p.dollars(), p.largest, p.perBucket())
}
