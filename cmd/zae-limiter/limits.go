package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// scopeFlags adds -e and -r, which say whose limits are meant.
func scopeFlags(cmd *cobra.Command, at *admin.Scope) *cobra.Command {
	cmd.Flags().StringVarP(&at.Entity, "entity", "e", "", "entity (default: everybody)")
	cmd.Flags().StringVarP(&at.Resource, "resource", "r", "", "resource (default: everything)")
	return cmd
}

const limitSyntax = `A limit is NAME=AMOUNT[/PERIOD][:CAPACITY]: AMOUNT tokens come back every PERIOD (s, m,
h, d, or like 90s; default m), up to CAPACITY (default: AMOUNT). Or one of these:

NAME=AMOUNT@CALENDAR is a quota: AMOUNT tokens, or dollars, in each period of the
calendar: daily, weekly, monthly, quarterly, yearly or a cron expression, and a time
zone; or a length like 5h, which begins with the first use.
NAME=AMOUNT@in-flight/EPOCH is how many are at work at once. Slots of processes that
died are free again one or two epochs later.
NAME=blocked denies everything. NAME=unlimited only counts.

A limit may end in +soft: it counts and denies nothing. +floors:CLASS=PERCENT,... is how
much of the capacity requests of a class leave to others. +ahead:TIME lets busy processes
take tokens ahead, and hold them for so long.

  rpm=600                            600 per minute
  tpm=40000/m:80000                  40000 per minute, bursts of up to 80000
  images=50/d                        50 per day, coming back one by one
  rpd=1000@daily                     1000 from midnight to midnight, UTC
  "budget=$500@monthly Asia/Tokyo"   500 dollars a month
  jobs=20@in-flight/2m               20 at work at once, epochs of two minutes
  rpm=600+floors:batch=40            600 per minute; batch leaves 40 percent to others
  rps=1000/s+ahead:500ms             1000 per second, taken ahead for at most half a second
  rpm=600+soft                       600 per minute, to be tried on real traffic`

func limitsCommand(a *app) *cobra.Command {
	return group("limits", "stored limits", limitsSet(a), limitsGet(a), limitsList(a), limitsResolve(a), limitsDelete(a),
		limitsReach(a))
}

func limitsGet(a *app) *cobra.Command {
	var at admin.Scope
	return scopeFlags(a.inNamespace(&cobra.Command{
		Use: "get [-e ENTITY] [-r RESOURCE]", Short: "show what is stored at one scope",
		Args: args(0, 0),
	}, func(c *call) (answer, error) {
		config, err := c.ns.Config(c.ctx, at)
		return configsAnswer(config), err
	}), &at)
}

func limitsList(a *app) *cobra.Command {
	var of admin.Scope
	return scopeFlags(a.inNamespace(&cobra.Command{
		Use: "list [-e ENTITY] [-r RESOURCE]", Short: "list what is stored: at all scopes, or for an entity or a resource",
		Args: args(0, 0),
	}, func(c *call) (answer, error) {
		configs, err := collect(c.ns.Configs(c.ctx, of), 0)
		return configsAnswer(configs...), err
	}), &of)
}

func limitsResolve(a *app) *cobra.Command {
	return a.inNamespace(&cobra.Command{
		Use: "resolve ENTITY RESOURCE", Short: "show the limits in force, and which scope they come from",
		Args: args(2, 2),
	}, func(c *call) (answer, error) {
		found, err := c.ns.Resolve(c.ctx, c.args[0], c.args[1])
		if err == nil && len(found.From.Limits) == 0 {
			err = fmt.Errorf("%w: no scope has limits for %q on %q", limiter.ErrNoLimits, c.args[0], c.args[1])
		}
		return resolvedAnswer(found), err
	})
}

func limitsReach(a *app) *cobra.Command {
	var at admin.Scope
	return scopeFlags(a.inNamespace(&cobra.Command{
		Use: "reach [-e ENTITY] [-r RESOURCE]", Short: "bring the stored limits to buckets that do not have them yet",
		Args: args(0, 0),
	}, func(c *call) (answer, error) {
		n, err := c.ns.Reach(c.ctx, at)
		r := rows{head: []string{"buckets", "changed"}}
		r.add(n.Buckets, n.Changed)
		return answer{value: n, rows: r}, err
	}), &at)
}

// parseLimits reads limits as limitSyntax describes them.
func parseLimits(c *cobra.Command, texts []string) ([]limiter.Limit, error) {
	var out []limiter.Limit
	for _, text := range texts {
		l, err := parseLimit(text)
		if err != nil {
			return nil, usage(c, "limit %q: %v", text, err)
		}
		out = append(out, l)
	}
	return out, nil
}

