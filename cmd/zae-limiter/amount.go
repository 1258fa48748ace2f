package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// This file is the one place where the tool reads and writes numbers with a unit.

// amount is a number of tokens as people read it.
type amount struct {
	tokens  int64
	dollars bool // the tokens are millionths of a dollar
}

// String returns "12500000", or in dollars "$12.50": [limiter.ParseAmount] reads both.
func (m amount) String() string {
	if !m.dollars {
		return strconv.FormatInt(m.tokens, 10)
	}
	sign, n := "", uint64(m.tokens)
	if m.tokens < 0 {
		sign, n = "-", -n
	}
	whole, part := n/1_000_000, n%1_000_000
	if part == 0 {
		return fmt.Sprintf("%s$%d", sign, whole)
	}
	digits := strings.TrimRight(fmt.Sprintf("%06d", part), "0")
	return fmt.Sprintf("%s$%d.%s", sign, whole, digits+"0"[:max(0, 2-len(digits))])
}

// money are the words by which the name of a quota says that it counts millionths of a dollar.
// Nothing else that is stored does.
var (
	money   = regexp.MustCompile(`(?i)(^|[_.-])(budget|usd|dollars?|money|spend)([_.-]|$)`)
	noMoney = regexp.MustCompile(`(?i)(^|[_.-])tokens?([_.-]|$)`) // token-budget
)

// inDollars reports whether a quota of that name counts millionths of a dollar.
func inDollars(limit string) bool { return money.MatchString(limit) && !noMoney.MatchString(limit) }

// amountIn returns tokens of a limit of which only the name is known.
func amountIn(limit string, tokens int64) amount { return amount{tokens, inDollars(limit)} }

// amountOf returns tokens of a limit. Only quotas count money.
func amountOf(l limiter.Limit, tokens int64) amount {
	return amount{tokens, inDollars(l.Name) && l.Refill == 0}
}

// limitText returns a limit as limiter.Limit does, with dollars.
func limitText(l limiter.Limit) string {
	text := l.String()
	if rest, ok := strings.CutPrefix(text, fmt.Sprintf("%s: %d each ", l.Name, l.Capacity)); ok {
		return fmt.Sprintf("%s: %s each %s", l.Name, amountOf(l, l.Capacity), rest)
	}
	return text
}

// lines are what a scope holds.
func lines(c admin.Config) []string {
	var out []string
	for _, l := range c.Limits {
		out = append(out, limitText(l))
	}
	if c.OnUnavailable != limiter.PolicyDefault {
		out = append(out, "on unavailable: "+c.OnUnavailable.String())
	}
	if said := saidText(c.Access, c.Cascade); said != "" {
		out = append(out, said)
	}
	return out
}

// count returns a number of things: "1 shard", "2 shards".
func count[N int | int64](n N, things string) string {
	if n == 1 {
		things = strings.TrimSuffix(things, "s")
	}
	return fmt.Sprintf("%d %s", n, things)
}
