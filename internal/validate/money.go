package validate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// money are the words by which the name of a quota says that it counts millionths of a dollar.
// Nothing else that is stored does.
var (
	money   = regexp.MustCompile(`(?i)(^|[_.-])(budget|usd|dollars?|money|spend)([_.-]|$)`)
	noMoney = regexp.MustCompile(`(?i)(^|[_.-])tokens?([_.-]|$)`) // token-budget
)

// InDollars reports whether a quota counts millionths of a dollar, by its name.
func InDollars(limit string) bool { return money.MatchString(limit) && !noMoney.MatchString(limit) }

// Dollars writes millionths of a dollar as "$12.50", which limiter.ParseAmount reads.
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

// Amount writes tokens of a limit, in dollars if it is a quota whose name says that it counts money.
func Amount(limit string, quota bool, tokens int64) string {
	if quota && InDollars(limit) {
		return Dollars(tokens)
	}
	return strconv.FormatInt(tokens, 10)
}
