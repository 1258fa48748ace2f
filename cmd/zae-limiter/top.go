package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	smithytime "github.com/aws/smithy-go/time"
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func topCommand(a *app) *cobra.Command {
	var at admin.Scope
	var every time.Duration
	by, most, rounds := "entity", 0, 0
	kinds := []string{"entity", "resource", "namespace"}
	cmd := a.inNamespace(&cobra.Command{
		Use: "top [-e ENTITY] [-r RESOURCE]", Short: "show live which entities use most and are denied most",
		Long: "Show live which entities use most of their limits and are denied most. Each round reads\n" +
			"all of their buckets: 5 read units each, with their limits.",
		Example: "  zae-limiter top -r gpt-4\n  zae-limiter top --by namespace --rounds 1 -o json",
		PreRunE: func(c *cobra.Command, _ []string) error {
			switch {
			case !slices.Contains(kinds, by):
				return usage(c, "--by %q: accepted are entity, resource and namespace", by)
			case every <= 0:
				return usage(c, "--every %v: want more than 0s", every)
			case most < 1:
				return usage(c, "--most %d: want 1 or more", most)
			case rounds < 0:
				return usage(c, "--rounds %d: want 1 or more, or 0 to go on until Ctrl-C", rounds)
			case a.format != "table" && rounds != 1:
				return usage(c, "-o %s prints one round: add --rounds 1", a.format)
			}
			return nil
		},
	}, func(c *call) (answer, error) {
		all := []*admin.Namespace{c.ns}
		if by == "namespace" {
			var err error
			if all, err = everyNamespace(c); err != nil {
				return answer{}, err
			}
		}
		return topRounds(c, every, most, rounds, func() (map[admin.Scope]watchedBucket, error) {
			return bucketsNow(c.ctx, all, at, by)
		})
	})
	named(cmd, &at, "of an entity", "of a resource")
	cmd.Flags().StringVar(&by, "by", by, "add up by entity, resource or namespace")
	cmd.Flags().DurationVar(&every, "every", 5*time.Second, "length of a round")
	cmd.Flags().IntVar(&most, "most", 10, "how many to show")
	cmd.Flags().IntVar(&rounds, "rounds", 0, "number of rounds; 0: until Ctrl-C")
	complete(cmd, "by", kinds)
	return cmd
}

// topRounds prints the difference between two looks, round by round. It returns the last round,
// unprinted.
func topRounds(c *call, every time.Duration, most, rounds int, look func() (map[admin.Scope]watchedBucket, error)) (
	answer, error) {
	before, err := look()
	for round := 1; err == nil; round++ {
		began := time.Now()
		var now map[admin.Scope]watchedBucket
		if err = smithytime.SleepWithContext(c.ctx, every); err == nil {
			now, err = look()
		}
		if err != nil {
			break
		}
		said := topAnswer(topOf(before, now, time.Since(began)), most)
		if round == rounds {
			return said, nil
		}
		if terminal(c.out) {
			_, err = io.WriteString(c, "\x1b[H\x1b[2J") // the next round overwrites this one
		}
		err = cmp.Or(err, c.print(said))
		before = now
	}
	if rounds == 0 && c.ctx.Err() != nil {
		err = nil // Ctrl-C is how it ends
	}
	return answer{}, err
}

func everyNamespace(c *call) (all []*admin.Namespace, _ error) {
	for info, err := range c.all.Namespaces(c.ctx) {
		if err != nil {
			return nil, err
		}
		ns, err := c.all.Namespace(c.ctx, info.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, ns)
	}
	return all, nil
}

// watchedBucket is a bucket with the name under which top adds it up.
type watchedBucket struct {
	admin.Bucket
	name string
}

// bucketsNow returns the buckets of namespaces in a scope, by a unique key. Unreadable buckets are
// left out.
func bucketsNow(ctx context.Context, all []*admin.Namespace, at admin.Scope, by string) (
	map[admin.Scope]watchedBucket, error) {
	out := map[admin.Scope]watchedBucket{}
	for _, ns := range all {
		for b, err := range ns.Buckets(ctx, at) {
			if errors.Is(err, limiter.ErrUnreadable) {
				continue
			}
			if err != nil {
				return nil, err
			}
			name := map[string]string{"entity": b.Entity, "resource": b.Resource, "namespace": ns.Name()}[by]
			out[admin.Scope{Entity: ns.ID() + "/" + b.Entity, Resource: b.Resource}] = watchedBucket{b, name}
		}
	}
	return out, nil
}

