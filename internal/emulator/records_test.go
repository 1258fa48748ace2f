package emulator

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// answering is a client with a fixed answer.
type answering struct {
	status int
	body   string
	err    error
	closed bool
}

func (c *answering) Do(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: c.status, Header: http.Header{"X-Amz-Crc32": {"1"}}, Body: c,
		ContentLength: int64(len(c.body))}, c.err
}

func (c *answering) Read(p []byte) (int, error) {
	n := copy(p, c.body)
	if c.body = c.body[n:]; c.body == "" {
		return n, io.EOF
	}
	return n, nil
}

func (c *answering) Close() error {
	c.closed = true
	return nil
}

// In records, and only there, every value without a type becomes an empty map.
func TestValuesWithoutATypeBecomeEmptyMaps(t *testing.T) {
	const records = `{"Records":[{"dynamodb":{"Keys":{"PK":{"S":""},"SK":{}},"NewImage":{"a":{},` +
		`"b":{"L":[{},{"N":"1"}]},"c":{"M":{"d":{}}}},"OldImage":{"e":{}},` +
		`"Size":12345678901234567890},"eventID":null}],"Shard":{}}`
	const mended = `{"Records":[{"dynamodb":{"Keys":{"PK":{"S":""},"SK":{"M":{}}},"NewImage":{"a":{"M":{}},` +
		`"b":{"L":[{"M":{}},{"N":"1"}]},"c":{"M":{"d":{"M":{}}}}},"OldImage":{"e":{"M":{}}},` +
		`"Size":12345678901234567890},"eventID":null}],"Shard":{}}`
	const target = "DynamoDBStreams_20120810.GetRecords"
	gone := errors.New("gone")
	for _, c := range []struct {
		name, target, body, want string
		status                   int
		err                      error
	}{
		{"records", target, records, mended, 200, nil},
		{"no records", target, `{"Records":[]}`, `{"Records":[]}`, 200, nil},
		{"what is no record", target, `{"Records":[1,{"dynamodb":{"Keys":{"PK":1}}}]}`,
			`{"Records":[1,{"dynamodb":{"Keys":{"PK":1}}}]}`, 200, nil},
		{"another call", "DynamoDBStreams_20120810.DescribeStream", records, records, 200, nil},
		{"a refusal", target, records, records, 400, nil},
		{"no answer", target, "", "", 200, gone},
		{"half an answer", target, records[:50], "", 200, io.ErrUnexpectedEOF},
	} {
		from := &answering{status: c.status, body: c.body}
		if c.body == "" {
			from.err = c.err
		}
		r := &http.Request{Header: http.Header{"X-Amz-Target": {c.target}}}
		answer, err := typing{from}.Do(r)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) && !strings.HasPrefix(err.Error(), "records of DynamoDB Local: ") {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil {
			continue
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil || string(text) != c.want || answer.ContentLength != int64(len(c.want)) {
			t.Errorf("%s: %v, %d bytes:\n%s\nwant\n%s", c.name, err, answer.ContentLength, text, c.want)
		}
		read := c.status == 200 && c.target == target // the checksum is not that of the changed answer
		if from.closed != read || (answer.Header.Get("X-Amz-Crc32") == "") != read {
			t.Errorf("%s: closed %v, %v", c.name, from.closed, answer.Header)
		}
	}
}
