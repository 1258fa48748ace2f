package validate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// money matches the names of quotas that count millionths of a dollar. Nothing else that is stored
// shows it.
var (
	money   = regexp.MustCompile(`(?i)(^|[_.-])(budget|usd|dollars?|money|spend)([_.-]|$)`)
	noMoney = regexp.MustCompile(`(?i)(^|[_.-])tokens?([_.-]|$)`) // token-budget
)

// InDollars reports whether a quota, judging by its name, counts millionths of a dollar.
func InDollars(limit string) bool { return money.MatchString(limit) && !noMoney.MatchString(limit) }

// Dollars formats millionths of a dollar as "$12.50", which limiter.ParseAmount reads.
func Dollars(millionths int64) string {
	sign, n := "", uint64(millionths)
	if millionths < 0 {
		sign, n = "-", -n
	}
	whole, part := n/1_000_000, n%1_000_000
	if part == 0 {
		return fmt.Sprintf("%s$%d", sign, whole)
	}
	digits := strings.TrimRight(fmt.Sprintf("%06d", part), "0")
	return fmt.Sprintf("%s$%d.%s", sign, whole, digits+"0"[:max(0, 2-len(digits))])
}

// Amount formats tokens of a limit, in dollars if it is a quota whose name shows that it counts
// money.
func Amount(limit string, quota bool, tokens int64) string {
	if quota && InDollars(limit) {
		return Dollars(tokens)
	}
	return strconv.FormatInt(tokens, 10)
}

// AmountOf is ParseAmount for a limit, whose name decides whether it may be dollars.
func AmountOf(limit, text string) (int64, error) {
	if strings.HasPrefix(text, "$") && !InDollars(limit) {
		return 0, Invalid("amount", text, fmt.Sprintf(
			"a whole number: the name %q counts no dollars (budget, usd, dollars, money and spend do)", limit))
	}
	return ParseAmount(text)
}

// ParseAmount is limiter.ParseAmount.
func ParseAmount(text string) (int64, error) {
	const accepted = "a whole number, or dollars with at most six digits behind the point, like $12.50"
	dollars, isMoney := strings.CutPrefix(text, "$")
	if !isMoney {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, Invalid("amount", text, accepted)
		}
		return n, nil
	}
	whole, part, point := strings.Cut(dollars, ".")
	digits := part + "000000"[:max(0, 6-len(part))]
	n, err := strconv.ParseUint(whole+digits, 10, 63)
	if err != nil || len(digits) > 6 || whole == "" || point && part == "" {
		return 0, Invalid("amount", text, accepted)
	}
	return int64(n), nil
}
