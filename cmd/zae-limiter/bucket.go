package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
)

type levelJSON struct {
	limitJSON
	Remaining int64   `json:"remaining"`
	Used      int64   `json:"used"`
	FullIn    float64 `json:"full_in_seconds"`
}

type bucketJSON struct {
	Entity   string      `json:"entity"`
	Resource string      `json:"resource"`
	Exists   bool        `json:"exists"`
	Shards   int         `json:"shards"`
	From     string      `json:"limits_from"`
	Levels   []levelJSON `json:"levels"`
	Parent   string      `json:"parent,omitempty"`
	Cascade  bool        `json:"cascade"`
}

func peekCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "peek ENTITY RESOURCE", Short: "show what an entity has left, and its parents; takes nothing",
		Args: args(2, 2),
		RunE: func(c *cobra.Command, names []string) error {
			return a.opened(c.Context(), func(ns *admin.Namespace) error {
				buckets, err := ns.Peek(c.Context(), names[0], names[1])
				if err != nil && len(buckets) == 0 {
					return err
				}
				return errors.Join(err, a.printBuckets(buckets))
			})
		},
	}
}

func (a *app) printBuckets(buckets []admin.Bucket) error {
	r := rows{head: []string{"entity", "resource", "limit", "left", "capacity", "used", "full in", "shards", "limits of"}}
	all := []bucketJSON{}
	for _, b := range buckets {
		from := "bucket" // as callers brought them, or as they were when they were deleted
		if b.Stored {
			from = b.From.String()
		}
		v := bucketJSON{b.Entity, b.Resource, b.Exists, b.Shards, from, []levelJSON{}, b.Parent, b.Cascade}
		for _, l := range b.Levels {
			v.Levels = append(v.Levels, levelJSON{limitsOf([]limiter.Limit{l.Limit})[0], l.Remaining, l.Used,
				l.FullIn.Seconds()})
			r.add(b.Entity, b.Resource, l.Name, l.Remaining, l.Capacity, l.Used, l.FullIn.Round(time.Millisecond), b.Shards,
				from)
		}
		all = append(all, v)
	}
	return a.print(all, r)
}

func resetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "reset ENTITY RESOURCE [LIMIT...]", Short: "fill a bucket up, all limits or those named; forgives debt",
		Long: "Fills a bucket up, all limits or those named; forgives debt. A bucket that cannot be read is removed, " +
			"so that the next request finds a full one.",
		Args: args(2, -1),
		RunE: func(c *cobra.Command, names []string) error {
			return a.opened(c.Context(), func(ns *admin.Namespace) error {
				added, err := ns.Reset(c.Context(), names[0], names[1], names[2:]...)
				if err != nil {
					return err
				}
				return a.printAdded(added)
			})
		},
	}
}

func creditCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "credit ENTITY RESOURCE LIMIT=TOKENS...", Short: "add tokens to a bucket, never above its capacity",
		Example: "  zae-limiter credit acme gpt-4 tpm=5000",
		Args:    args(3, -1),
		RunE: func(c *cobra.Command, names []string) error {
			tokens := limiter.Costs{}
			for _, text := range names[2:] {
				name, number, _ := strings.Cut(text, "=")
				n, err := strconv.ParseInt(number, 10, 64)
				if _, twice := tokens[name]; err != nil || twice {
					return usage(c, "%q: want LIMIT=TOKENS, each limit once, like tpm=5000", text)
				}
				tokens[name] = n
			}
			return a.opened(c.Context(), func(ns *admin.Namespace) error {
				added, err := ns.Credit(c.Context(), names[0], names[1], tokens)
				if err != nil {
					return err
				}
				return a.printAdded(added)
			})
		},
	}
}

func (a *app) printAdded(added map[string]int64) error {
	if added == nil {
		added = map[string]int64{}
	}
	r := rows{head: []string{"limit", "tokens added"}}
	for _, name := range sortedKeys(added) {
		r.add(name, added[name])
	}
	return a.print(map[string]any{"added": added}, r)
}
