package manifest

import (
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/limiter"
)

// What the parser refuses is said in words of manifests: the line once, and what is accepted there.
func TestWordsOfTheParser(t *testing.T) {
	limitKeys := strings.Join(keys(reflect.TypeFor[limit]()), ", ")
	in := func(rest string) string { return "namespace: a\nsystem:\n  limits:\n    rpm: " + rest }
	for text, want := range map[string]string{
		in("{capcity: 3}"):                              `line 4: system: limits: rpm: "capcity" is not known here, accepted are ` + limitKeys,
		in("3"):                                         `line 4: system: limits: rpm: found "3", want a mapping with any of ` + limitKeys,
		in("[1]"):                                       `line 4: system: limits: rpm: found a list, want a mapping with any of ` + limitKeys,
		in("{capacity: x}"):                             `line 4: system: limits: rpm: capacity: found "x", want a whole number`,
		in("{floors: {a: b}, capacity: 1}"):             `line 4: system: limits: rpm: floors: a: found "b", want a whole number`,
		in("{capacity: 3, soft: 5}"):                    `line 4: system: limits: rpm: soft: found "5", want true or false`,
		in("{capacity: 3, reset_schedule: 1}"):          `line 4: system: limits: rpm: reset_schedule: found "1", want a list`,
		in("{capacity: 3, schedule: [{scale: 0}]}"):     `found "0", want a number above 0, up to 1000000`,
		in("{capacity: 3, schedule: [{scale: -1}]}"):    `found "-1", want a number above 0`,
		in("{capacity: 3, schedule: [{scale: .nan}]}"):  `found ".nan", want a number above 0`,
		in("{capacity: 3, schedule: [{scale: '2'}]}"):   `found "2", want a number above 0`,
		in("{capacity: 3, reset_schedule: [{crn: 3}]}"): `line 4: system: limits: rpm: reset_schedule: "crn" is not known here, accepted are cron, tz`,
		in("{capacity: 3, reset: [daily]}"):             `line 4: system: limits: rpm: reset: found a list, want text`,
		"namespace: a\nresources: [x]":                  `line 2: resources: found a list, want names, each with a mapping with any of `,
		"namespace: a\nnovelty: 1":                      `line 2: "novelty" is not known here, accepted are namespace, system, `,
		"namespace: [a]\nnovelty: 1":                    `line 1: namespace: found a list, want text; line 2: "novelty"`,
		"- a":                                           `line 1: found a list, want a mapping with any of namespace, `,
		"namespace: a\nsystem: [a":                      "did not find expected",
	} {
		_, err := Parse([]byte(text))
		if !errors.Is(err, limiter.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %s", text, err, want)
		}
		if err != nil && regexp.MustCompile(`!!|manifest\.[a-z]|line \d+: line|construct`).MatchString(err.Error()) {
			t.Errorf("%s\n%v", text, err)
		}
	}
}
