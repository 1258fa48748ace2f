package calendar

import (
	"fmt"
	"strings"
	"time"
)

// words are the calendars with a name, and their expressions.
var words = map[string]string{
	"daily": "0 0 * * *", "weekly": "0 0 * * 1", "monthly": "0 0 1 * *",
	"quarterly": "0 0 1 1,4,7,10 *", "yearly": "0 0 1 1 *",
}

// FromText returns the canonical form of a calendar in the notation for people: "monthly
// Asia/Tokyo", "0 6 * * 1-5 Europe/Berlin" or "5h after first use". The default zone is UTC. The
// caller adds the text to the error.
func FromText(text string) (canonical string, err error) {
	if length, ok := strings.CutSuffix(text, " after first use"); ok {
		d, err := time.ParseDuration(length)
		if err != nil {
			return "", err
		}
		canonical = FromFirstUse(d)
		_, err = Parse(canonical)
		return canonical, err
	}
	parts := strings.Fields(text)
	if len(parts) > 0 && words[parts[0]] != "" {
		parts = append(strings.Fields(words[parts[0]]), parts[1:]...)
	}
	zone := "UTC"
	if len(parts) == 6 {
		zone, parts = parts[5], parts[:5]
	}
	return Cron(strings.Join(parts, " "), zone)
}

// FromFirstUse returns the canonical form of periods that begin with a first use. It is valid for
// whole seconds.
func FromFirstUse(d time.Duration) string {
	if d%time.Second != 0 {
		return "+" + d.String()
	}
	return fmt.Sprintf("+%d", d/time.Second)
}
