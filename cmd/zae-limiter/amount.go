package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Only this file reads and writes numbers with a unit.

// amount is a number of tokens in the form that people read.
type amount struct {
	tokens  int64
	dollars bool // the tokens are millionths of a dollar
}

// String returns "12500000", or in dollars "$12.50": [limiter.ParseAmount] reads both.
func (m amount) String() string {
	if !m.dollars {
		return strconv.FormatInt(m.tokens, 10)
	}
	return validate.Dollars(m.tokens)
}

// amountIn returns tokens of a limit when only the limit's name is known.
func amountIn(limit string, tokens int64) amount { return amount{tokens, validate.InDollars(limit)} }

// amountOf returns tokens of a limit. Only quotas count money.
func amountOf(l limiter.Limit, tokens int64) amount {
	return amount{tokens, validate.InDollars(l.Name) && l.Refill == 0}
}

// amounts returns tokens by limit: "budget $50, rpm 5".
func amounts[V any](tokens map[string]V) string {
	var parts []string
	for _, limit := range sortedKeys(tokens) {
		value := any(tokens[limit])
		if n, ok := value.(int64); ok {
			value = amountIn(limit, n)
		}
		parts = append(parts, fmt.Sprint(limit, " ", value))
	}
	return strings.Join(parts, ", ")
}

// count returns a number of things: "1 shard", "2 shards".
func count[N int | int64](n N, things string) string {
	if n == 1 {
		things = strings.TrimSuffix(things, "s")
	}
	return fmt.Sprintf("%d %s", n, things)
}
