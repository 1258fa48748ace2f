package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

type shownBucket struct {
	Entity, Resource string
	Exists           bool
	Shards           int
	LimitsFrom       string
	Levels           []admin.Level
	Denied           int64
	Parent           string
	Cascade          bool
}

func peekCommand(a *app) *cobra.Command {
	return a.inNamespace(&cobra.Command{
		Use: "peek ENTITY RESOURCE", Short: "show the tokens left of an entity and its parents; takes nothing",
	}, func(c *call) (answer, error) {
		buckets, err := c.ns.Peek(c.ctx, c.args[0], c.args[1])
		if err != nil && len(buckets) == 0 {
			return answer{}, err
		}
		said := bucketsAnswer(buckets)
		said.but = err // some buckets cannot be read
		return said, nil
	})
}

// leftOf returns the tokens left and the capacity, or a word for a limit without numbers.
func leftOf(l admin.Level) (left, capacity any) {
	switch {
	case l.IsUnlimited():
		return "unlimited", ""
	case l.IsBlocked():
		return "blocked", ""
	}
	return amountOf(l.Limit, l.Remaining), amountOf(l.Limit, l.Capacity)
}

func bucketsAnswer(buckets []admin.Bucket) answer {
	r := rows{head: []string{
		"entity", "resource", "limit", "left", "held", "capacity", "used", "full in", "shards", "limits of", "denied"}}
	all := []shownBucket{}
	for _, b := range buckets {
		from := "bucket" // limits sent with requests, or kept since they were deleted
		if b.Stored {
			from = b.From.String()
		}
		all = append(all, shownBucket{b.Entity, b.Resource, b.Exists, b.Shards, from, b.Levels, b.Denied, b.Parent,
			b.Cascade})
		for _, l := range b.Levels {
			of := from
			if !l.Stored {
				of = "bucket"
			}
			left, capacity := leftOf(l)
			for _, r := range l.Raises {
				capacity = fmt.Sprintf("%v, %s", capacity, r)
			}
			if l.ChangesIn > 0 && l.Raises == nil { // a window of the schedule
				capacity = fmt.Sprintf("%v for %s", capacity, l.ChangesIn.Round(time.Second))
			}
			full := any(l.FullIn.Round(time.Millisecond))
			if l.FullIn < 0 {
				full = "never"
			}
			r.add(b.Entity, b.Resource, l.Name, left, amountOf(l.Limit, l.Held), capacity, amountOf(l.Limit, l.Used),
				full, b.Shards, of, b.Denied)
		}
	}
	return answer{value: all, rows: r}
}

// once is inNamespace with the flag --id: each ID is carried out once.
func (a *app) once(cmd *cobra.Command, f func(*call) (answer, error)) *cobra.Command {
	id := ""
	a.inNamespace(cmd, func(c *call) (said answer, err error) {
		if id != "" {
			if c.ns, err = c.ns.Once(id); err != nil {
				return said, err
			}
		}
		return f(c)
	})
	const about = "carried out once for this id within three days, even if the answer was lost"
	cmd.Flags().StringVar(&id, "id", "", about)
	return cmd
}

func resetCommand(a *app) *cobra.Command {
	return a.asks(a.once(&cobra.Command{
		Use: "reset ENTITY RESOURCE [LIMIT...]", Short: "refill a bucket, all limits or the named ones; forgives debt",
		Long: "Refill a bucket, all limits or the named ones. Debt is forgiven. A bucket that cannot be\n" +
			"read is removed, so the next request finds a full one. The command shows the contents\n" +
			"first, and asks (unless --yes).",
	}, (*call).reset))
}

// reset shows the bucket's contents, asks, and fills it up.
func (c *call) reset() (answer, error) {
	of := admin.Scope{Entity: c.args[0], Resource: c.args[1]}
	for b, err := range c.ns.Buckets(c.ctx, of) {
		switch {
		case errors.Is(err, limiter.ErrUnreadable):
			c.leaves(fmt.Sprintf("%s what cannot be read: %v", of, err))
		case err != nil:
			return answer{}, err
		default:
			c.leaves(bucketLines(b, c.args[2:]...)...)
		}
	}
	return c.sure(fmt.Sprintf("Fill bucket %s up?", of), func() (answer, error) {
		added, err := c.ns.Reset(c.ctx, c.args[0], c.args[1], c.args[2:]...)
		return addedAnswer(added), err
	})
}