// consumer is a line of top: an entity, a resource or a namespace, with the limit that it uses
// most.
type consumer struct {
	Name            string
	Limit           string
	UsedPerSecond   float64
	UsedPercent     float64 // of the refill; for a quota or slots, of the capacity
	DeniedPerSecond float64
}

// topOf computes what each consumer used, and how often it was denied, between two looks.
func topOf(before, now map[admin.Scope]watchedBucket, elapsed time.Duration) []consumer {
	type sums struct{ used, refill, left, capacity float64 }
	limits, denied := map[string]map[string]sums{}, map[string]float64{}
	for of, b := range now {
		was := before[of]
		if limits[b.name] == nil {
			limits[b.name] = map[string]sums{}
		}
		denied[b.name] += float64(max(0, b.Denied-was.Denied))
		for _, l := range b.Levels {
			used := l.Used
			if i := slices.IndexFunc(was.Levels, func(o admin.Level) bool { return o.Name == l.Name }); i >= 0 {
				used -= was.Levels[i].Used
			}
			if l.IsUnlimited() || l.IsBlocked() {
				continue
			}
			s := limits[b.name][l.Name]
			s.used += float64(max(0, used))
			if l.Refill > 0 {
				s.refill += float64(l.Refill) / l.Period.Seconds()
			}
			s.left, s.capacity = s.left+float64(max(0, l.Remaining)), s.capacity+float64(l.Capacity)
			limits[b.name][l.Name] = s
		}
	}
	out := []consumer{}
	for name, all := range limits {
		c := consumer{Name: name, DeniedPerSecond: denied[name] / elapsed.Seconds()}
		for _, limit := range sortedKeys(all) {
			s := all[limit]
			rate := s.used / elapsed.Seconds()
			share := 100 * (1 - s.left/max(1, s.capacity))
			if s.refill > 0 {
				share = 100 * rate / s.refill
			}
			if c.Limit == "" || share > c.UsedPercent {
				c.Limit, c.UsedPerSecond, c.UsedPercent = limit, rate, share
			}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b consumer) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// top is the output: the consumers that use most, and those that are denied most.
type top struct {
	Used   []consumer
	Denied []consumer
}

func topAnswer(all []consumer, most int) answer {
	first := func(of func(consumer) float64) []consumer {
		out := slices.DeleteFunc(slices.Clone(all), func(c consumer) bool { return of(c) <= 0 })
		slices.SortStableFunc(out, func(a, b consumer) int { return cmp.Compare(of(b), of(a)) })
		return out[:min(most, len(out))]
	}
	t := top{Used: first(func(c consumer) float64 { return c.UsedPercent }),
		Denied: first(func(c consumer) float64 { return c.DeniedPerSecond })}
	r := rows{head: []string{"list", "name", "limit", "used/s", "used %", "denied/s"}}
	var out strings.Builder
	for i, list := range [][]consumer{t.Used, t.Denied} {
		title := []string{"used most", "denied most"}[i]
		fmt.Fprintf(&out, "%-32s %-16s %9s %7s %9s\n", strings.ToUpper(title), "LIMIT", "USED/S", "USED %", "DENIED/S")
		for _, c := range list {
			fmt.Fprintf(&out, "%-32s %-16s %9.1f %7.1f %9.1f\n", shortened(harmless(c.Name), 32),
				shortened(harmless(c.Limit), 16), c.UsedPerSecond, c.UsedPercent, c.DeniedPerSecond)
			r.add(title, c.Name, c.Limit, c.UsedPerSecond, c.UsedPercent, c.DeniedPerSecond)
		}
		if len(list) == 0 {
			out.WriteString("nobody\n")
		}
		out.WriteString("\n")
	}
	return answer{value: t, rows: r, text: out.String()}
}
