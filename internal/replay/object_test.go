package replay

import (
	"reflect"
	"strings"
	"testing"
)

// An object is a Lambda batch or one malformed record. Any other object is an error that says why.
func TestObjectsHoldABatchOrARecord(t *testing.T) {
	const set = "malformed/year=2026/month=01/day=01/1-hash.jsonl.gz"
	half := zipped(t, `{"a":"`+strings.Repeat("x", 100)+`"}`)
	half = half[:len(half)-12]
	zip := func(text string) []byte { return zipped(t, text) }
	plain := func(text string) []byte { return gzipped(t, text) }
	for _, c := range []struct {
		name, key string
		body      []byte
		want      Batch
		wrong     string
	}{
		{"a batch", key, given(t, "archiver", []byte(`{"Records":[{"a":1},{}]}`)),
			Batch{Function: Archiver, Condition: "RetryAttemptsExhausted", Payload: []byte(`{"Records":[{"a":1},{}]}`), Records: 2}, ""},
		{"a batch of a window", key, given(t, "aggregator", []byte(`{"Records":[{}],"state":{"a":1},"shardId":"s"}`)),
			Batch{Function: Aggregator, Condition: "RetryAttemptsExhausted", Payload: []byte(`{"Records":[{}]}`), Records: 1}, ""},
		{"a record", set, zip(`{"a":1}`),
			Batch{Function: Archiver, Malformed: true, Condition: "it was too new", Payload: []byte(`{"Records":[{"a":1}]}`), Records: 1}, ""},
		{"elsewhere", "year=2026/x", nil, Batch{}, "neither a batch of Lambda nor a malformed record"},
		{"another function", key, given(t, "x", []byte(`{"Records":[{}]}`)), Batch{},
			`invocation record of function "arn:aws:lambda:x:1:function:x", which is none of this stack`},
		{"not an invocation record", key, []byte("7"), Batch{},
			"invocation record: json: cannot unmarshal number into Go value of type replay.envelope"},
		{"without payload", key, given(t, "archiver", nil), Batch{}, "invocation record without payload"},
		{"an invalid payload", key, given(t, "archiver", []byte("x")), Batch{},
			"payload: invalid character 'x' looking for beginning of value"},
		{"invalid records", key, given(t, "archiver", []byte(`{"Records":7}`)), Batch{},
			"payload: json: cannot unmarshal number into Go struct field .Records of type []json.RawMessage"},
		{"no records", key, given(t, "archiver", []byte(`{"Records":[]}`)), Batch{}, "payload without records"},
		{"not gzip", set, []byte("x"), Batch{}, "malformed record: unexpected EOF"},
		{"half of a record", set, half, Batch{}, "malformed record: unexpected EOF"},
		{"not JSON", set, plain("x"), Batch{}, "malformed record: no object with reason and record\n" +
			"invalid character 'x' looking for beginning of value"},
		{"without record", set, plain(`{"reason":"r"}`), Batch{}, "malformed record: no object with reason and record"},
	} {
		got, err := Parse(c.key, c.body, (&functions{}).Of, Archiver)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if !reflect.DeepEqual(got, c.want) || said != c.wrong {
			t.Errorf("%s: %+v, error %q, want %+v, error %q", c.name, got, said, c.want, c.wrong)
		}
	}
}
