package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/validate"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// details returns the details of an audit event as text: "rpm: 10 per 1m0s, capacity 10" or
// "tokens: budget $50, rpm 5; id: invoice-4711".
func details(of map[string]any) string {
	var parts []string
	for _, name := range sortedKeys(of) {
		value := of[name]
		switch tokens, ok := value.(map[string]any); {
		case name == "limits":
			parts = slices.Insert(parts, 0, detail(value))
		case name == "tokens" && ok:
			parts = append(parts, "tokens: "+amounts(tokens))
		default:
			parts = append(parts, name+": "+detail(value))
		}
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

func detail(value any) string {
	switch v := value.(type) {
	case nil:
		return "none"
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = detail(one)
		}
		return strings.Join(parts, "; ")
	case map[string]any:
		if l := limiter.Limit(validate.LimitIn(v, limiter.ParseCalendar)); l.Validate() == nil {
			return l.String()
		}
		parts := make([]string, 0, len(v))
		for _, name := range sortedKeys(v) {
			parts = append(parts, name+" "+detail(v[name]))
		}
		return strings.Join(parts, ", ")
	}
	return fmt.Sprint(value)
}
