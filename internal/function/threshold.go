package function

import (
	"slices"
	"strconv"
	"strings"
)

// DefaultThresholds returns the percents of all quotas that are reported by default.
func DefaultThresholds() map[string][]int { return map[string][]int{"": {50, 80, 100}} }

// thresholds parses entries such as 80 and budget=90. A limit with its own entries has only those.
func (e *env) thresholds() map[string][]int {
	s := e.text(EnvThresholds)
	if s == "" {
		return DefaultThresholds()
	}
	out := map[string][]int{}
	for part := range strings.SplitSeq(s, ",") {
		limit, percent, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named {
			limit, percent = "", limit
		}
		n, err := strconv.Atoi(percent)
		if err != nil || percent != strconv.Itoa(n) || n < 1 || n > 100 || slices.Contains(out[limit], n) ||
			named && (!nameOf(limit, 1, 64, "_.-") || strings.ContainsAny(limit[:1], "0123456789_.-")) {
			e.wrong(EnvThresholds, "percents from 1 to 100 such as 80, or budget=80 for one limit, separated by commas, "+
				"each at most once")
			return nil
		}
		out[limit] = append(out[limit], n)
	}
	for _, percents := range out {
		slices.Sort(percents)
	}
	return out
}

// isAlertTarget reports whether s is the ARN of an event bus or of an SNS topic. It rejects FIFO
// topics, to which neither chats, mail nor HTTP endpoints can subscribe.
func isAlertTarget(s string) bool {
	p := strings.SplitN(s, ":", 6)
	if len(p) != 6 || p[0] != "arn" || !slices.Contains([]string{"aws", "aws-cn", "aws-us-gov"}, p[1]) ||
		!nameOf(p[3], 1, 32, "-") || len(p[4]) != 12 || strings.Trim(p[4], "0123456789") != "" {
		return false
	}
	switch bus, ok := strings.CutPrefix(p[5], "event-bus/"); p[2] {
	case "events":
		return ok && nameOf(bus, 1, 256, "._-/")
	case "sns":
		return nameOf(p[5], 1, 256, "_-")
	}
	return false
}
