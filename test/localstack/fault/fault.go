// Package fault is an HTTP proxy in front of an emulator of DynamoDB or S3, for faults that
// emulators never have: by rules, it throttles, refuses, applies and then fails, reports conflicts,
// delays and disconnects. It also counts calls and consumed capacity by operation.
package fault

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Call is one request, for rules.
type Call struct {
	Operation string // for example UpdateItem; for S3 the method
	Path      string // of the URL: for S3 the bucket and the key
	Body      []byte // the request's JSON
}

// Rule determines which calls get which fault. The first rule that applies to a call decides; a
// call without such a rule passes unchanged. After it is added, a rule must not be changed or added
// again.
type Rule struct {
	Operation   string          // "" matches every operation
	Contains    string          // a text in the request body; "" matches every body
	Match       func(Call) bool // nil matches every call; called for one call at a time
	Skip        int             // the number of matching calls that pass first
	Times       int             // how often the rule applies; 0: unlimited
	Probability float64         // of applying to a matching call after Skip; 0: always
	Fault       Fault

	matched int // guarded by Proxy.mu
	hits    atomic.Int64
}

// Hits returns how often the rule applied.
func (r *Rule) Hits() int { return int(r.hits.Load()) }

// Fault is the fault of a call. The zero value is none. First comes Delay, then Forward, then the
// caller's answer: an Answer, a Reset, a HalfAnswer, or without those the real answer (which
// implies Forward).
type Fault struct {
	Delay      time.Duration
	Forward    bool    // the engine performs the call, even if the caller gets another answer
	Answer     *Answer // instead of the engine's
	Reset      bool    // the connection is reset without an answer
	HalfAnswer bool    // the connection ends in the middle of the engine's answer
}

// Answer is an error answer of DynamoDB, or of others with their own body.
type Answer struct {
	Status  int
	Code    string // for example ThrottlingException
	Message string
	Fields  map[string]any // further members of the JSON document
	Body    []byte         // replaces the JSON document
}

const exceptionPrefix = "com.amazonaws.dynamodb.v20120810#"

func (a *Answer) body() []byte {
	if a.Body != nil {
		return a.Body
	}
	doc := map[string]any{"__type": exceptionPrefix + a.Code, "message": a.Message}
	for name, value := range a.Fields {
		doc[name] = value
	}
	body, err := json.Marshal(doc)
	if err != nil {
		panic(fmt.Sprintf("bug: answer %q: %v", a.Code, err))
	}
	return body
}

// Throttled is a refusal by an on-demand table: nothing was written.
func Throttled(reason string) Fault {
	return Fault{Answer: throttle("ThrottlingException", "throttlingReasons", reason)}
}

// ThroughputExceeded is a refusal by a provisioned table or for a hot key: nothing was written.
func ThroughputExceeded(reason string) Fault {
	return Fault{Answer: throttle("ProvisionedThroughputExceededException", "ThrottlingReasons", reason)}
}

// Reasons for throttling.
const (
	ReasonKeyRange   = "TableWriteKeyRangeThroughputExceeded"
	ReasonTableLimit = "TableWriteMaxOnDemandThroughputExceeded"
)

func throttle(code, member, reason string) *Answer {
	return &Answer{
		Status: http.StatusBadRequest, Code: code, Message: "Throughput exceeds the current capacity of your table or index",
		Fields: map[string]any{member: []map[string]string{{"reason": reason,
			"resource": "arn:aws:dynamodb:us-east-1:000000000000:table/emulator"}}},
	}
}

// Refused resets the connection without forwarding anything.
func Refused() Fault { return Fault{Reset: true} }

// AppliedThenReset performs the call and resets the connection: the caller cannot find out whether
// it was performed.
func AppliedThenReset() Fault { return Fault{Forward: true, Reset: true} }

// AppliedThenHalf performs the call and disconnects in the middle of the answer.
func AppliedThenHalf() Fault { return Fault{Forward: true, HalfAnswer: true} }

// AppliedThenError performs the call and responds with 500.
func AppliedThenError() Fault { return Fault{Forward: true, Answer: internalError()} }

// Failed responds with 500 without performing the call.
func Failed() Fault { return Fault{Answer: internalError()} }

func internalError() *Answer {
	return &Answer{Status: http.StatusInternalServerError, Code: "InternalServerError", Message: "Internal server error"}
}

// Delayed lets the call through after d.
func Delayed(d time.Duration) Fault { return Fault{Delay: d} }

// Conflict is the answer to a plain write on an item in an ongoing transaction.
func Conflict() Fault {
	return Fault{Answer: &Answer{Status: http.StatusBadRequest, Code: "TransactionConflictException",
		Message: "Transaction is ongoing for the item"}}
}

// TransactionConflict cancels a transaction of several items; the one at position conflicting
// collided with another transaction.
func TransactionConflict(items, conflicting int) Fault {
	codes := make([]string, items)
	reasons := make([]map[string]string, items)
	for i := range reasons {
		codes[i] = "None"
		reasons[i] = map[string]string{"Code": "None"}
	}
	codes[conflicting] = "TransactionConflict"
	reasons[conflicting] = map[string]string{"Code": "TransactionConflict",
		"Message": "Transaction is ongoing for the item"}
	return Fault{Answer: &Answer{
		Status: http.StatusBadRequest, Code: "TransactionCanceledException",
		Message: "Transaction cancelled, please refer cancellation reasons for specific reasons [" +
			strings.Join(codes, ", ") + "]",
		Fields: map[string]any{"CancellationReasons": reasons},
	}}
}
