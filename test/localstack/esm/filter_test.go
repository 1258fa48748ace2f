package esm

import "testing"

func TestFilter(t *testing.T) {
	const record = `{"eventName":"MODIFY","n":5,"nothing":null,"tags":["a","b"],"empty":"",
		"dynamodb":{"Keys":{"SK":{"S":"#AUDIT#01"}},"NewImage":{"ttl":{"N":"5"},"SK":{"S":"#AUDIT#01"}}}}`
	for pattern, want := range map[string]bool{
		`{"eventName":["MODIFY"]}`:                                      true,
		`{"eventName":["INSERT","MODIFY"]}`:                             true,
		`{"eventName":["INSERT"]}`:                                      false,
		`{"eventName":["modify"]}`:                                      false,
		`{"eventName":[{"equals-ignore-case":"modify"}]}`:               true,
		`{"eventName":[{"prefix":"MOD"}]}`:                              true,
		`{"eventName":[{"prefix":"OD"}]}`:                               false,
		`{"eventName":[{"suffix":"IFY"}]}`:                              true,
		`{"eventName":[{"anything-but":["INSERT","REMOVE"]}]}`:          true,
		`{"eventName":[{"anything-but":"MODIFY"}]}`:                     false,
		`{"absent":[{"anything-but":"MODIFY"}]}`:                        false,
		`{"eventName":[{"exists":true}]}`:                               true,
		`{"eventName":[{"exists":false}]}`:                              false,
		`{"userIdentity":{"type":[{"exists":false}]}}`:                  true,
		`{"userIdentity":{"type":["Service"]}}`:                         false,
		`{"dynamodb":[{"exists":true}]}`:                                false,
		`{"nothing":[null]}`:                                            true,
		`{"absent":[null]}`:                                             false,
		`{"empty":[""]}`:                                                true,
		`{"n":[5]}`:                                                     true,
		`{"n":["5"]}`:                                                   false,
		`{"n":[{"numeric":[">",1,"<=",5]}]}`:                            true,
		`{"n":[{"numeric":["<",5]}]}`:                                   false,
		`{"dynamodb":{"NewImage":{"ttl":{"N":[{"numeric":["=",5]}]}}}}`: false, // numbers are strings there
		`{"dynamodb":{"NewImage":{"ttl":{"N":["5"]}}}}`:                 true,
		`{"tags":["b"]}`:                                                true,
		`{"tags":["c"]}`:                                                false,
		`{"eventName":["MODIFY"],"dynamodb":{"Keys":{"SK":{"S":[{"prefix":"#AUDIT#"}]}}}}`: true,
		`{"eventName":["REMOVE"],"dynamodb":{"Keys":{"SK":{"S":[{"prefix":"#AUDIT#"}]}}}}`: false,
		`{"$or":[{"eventName":["REMOVE"]},{"n":[5]}]}`:                                     true,
		`{"$or":[{"eventName":["REMOVE"]},{"n":[6]}]}`:                                     false,
	} {
		f, err := ParseFilter([]string{pattern})
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		if got := f.Pass([]byte(record)); got != want {
			t.Errorf("%s: got %v, want %v", pattern, got, want)
		}
	}
	either, err := ParseFilter([]string{`{"eventName":["REMOVE"]}`, `{"n":[5]}`})
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
		`{"n":[{"numeric":["~",5]}]}`, `{"n":[{"numeric":[">"]}]}`, `{"n":[{"exists":"yes"}]}`,
		`{"n":[{"anything-but":[]}]}`, `{"n":[{"anything-but":[null]}]}`, `{"$or":[{"n":[5]}]}`, `{"$or":["n","m"]}`,
	} {
		if _, err := ParseFilter([]string{pattern}); err == nil {
			t.Errorf("%s: accepted", pattern)
		}
	}
	if _, err := ParseFilter(make([]string, 11)); err == nil {
		t.Error("11 filters accepted")
	}
}