func parseLimit(text string) (limiter.Limit, error) {
	name, rule, ok := strings.Cut(text, "=")
	if !ok {
		return limiter.Limit{}, fmt.Errorf("want NAME=AMOUNT[/PERIOD][:CAPACITY], like rpm=600, or NAME=AMOUNT@CALENDAR, " +
			"like budget=$500@monthly")
	}
	if bare, with, more := cutLast(rule, "+soft", "+ahead:", "+floors:"); more != "" {
		l, err := parseLimit(name + "=" + bare)
		if err == nil {
			l, err = parseMore(l, more, with)
		}
		return l, err
	}
	switch rule {
	case "blocked":
		return limiter.Blocked(name), nil
	case "unlimited":
		return limiter.Unlimited(name), nil
	}
	if amount, when, at := strings.Cut(rule, "@"); at {
		return parseAt(name, amount, when)
	}
	rule, capacity, burst := strings.Cut(rule, ":")
	amount, period, every := strings.Cut(rule, "/")
	l := limiter.Limit{Name: name, Period: time.Minute}
	var err error
	if l.Refill, err = strconv.ParseInt(amount, 10, 64); err != nil {
		return l, fmt.Errorf("amount %q: want a whole number", amount)
	}
	l.Capacity = l.Refill
	if burst {
		if l.Capacity, err = strconv.ParseInt(capacity, 10, 64); err != nil {
			return l, fmt.Errorf("capacity %q: want a whole number", capacity)
		}
	}
	if every {
		if l.Period, err = parsePeriod(period); err != nil {
			return l, err
		}
	}
	return l, l.Validate()
}

// cutLast cuts a rule at the last of the marks, and returns which one that is.
func cutLast(rule string, marks ...string) (before, after, mark string) {
	last := -1
	for _, m := range marks {
		if at := strings.LastIndex(rule, m); at > last {
			last, mark = at, m
		}
	}
	if mark == "" {
		return rule, "", ""
	}
	return rule[:last], rule[last+len(mark):], mark
}

// parseMore reads what stands behind a mark, and adds it to a limit.
func parseMore(l limiter.Limit, mark, text string) (limiter.Limit, error) {
	var err error
	switch {
	case mark == "+soft" && text != "":
		return l, fmt.Errorf("%q after +soft: want nothing, or another +", text)
	case mark == "+soft":
		l = l.AsSoft()
	case mark == "+ahead:":
		if l.Ahead, err = time.ParseDuration(text); err != nil {
			return l, fmt.Errorf("ahead %q: want a time like 500ms", text)
		}
	default:
		for part := range strings.SplitSeq(text, ",") {
			class, percent, _ := strings.Cut(part, "=")
			n, err := strconv.Atoi(percent)
			if err != nil {
				return l, fmt.Errorf("floor %q: want a class and a whole number of percent, like batch=40", part)
			}
			l = l.WithFloor(class, n)
		}
	}
	return l, l.Validate()
}

// parseAt reads a limit with an @: "1000" and "daily Europe/Berlin", or "$500" and "monthly", and
// "20" and "in-flight/2m".
func parseAt(name, amount, when string) (limiter.Limit, error) {
	n, err := limiter.ParseAmount(amount)
	if err != nil {
		return limiter.Limit{}, err
	}
	if epoch, ok := strings.CutPrefix(when, "in-flight/"); ok {
		d, err := parsePeriod(epoch)
		if err != nil {
			return limiter.Limit{}, err
		}
		l := limiter.InFlight(name, n, d)
		return l, l.Validate()
	}
	at, err := limiter.ParseCalendar(when)
	if err != nil {
		return limiter.Limit{}, err
	}
	l := limiter.Quota(name, n, at)
	return l, l.Validate()
}

// parsePeriod reads "m", "90s", "2h", "30d".
func parsePeriod(text string) (time.Duration, error) {
	number := text
	if text != "" && (text[0] < '0' || text[0] > '9') {
		number = "1" + text
	}
	if days, ok := strings.CutSuffix(number, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n > 36500 {
			return 0, fmt.Errorf("period %q: want a whole number of days", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(number)
	if err != nil {
		return 0, fmt.Errorf("period %q: want s, m, h, d, or like 90s", text)
	}
	return d, nil
}

// limitText is what a row tells of a limit beside its numbers.
func limitText(l limiter.Limit) string {
	if l.Soft {
		l.Soft = false
		return strings.TrimPrefix(limitText(l)+", soft", ", ")
	}
	if l.Ahead != 0 {
		ahead := "ahead " + l.Ahead.String()
		l.Ahead = 0
		return strings.TrimPrefix(limitText(l)+", "+ahead, ", ")
	}
	if l.Floors != "" {
		floors := "floors " + l.Floors
		l.Floors = ""
		return strings.TrimPrefix(limitText(l)+", "+floors, ", ")
	}
	switch {
	case l.IsBlocked():
		return "blocked"
	case l.IsUnlimited():
		return "unlimited"
	case l.InFlight:
		return "in flight"
	case l.IsQuota():
		return "a quota: " + l.Reset.String()
	}
	return ""
}
