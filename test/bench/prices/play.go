package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
)

// span is how long a load is played.
type span struct {
	measured int // seconds, from the beginning of an hour
	lead     int // seconds of the hour that go by before it is measured
	twice    int // measured instead, of folds of ten minutes and more, whose longer windows catch up so often
	together int // cells that are played at once
}

// The day that is played. Traffic comes in its third hour and from the seventh on. Longer windows
// catch up some minutes after the hour is over, or after two hours with long folds.
const (
	warmUp  = int64(19_675*24+2) * hour // 2023-11-14T02:00:00Z
	begin   = warmUp + 4*hour
	settled = 7 * hour / 60 // after two hours are over

	hour = int64(3_600_000)
)

// playAll sends one traffic through all loads and reports every price as soon as it is known.
func playAll(ctx context.Context, p span, loads []load, tell func(price)) error {
	t, err := newTraffic(ctx, loads[0].tenants, warmUp)
	if err != nil {
		return err
	}
	g := &game{traffic: t, now: warmUp, span: p, perSecond: loads[0].perSecond}
	for _, l := range loads {
		c, err := newCell(l, func() int64 { return g.now })
		if err != nil {
			return err
		}
		g.cells = append(g.cells, c)
	}
	const largeBatch = 20
	t.inTurn = true // each once
	if err := g.seconds(ctx, loads[0].tenants/loads[0].perSecond, largeBatch); err != nil {
		return err
	}
	t.inTurn = false
	if err := g.rest(ctx); err != nil {
		return err
	}
	t.now = begin
	if err := g.seconds(ctx, p.lead, largeBatch); err != nil {
		return err
	}
	for _, c := range g.cells {
		c.measure()
	}
	warm := t.granted
	if err := g.seconds(ctx, p.measured, 1); err != nil {
		return err
	}
	if err := g.settle(ctx, warm, func(c *cell) bool { return c.fold < 600 }, tell); err != nil {
		return err
	}
	if len(g.cells) == 0 {
		return nil
	}
	if err := g.seconds(ctx, p.twice-p.measured, 1); err != nil {
		return err
	}
	return g.settle(ctx, warm, func(*cell) bool { return true }, tell)
}

// game is cells that hear of the same traffic.
type game struct {
	traffic   *traffic
	now       int64 // the cells' clock, epoch ms: it goes on while the traffic's rests
	span      span
	perSecond int
	cells     []*cell
}

// seconds plays so many seconds and delivers so many at once.
func (g *game) seconds(ctx context.Context, n, batch int) error {
	var records []eventsource.Record
	for i := range n {
		more, err := g.traffic.second(ctx, g.perSecond)
		if err != nil {
			return err
		}
		records = append(records, more...)
		if (i+1)%batch != 0 && i+1 < n {
			continue
		}
		g.now = g.traffic.now
		if err := g.each(func(c *cell) error { return c.play(ctx, g.now, records...) }); err != nil {
			return err
		}
		records = nil
	}
	return nil
}

// each does something with every cell, some at once.
func (g *game) each(do func(*cell) error) error {
	var group errgroup.Group
	group.SetLimit(g.span.together)
	for _, c := range g.cells {
		group.Go(func() error { return do(c) })
	}
	return group.Wait()
}

// rest lets the time pass, in which windows end, until all owed sums are settled. The traffic's own
// clock stands still.
func (g *game) rest(ctx context.Context) error {
	const afterAWindow = 15*60_000 + 2000 // the longest that is played
	until := (g.traffic.now+2*hour-1)/(2*hour)*2*hour + settled
	for _, g.now = range []int64{g.traffic.now + afterAWindow, until} {
		err := g.each(func(c *cell) error {
			if err := c.play(ctx, g.now); err != nil || g.now < until {
				return err
			}
			return c.end(ctx, g.now)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// settle ends the cells that are measured long enough.
func (g *game) settle(ctx context.Context, warm int64, over func(*cell) bool, tell func(price)) error {
	all := g.cells
	var rest []*cell
	g.cells = nil
	for _, c := range all {
		if over(c) {
			g.cells = append(g.cells, c)
		} else {
			rest = append(rest, c)
		}
	}
	if err := g.rest(ctx); err != nil {
		return err
	}
	for _, c := range g.cells {
		p, err := c.measured(g.traffic.granted - warm)
		if err == nil {
			err = c.exact(g.traffic.granted)
		}
		if err != nil {
			return fmt.Errorf("%+v: %w", c.load, err)
		}
		tell(p)
	}
	g.cells = rest
	return nil
}