func creditCommand(a *app) *cobra.Command {
	tokens := limiter.Costs{}
	return a.once(&cobra.Command{
		Use:   "credit ENTITY RESOURCE LIMIT=AMOUNT...",
		Short: "add tokens to a bucket: to a rate up to its capacity, to a quota on top of its amount",
		Example: `  zae-limiter credit acme gpt-4 tpm=5000
  zae-limiter credit acme gpt-4 'budget=$50' --id invoice-4711`,
		PreRunE: func(c *cobra.Command, names []string) error { return amountsIn(c, names[2:], tokens) },
	}, func(c *call) (answer, error) {
		added, err := c.ns.Credit(c.ctx, c.args[0], c.args[1], tokens)
		return addedAnswer(added), err
	})
}

// amountsIn reads LIMIT=AMOUNT... into tokens.
func amountsIn(c *cobra.Command, texts []string, tokens limiter.Costs) error {
	for _, text := range texts {
		name, number, _ := strings.Cut(text, "=")
		if _, twice := tokens[name]; number == "" || twice {
			return usage(c, "%q: want LIMIT=AMOUNT, each limit once, like tpm=5000 or budget=$50", text)
		}
		n, err := validate.AmountOf(name, number)
		if err != nil {
			return usage(c, "%q: %v", text, err)
		}
		tokens[name] = n
	}
	return nil
}

// raiseCommand raises limits until an instant, or for a number of periods.
func raiseCommand(a *app) *cobra.Command {
	more, periods, end := limiter.Costs{}, 0, false
	var until time.Time
	cmd := a.once(&cobra.Command{
		Use:   "raise ENTITY RESOURCE LIMIT[=AMOUNT]...",
		Short: "raise limits of an entity for a while: more tokens per period, from now until a time",
		Example: `  zae-limiter raise acme gpt-4 rpm=500 --until 2026-12-01T00:00:00Z
  zae-limiter raise acme gpt-4 'budget=$50' --for 1 --id ticket-4711
  zae-limiter raise acme gpt-4 budget --end`,
		PreRunE: func(c *cobra.Command, names []string) error {
			if given := c.Flags().Changed; given("until") && given("for") || end == (given("until") || given("for")) {
				return usage(c, "want one of --until, --for and --end")
			}
			if end {
				return nil
			}
			return amountsIn(c, names[2:], more)
		},
	}, func(c *call) (answer, error) {
		if end {
			return c.endRaises()
		}
		var done []admin.Raise
		var err error
		if !until.IsZero() {
			done, err = c.ns.Raise(c.ctx, c.args[0], c.args[1], more, until)
		} else {
			done, err = c.ns.RaiseFor(c.ctx, c.args[0], c.args[1], more, periods)
		}
		r := rows{head: []string{"limit", "more", "until"}}
		for _, one := range done {
			r.add(one.Limit, amountIn(one.Limit, one.More), stamp(one.Until))
		}
		return answer{value: map[string]any{"raises": done}, rows: r}, err
	})
	cmd.Flags().TimeVar(&until, "until", time.Time{}, timeForms,
		"end of the raise; for a quota, the next edge of a period")
	cmd.Flags().BoolVar(&end, "end", false, "end all raises of the limits now; asks (unless --yes)")
	cmd.Flags().IntVar(&periods, "for", 0, "number of periods; for a quota, the present one is the first")
	return a.asks(cmd)
}

// endRaises shows the raises of the named limits, asks, and ends them.
func (c *call) endRaises() (answer, error) {
	at := admin.Scope{Entity: c.args[0], Resource: c.args[1]}
	stored, err := c.ns.Config(c.ctx, at)
	if err != nil && !errors.Is(err, admin.ErrNotFound) {
		return answer{}, err
	}
	for _, r := range stored.Raises {
		if slices.Contains(c.args[2:], r.Limit) {
			c.leaves(r.Limit + ": " + r.String())
		}
	}
	return c.sure(fmt.Sprintf("End these raises of %s?", at), func() (answer, error) {
		return answer{value: map[string]any{"ended": c.args[2:]}, none: "ended"},
			c.ns.EndRaises(c.ctx, at.Entity, at.Resource, c.args[2:]...)
	})
}

func addedAnswer(added map[string]int64) answer {
	r := rows{head: []string{"limit", "added"}}
	for _, name := range sortedKeys(added) {
		r.add(name, amountIn(name, added[name]))
	}
	return answer{value: map[string]any{"added": added}, rows: r}
}
