package streams

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/events/eventstest"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/internal/stream"
)

// TestSampleEvents sends every aggregator-*.json of the events folder through
// the aggregator, against a table that holds the newest images of the event, one
// second after its last record. It compares the response, the metrics and every
// write with the golden outcome.
func TestSampleEvents(t *testing.T) {
	before := store.SetRandom(func() uint64 { return 3 })
	t.Cleanup(func() { store.SetRandom(before) })
	eventstest.Run(t, "../events", "aggregator", outcomeOf)
}

func outcomeOf(t *testing.T, payload []byte) string {
	t.Helper()
	r := newRig(t)
	r.agg.concurrency = 1
	batch, err := stream.Decode(payload)
	check.Must(t, err)
	for _, c := range batch.Changes {
		r.db.Store(c.New.Item())
		r.now = max(r.now, c.Created+1000)
	}
	var writes strings.Builder
	r.db.SetHook(func(op memdynamo.Op) (bool, error) {
		fmt.Fprintf(&writes, "\n%s\n", op.Name)
		for _, w := range op.Writes {
			writes.WriteString(show(w))
		}
		return true, nil
	})
	response := r.handle(payload)
	var m map[string]any
	check.Must(t, json.Unmarshal(r.metrics.Bytes(), &m), "metric line %q", r.metrics.Bytes())
	var out strings.Builder
	fmt.Fprintf(&out, "response %s\nmetrics ", response)
	for _, name := range []string{"Records", "Changes", "Malformed", "Ignored", "Totals", "Writes", "WritesFailed",
		"Snapshots", "Refills", "ShardSteps", "Lifetimes", "Kept", "NotBegun", "IteratorAgeMs"} {
		fmt.Fprintf(&out, " %s=%v", name, m[name])
	}
	out.WriteString("\n" + writes.String())
	for _, k := range r.kept.keys {
		fmt.Fprintf(&out, "\nkept %s\n", k)
	}
	return out.String()
}

var alias = regexp.MustCompile(`[#:][0-9]+`)

// show renders a write as it would be sent, with the aliases filled in.
func show(w item.Write) string {
	k := w.Target()
	switch w := w.(type) {
	case item.Update:
		in := w.Input("t")
		fill := func(expression *string) string {
			if expression == nil {
				return ""
			}
			return alias.ReplaceAllStringFunc(*expression, func(a string) string {
				if name, ok := in.ExpressionAttributeNames[a]; ok {
					return name
				}
				return value(in.ExpressionAttributeValues[a])
			})
		}
		return fmt.Sprintf("  update %s %s\n    %s\n    if %s\n", k.PK, k.SK, fill(in.UpdateExpression),
			fill(in.ConditionExpression))
	case item.Put:
		it, err := json.Marshal(json.RawMessage(itemtest.JSON(w.Item)))
		if err != nil {
			panic(err)
		}
		return fmt.Sprintf("  put %s %s\n    %s\n", k.PK, k.SK, it)
	}
	return fmt.Sprintf("  %T %s %s\n", w, k.PK, k.SK)
}

func value(v item.Value) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return "'" + v.Value + "'"
	case *types.AttributeValueMemberN:
		return v.Value
	}
	b, err := json.Marshal(json.RawMessage(itemtest.JSON(item.Item{"": v})))
	if err != nil {
		panic(err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(b), `{"":`), "}")
}
