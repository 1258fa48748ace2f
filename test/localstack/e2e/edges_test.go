package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/stack"
)

// Without a bucket for malformed records, such a record reaches the on-failure destination at the
// end. The records before and after it are counted.
func TestUnkeptMalformedRecordsGoToTheDestination(t *testing.T) {
	const victim = "victim"
	spoil := func(payload []byte) []byte {
		var event struct{ Records []json.RawMessage }
		if err := json.Unmarshal(payload, &event); err != nil {
			panic("bug: " + err.Error())
		}
		for i, rec := range event.Records {
			if strings.Contains(string(rec), "BUCKET#"+victim) {
				event.Records[i] = json.RawMessage(strings.ReplaceAll(string(rec), `"rf":{"N":"`, `"rf":{"N":"x`))
			}
		}
		return streamtest.PayloadOf(event.Records...)
	}
	r := start(t, setup{deliver: spoil, aggregate: func(h *runtimeapi.Config, m *eventsource.Config) {
		h.Env = append(h.Env, "DEAD_LETTER_BUCKET_NAME=")
		m.Settings.MaxRetries = 2
	}})
	limits := []limiter.Limit{limiter.PerSecond("rpm", 100)}
	acquire := func(entity string) {
		check.Must(t, check.Err(r.lib.Acquire(t.Context(),
			limiter.Request{Entity: entity, Resource: "gpt", Costs: limiter.Costs{"rpm": 1}, Limits: limits})))
	}
	for i := range 12 {
		acquire(fmt.Sprint("e", i%3))
		if i == 5 {
			acquire(victim)
		}
	}
	r.rest()
	for i := range 3 {
		entity := fmt.Sprint("e", i)
		var sum int64
		for _, s := range r.observe(new(clients.Book)).snapshots {
			if s.Entity == entity && s.Window == "daily" {
				sum += s.Counts["rpm"]
			}
		}
		check.Equal(t, sum, 4, "how often %s is counted", entity)
	}
	given := r.Functions[stack.Aggregator].Mapping.GivenUp()
	if len(given) != 1 || !strings.Contains(given[0].Payload, victim) {
		t.Fatalf("%d batches were given up, want one that holds the malformed record, with its payload", len(given))
	}
	t.Logf("given up after %d invocations: a batch of %d that begins with the malformed record; the other 12 records "+
		"are counted once", given[0].Invokes, len(given[0].Records))
}

// A function with an invalid environment does not start. Its error names all invalid variables.
func TestABadEnvironmentStopsTheStart(t *testing.T) {
	e := []string{"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=x", "TABLE_NAME=limits"}
	for _, c := range []struct {
		name, function string
		env            []string
		says           []string
	}{
		{"several", stack.Aggregator, []string{"SNAPSHOT_TTL_DAYS=0", "WRITE_CONCURRENCY=many"},
			[]string{"SNAPSHOT_TTL_DAYS", "WRITE_CONCURRENCY", "many"}},
		{"no bucket name", stack.Archiver, []string{"ARCHIVE_BUCKET_NAME=My_Bucket"},
			[]string{"ARCHIVE_BUCKET_NAME", "My_Bucket"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := runtimeapi.Start(runtimeapi.Config{Binary: runtimeapi.Built(c.function),
				Env: append(e[:len(e):len(e)], c.env...)})
			check.Must(t, err)
			defer h.Close()
			result, err := h.Invoke(t.Context(), []byte(`{"Records":[]}`))
			if err != nil || result.FunctionError == "" || result.ErrorType != "Runtime.ExitError" {
				t.Errorf("%+v %v, want that the process ends in its init", result, err)
			}
			for _, want := range c.says {
				if !strings.Contains(h.Logs(), want) {
					t.Errorf("the log does not say %q:\n%s", want, h.Logs())
				}
			}
		})
	}
}
