package eventsource

import (
	"bytes"
	"encoding/json"
)

// outcome is the result of an invocation for its batch.
type outcome struct {
	done   int  // this many records from the front are processed
	failed bool // the rest is not processed
	whole  bool // failed as a whole: there is no checkpoint at which to cut
}

func success(batch []Record) outcome { return outcome{done: len(batch)} }

var wholeBatchFailed = outcome{failed: true, whole: true}

// judge interprets the function's answer. Without reporting of batch item failures, every answer is
// a success.
func judge(batch []Record, answer []byte, functionError, reporting bool) outcome {
	if functionError {
		return wholeBatchFailed
	}
	answer = bytes.TrimSpace(answer)
	if !reporting || len(answer) == 0 || bytes.Equal(answer, []byte("null")) {
		return success(batch)
	}
	var doc map[string]json.RawMessage
	if json.Unmarshal(answer, &doc) != nil {
		return wholeBatchFailed
	}
	var failures []map[string]json.RawMessage
	if raw, ok := doc["batchItemFailures"]; ok && json.Unmarshal(raw, &failures) != nil {
		return wholeBatchFailed
	}
	if len(failures) == 0 {
		return success(batch)
	}
	lowest := len(batch)
	for _, failure := range failures {
		at, ok := position(batch, failure)
		if !ok {
			return wholeBatchFailed
		}
		lowest = min(lowest, at)
	}
	return outcome{done: lowest, failed: true}
}

// position returns the record that a batch item failure names. The batch is in stream order, so the
// lowest position has the lowest sequence number.
func position(batch []Record, failure map[string]json.RawMessage) (int, bool) {
	var identifier string
	if json.Unmarshal(failure["itemIdentifier"], &identifier) != nil || identifier == "" {
		return 0, false
	}
	for i, r := range batch {
		if r.Sequence == identifier {
			return i, true
		}
	}
	return 0, false
}
