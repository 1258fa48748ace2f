package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/eventsource"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
	"github.com/zeroae/zae-limiter-go/test/localstack/stack"
)

// D12: a record that can never be decoded is set aside and kept, with its
// payload; the others of its batch are counted at once.
func TestAMalformedRecordIsSetAsideAndKept(t *testing.T) {
	injected := 0
	r := start(t, setup{aggregate: func(_ *runtimeapi.Config, m *eventsource.Config) {
		m.Inject = func(b eventsource.Batch) eventsource.Trouble {
			if injected++; injected > 1 {
				return eventsource.Trouble{}
			}
			return eventsource.Trouble{Extra: []eventsource.Record{malformedBucket()}, ExtraAt: len(b.Records) / 2, Twice: true}
		}
	}})
	tn := tenant{entity: "m", resource: "gpt", most: 10,
		limits: []limiter.Limit{limiter.PerSecond("rpm", 100), limiter.PerSecond("tpm", 9000)}}
	l := r.play(load{clients: 1, calls: 10, tenants: []tenant{tn}, seed: 9})
	r.rest()
	r.hold(r.observe(l))
	kept := r.archive().malformed
	if len(kept) != 1 || !strings.Contains(kept[0], malformedMark) || !strings.Contains(kept[0], "many") {
		t.Errorf("kept %q, want the record, once, with its payload", kept)
	}
	stats := r.Functions[stack.Aggregator].Mapping.Stats()
	t.Logf("kept=%d failures=%d, although it was in %d deliveries", len(kept), stats.Failures, 2)
	if stats.Failures > 0 || stats.Injected != 1 {
		t.Errorf("%+v, want one record injected and no failure", stats)
	}
}

// Without a bucket to keep it in, a malformed record goes to the on-failure
// destination in the end, and what is before and after it is counted all the same.
func TestAMalformedRecordThatCannotBeKeptIsHandedOn(t *testing.T) {
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
		if _, err := r.lib.Acquire(t.Context(),
			limiter.Request{Entity: entity, Resource: "gpt", Costs: limiter.Costs{"rpm": 1}, Limits: limits}); err != nil {
			t.Fatal(err)
		}
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
		for _, s := range r.observe(new(book)).snapshots {
			if s.Entity == entity && s.Window == "daily" {
				sum += s.Counts["rpm"]
			}
		}
		if sum != 4 {
			t.Errorf("%s is counted %d times, want 4", entity, sum)
		}
	}
	given := r.Functions[stack.Aggregator].GivenUp.Records()
	if len(given) != 1 || !strings.Contains(given[0].Payload, victim) {
		t.Fatalf("%d batches were given up, want one that holds the malformed record, with its payload", len(given))
	}
	t.Logf("given up after %d invocations: a batch of %d that begins with the malformed record; the other 12 records "+
		"are counted once", given[0].RequestContext.ApproximateInvokeCount, given[0].Batch.BatchSize)
}

// D12: what does not fit into the time of an invocation is reported as not done,
// and done by the next ones. No invocation runs into its timeout or gets nowhere, unless
// the machine does not run it, or the engine, for a while. What is counted is exact
// always.
func TestABatchThatTakesTooLongIsDoneInParts(t *testing.T) {
	stalled := stalls(t)
	r := start(t, setup{aggregate: func(host *runtimeapi.Config, m *eventsource.Config) {
		direct("WRITE_CONCURRENCY=1")(host, m)
		host.Timeout = 3 * time.Second // of which one is kept back for the report
	}})
	const entities = 15
	r.Proxy.Add(&fault.Rule{Fault: fault.Delayed(100 * time.Millisecond)})
	limits := stored([]limiter.Limit{limiter.PerSecond("rpm", 100)})
	var records []streamtest.Record
	for i := range entities {
		b := table.Shard{Namespace: "slow", Entity: fmt.Sprint("e", i), Resource: "gpt",
			State: bucket.New(limits, 0, 1, batchStart)}
		old := b.Item()
		b.State = b.State.Take([]int64{bucket.Milli, bucket.WCUPerWrite})
		records = append(records, streamtest.Record{Sequence: fmt.Sprint(100 + i), Created: batchStart, Old: old,
			New: b.Item()})
	}
	b := &batchOf{r: r, namespace: "slow", records: records}
	function := r.Functions[stack.Aggregator].Host
	invocations, nowhere, at := 0, 0, 0
	for at < entities {
		next := b.deliver(at)
		if invocations++; next == at {
			nowhere++
		}
		if nowhere > 20 {
			t.Fatalf("%d of %d invocations got nowhere\n%s", nowhere, invocations, tail(function.Logs()))
		}
		at = next
	}
	for i := range entities {
		for _, part := range []string{"2026-01-01T00:00:00Z", "2026-01-01"} {
			if n := b.counted(fmt.Sprint("e", i), part); n != 1 {
				t.Errorf("e%d from %s: %d, want 1", i, part, n)
			}
		}
	}
	s := function.Stats()
	t.Logf("%d writes of 100 ms each in %d invocations of 3 s, timeouts=%d, without progress=%d", 2*entities, invocations,
		s.Timeouts, nowhere)
	if s.Errors > s.Timeouts || invocations < 2 {
		t.Errorf("invocations=%d, %+v, want several without an error", invocations, s)
	}
	const slow = 200 * time.Millisecond // of the second that is kept back
	switch stalled := stalled(); {
	case nowhere == 0 && s.Errors == 0:
	case stalled > slow:
		t.Logf("void: timeouts=%d, without progress=%d, but the machine stood still for %v", s.Timeouts, nowhere, stalled)
	default:
		t.Errorf("timeouts=%d, without progress=%d", s.Timeouts, nowhere)
	}
}

// A function with an unacceptable environment does not start, and says which
// variable is the matter, all of them at once.
func TestABadEnvironmentStopsTheStart(t *testing.T) {
	e := []string{"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=x", "TABLE_NAME=limits"}
	for _, c := range []struct {
		name, function string
		env            []string
		says           []string
	}{
		{"no table", stack.Aggregator, []string{"TABLE_NAME="}, []string{"TABLE_NAME"}},
		{"unknown window", stack.Aggregator, []string{"SNAPSHOT_WINDOWS=hourly,weekly"},
			[]string{"SNAPSHOT_WINDOWS", "weekly", "monthly"}},
		{"not a power of two", stack.Aggregator, []string{"MAX_SHARDS=12"}, []string{"MAX_SHARDS", "12", "power of two"}},
		{"several", stack.Aggregator, []string{"SNAPSHOT_TTL_DAYS=0", "WRITE_CONCURRENCY=many"},
			[]string{"SNAPSHOT_TTL_DAYS", "WRITE_CONCURRENCY", "many"}},
		{"no region", stack.Aggregator, []string{"AWS_REGION="}, []string{"AWS_REGION"}},
		{"no bucket", stack.Archiver, nil, []string{"ARCHIVE_BUCKET_NAME"}},
		{"no bucket name", stack.Archiver, []string{"ARCHIVE_BUCKET_NAME=My_Bucket"},
			[]string{"ARCHIVE_BUCKET_NAME", "My_Bucket"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := runtimeapi.Start(runtimeapi.Config{Binary: binary(t, c.function),
				Env: append(e[:len(e):len(e)], c.env...)})
			if err != nil {
				t.Fatal(err)
			}
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
