package eventsource

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

func TestFilter(t *testing.T) {
	const record = `{"eventName":"MODIFY","n":5,"nothing":null,"tags":["a","b"],"empty":"",
		"dynamodb":{"Keys":{"SK":{"S":"#AUDIT#01"}},"NewImage":{"ttl":{"N":"5"},"SK":{"S":"#AUDIT#01"}}}}`
	for pattern, want := range map[string]bool{
		`{"eventName":["MODIFY"]}`:                      true,
		`{"eventName":["INSERT","MODIFY"]}`:             true,
		`{"eventName":["INSERT"]}`:                      false,
		`{"eventName":["MOD"]}`:                         false,
		`{"eventName":["modify"]}`:                      false,
		`{"eventName":[{"prefix":"MOD"}]}`:              true,
		`{"eventName":[{"prefix":"MODIFY"}]}`:           true,
		`{"eventName":[{"prefix":"OD"}]}`:               false,
		`{"eventName":["INSERT",{"prefix":"MOD"}]}`:     true,
		`{"userIdentity":{"type":["Service"]}}`:         false,
		`{"eventName":{"type":["Service"]}}`:            false,
		`{"dynamodb":["MODIFY"]}`:                       false,
		`{"absent":[""]}`:                               false,
		`{"nothing":[""]}`:                              false,
		`{"empty":[""]}`:                                true,
		`{"n":["5"]}`:                                   false,
		`{"dynamodb":{"NewImage":{"ttl":{"N":["5"]}}}}`: true,
		`{"eventName":["MODIFY"],"dynamodb":{"Keys":{"SK":{"S":[{"prefix":"#AUDIT#"}]}}}}`: true,
		`{"eventName":["REMOVE"],"dynamodb":{"Keys":{"SK":{"S":[{"prefix":"#AUDIT#"}]}}}}`: false,
		`{"eventName":["MODIFY"],"dynamodb":{"Keys":{"SK":{"S":[{"prefix":"#STATE"}]}}}}`:  false,
	} {
		f, err := ParseFilter([]string{pattern})
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		check.Equal(t, f.Pass([]byte(record)), want, "%s", pattern)
	}
	either, err := ParseFilter([]string{`{"eventName":["REMOVE"]}`, `{"empty":[""]}`})
	if err != nil || !either.Pass([]byte(record)) {
		t.Errorf("one of two patterns matches: %v", err)
	}
	if !(Filter{}).Pass([]byte(`{}`)) {
		t.Error("no patterns must pass everything")
	}
	if either.Pass([]byte(`"not an object"`)) {
		t.Error("a record that is no object passed")
	}
}

func TestParseFilterRefuses(t *testing.T) {
	for _, pattern := range []string{
		``, `[]`, `{}`, `{"eventName":"MODIFY"}`, `{"eventName":[]}`, `{"eventName":{}}`, `{"eventName":[["a"]]}`,
		`{"eventName":[{"wildcard":"M*"}]}`, `{"eventName":[{"prefix":5}]}`, `{"eventName":[{"prefix":"a","suffix":"b"}]}`,
		`{"eventName":[{}]}`, `{"n":[5]}`, `{"n":[null]}`, `{"$or":[{"n":["5"]},{"m":["5"]}]}`,
		// Lambda supports these, but no pattern of the stack uses them.
		`{"eventName":[{"suffix":"IFY"}]}`, `{"eventName":[{"anything-but":"MODIFY"}]}`,
		`{"eventName":[{"exists":true}]}`, `{"n":[{"numeric":[">",1]}]}`, `{"eventName":[{"equals-ignore-case":"modify"}]}`,
	} {
		if _, err := ParseFilter([]string{pattern}); err == nil {
			t.Errorf("%s: accepted", pattern)
		}
	}
	pattern := func(text string) string { return fmt.Sprintf(`{"a":[%q]}`, text) }
	check.NoError(t, check.Err(ParseFilter(slices.Repeat([]string{pattern("b")}, 10))))
	check.Says(t, check.Err(ParseFilter(slices.Repeat([]string{pattern("b")}, 11))), "11 filters")
	check.Says(t, check.Err(ParseFilter([]string{pattern(strings.Repeat("b", 4096))})), "filter of 4106 characters")
}
