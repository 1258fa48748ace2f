package replay

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/archive"
)

// Function is one of the two functions that read the stream.
type Function string

// The functions.
const (
	Aggregator Function = "aggregator"
	Archiver   Function = "archiver"
)

// BatchPrefix is the prefix under which Lambda stores the batches that it gave up.
const BatchPrefix = "aws/lambda/"

// Batch is the content of an object.
type Batch struct {
	Function  Function
	Malformed bool   // one record that a function could not decode
	Condition string // why it was stored, in the words of Lambda or a function
	Payload   []byte // in the form that a function accepts: {"Records":[…]}
	Records   int
}

// envelope is the invocation record that Lambda writes to an on-failure destination. The payload is
// text.
type envelope struct {
	RequestContext struct {
		FunctionARN string `json:"functionArn"`
		Condition   string `json:"condition"`
	} `json:"requestContext"`
	Payload string `json:"payload"`
}

// maxBody bounds the size of a decompressed object: Lambda's payloads have at most 6 MB, and a
// stream record less than 1 MB.
const maxBody = 32 << 20

// Parse decodes an object. of returns the function with an ARN or name, and is called only for
// objects of Lambda. malformed is the function whose malformed records are in this bucket.
func Parse(key string, body []byte, of func(arn string) (Function, bool), malformed Function) (Batch, error) {
	switch {
	case strings.HasPrefix(key, BatchPrefix):
		return parseBatch(body, of)
	case strings.HasPrefix(key, archive.PrefixMalformed):
		return parseMalformed(body, malformed)
	}
	return Batch{}, errors.New("neither a batch of Lambda nor a malformed record")
}

func parseBatch(body []byte, of func(string) (Function, bool)) (Batch, error) {
	var e envelope
	if err := json.Unmarshal(body, &e); err != nil {
		return Batch{}, fmt.Errorf("invocation record: %w", err)
	}
	function, ok := of(e.RequestContext.FunctionARN)
	if !ok {
		arn := e.RequestContext.FunctionARN
		return Batch{}, fmt.Errorf("invocation record of function %q, which is none of this stack", arn)
	}
	if e.Payload == "" {
		return Batch{}, errors.New("invocation record without payload")
	}
	// The attributes of a tumbling window are left out. Within a window a function returns its
	// state for the next invocation, and after a replay there is none.
	var p struct{ Records []json.RawMessage }
	if err := json.Unmarshal([]byte(e.Payload), &p); err != nil {
		return Batch{}, fmt.Errorf("payload: %w", err)
	}
	if len(p.Records) == 0 {
		return Batch{}, errors.New("payload without records")
	}
	payload, err := json.Marshal(p)
	return Batch{
		Function: function, Condition: e.RequestContext.Condition, Payload: payload, Records: len(p.Records),
	}, err
}

func parseMalformed(body []byte, function Function) (Batch, error) {
	zip, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return Batch{}, fmt.Errorf("malformed record: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(zip, maxBody))
	if err != nil {
		return Batch{}, fmt.Errorf("malformed record: %w", err)
	}
	var line struct {
		Reason string          `json:"reason"`
		Record json.RawMessage `json:"record"`
	}
	if err := json.Unmarshal(plain, &line); err != nil || len(line.Record) == 0 {
		return Batch{}, errors.Join(errors.New("malformed record: no object with reason and record"), err)
	}
	payload := slices.Concat([]byte(`{"Records":[`), line.Record, []byte(`]}`))
	return Batch{Function: function, Malformed: true, Condition: line.Reason, Payload: payload, Records: 1}, nil
}
