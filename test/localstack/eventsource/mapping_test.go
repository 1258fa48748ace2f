package eventsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

// fixture is a table with a stream on one emulator.
type fixture struct {
	t      *testing.T
	e      *engine.Engine
	db     *dynamodb.Client
	table  string
	stream string
}

func newFixture(t *testing.T, kind engine.Kind) *fixture {
	t.Helper()
	e := engine.ForTest(t, kind)
	table := e.Table(t)
	return &fixture{t: t, e: e, db: e.DynamoDB(), table: table.Name, stream: table.StreamARN}
}

// add increments the attribute n of an item.
func (f *fixture) add(pk string) {
	f.t.Helper()
	_, err := f.db.UpdateItem(f.t.Context(), &dynamodb.UpdateItemInput{
		TableName: &f.table,
		Key: map[string]types.AttributeValue{
			"PK": &types.AttributeValueMemberS{Value: pk}, "SK": &types.AttributeValueMemberS{Value: "#STATE"},
		},
		UpdateExpression:          aws.String("ADD n :one"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}},
	})
	check.Must(f.t, err)
}

func (f *fixture) start(cfg Config) *Mapping {
	f.t.Helper()
	cfg.StreamARN, cfg.Streams = f.stream, f.e.Streams()
	m, err := Start(cfg)
	check.Must(f.t, err)
	f.t.Cleanup(m.Stop)
	return m
}

func (f *fixture) drain(m *Mapping) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	check.Must(f.t, m.Drain(ctx))
}

// seen collects the records of a function, by partition key.
type seen struct {
	mu      sync.Mutex
	values  map[string][]string
	batches int
}

func (s *seen) invoke(_ context.Context, payload []byte) (runtimeapi.Result, error) {
	var event events.DynamoDBEvent
	if err := json.Unmarshal(payload, &event); err != nil {
		return runtimeapi.Result{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches++
	if s.values == nil {
		s.values = map[string][]string{}
	}
	for _, r := range event.Records {
		pk := r.Change.Keys["PK"].String()
		s.values[pk] = append(s.values[pk], r.Change.NewImage["n"].Number())
	}
	return runtimeapi.Result{Payload: []byte(`{"batchItemFailures":[]}`)}, nil
}

func quick() Settings {
	s := DefaultSettings()
	s.Report = true
	s.RetryDelay = time.Millisecond
	return s
}

// TestEveryChangeOnceAndInOrder runs on both engines, with 3 virtual shards of
// 2 lanes each.
func TestEveryChangeOnceAndInOrder(t *testing.T) {
	for _, kind := range engine.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			f := newFixture(t, kind)
			var got seen
			settings := quick()
			settings.BatchSize, settings.Factor = 7, 2
			m := f.start(Config{Invoke: got.invoke, Settings: settings, Shards: 3})
			const items, rounds = 9, 12
			for range rounds {
				for i := range items {
					f.add("item" + strconv.Itoa(i))
				}
			}
			f.drain(m)
			f.add("late")
			f.drain(m)
			check.Slices(t, got.values["late"], []string{"1"}, "a record after everything was read")
			var want []string
			for i := range rounds {
				want = append(want, strconv.Itoa(i+1))
			}
			for i := range items {
				check.Slices(t, got.values["item"+strconv.Itoa(i)], want, "item%d", i)
			}
			s := m.Stats()
			t.Logf("%s: %+v", kind, s)
			if s.Records != items*rounds+1 || s.Processed != items*rounds+1 || s.Largest > 7 || s.Batches != got.batches {
				t.Errorf("stats %+v, batches seen %d", s, got.batches)
			}
		})
	}
}

// TestPayloadsMatchLambda compares a whole event, with placeholders for volatile fields.
func TestPayloadsMatchLambda(t *testing.T) {
	for _, kind := range engine.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			f := newFixture(t, kind)
			payloads := make(chan []byte, 10)
			settings := quick()
			settings.Window = time.Second
			before := time.Now().Add(-time.Second)
			f.add("a")
			f.add("a")
			m := f.start(Config{Settings: settings,
				Invoke: func(_ context.Context, p []byte) (runtimeapi.Result, error) {
					payloads <- p
					return runtimeapi.Result{}, nil
				}})
			f.drain(m)
			payload := string(<-payloads)
			var event events.DynamoDBEvent
			if err := json.Unmarshal([]byte(payload), &event); err != nil || len(event.Records) != 2 {
				t.Fatalf("payload %s: %v", payload, err)
			}
			const keys = `"Keys":{"PK":{"S":"a"},"SK":{"S":"#STATE"}}`
			image := func(n int) string {
				return fmt.Sprintf(`{"PK":{"S":"a"},"SK":{"S":"#STATE"},"n":{"N":"%d"}}`, n)
			}
			var want []string
			for i, r := range event.Records {
				name, images := "INSERT", `"NewImage":`+image(1)
				if i == 1 {
					name, images = "MODIFY", `"NewImage":`+image(2)+`,"OldImage":`+image(1)
				}
				created := r.Change.ApproximateCreationDateTime.Time
				if created.Before(before.Truncate(time.Minute)) || created.After(time.Now().Add(time.Minute)) {
					t.Errorf("created at %v", created)
				}
				if r.EventID == "" || r.Change.SequenceNumber == "" || r.Change.SizeBytes <= 0 {
					t.Errorf("record %+v", r)
				}
				want = append(want, fmt.Sprintf(
					`{"eventID":%q,"eventName":%q,"eventVersion":"1.1","eventSource":"aws:dynamodb","awsRegion":"us-east-1",`+
						`"dynamodb":{"ApproximateCreationDateTime":%d,%s,%s,"SequenceNumber":%q,"SizeBytes":%d,`+
						`"StreamViewType":"NEW_AND_OLD_IMAGES"},"eventSourceARN":%q}`,
					r.EventID, name, created.Unix(), keys, images, r.Change.SequenceNumber, r.Change.SizeBytes, f.stream))
			}
			if full := `{"Records":[` + strings.Join(want, ",") + `]}`; payload != full {
				t.Errorf("\n got %s\nwant %s", payload, full)
			}
		})
	}
}

func TestTroubleOnRealRecords(t *testing.T) {
	f := newFixture(t, engine.Dynoxide)
	var got seen
	malformed := 0
	invoke := func(ctx context.Context, p []byte) (runtimeapi.Result, error) {
		if strings.Contains(string(p), `{"Records":["garbage"`) {
			malformed++
			p = []byte(strings.Replace(string(p), `"garbage",`, "", 1))
		}
		return got.invoke(ctx, p)
	}
	settings := quick()
	settings.BatchSize, settings.MaxRetries = 5, 3
	for range 10 {
		f.add("a")
	}
	// The hour until the first batch is repeated has passed when the second is done.
	var now atomic.Int64
	now.Store(time.Now().UnixMilli())
	m := f.start(Config{Settings: settings, Invoke: invoke, Inject: func(b Batch) Trouble {
		if b.Number == 1 {
			return Trouble{LoseAnswer: true, Again: []time.Duration{0, time.Hour},
				Extra: []Record{RawRecord(`"garbage"`, 0)}}
		}
		now.Add(2 * time.Hour.Milliseconds())
		return Trouble{}
	}, Now: func() int64 { return now.Add(1) }})
	f.drain(m)
	want := "1 2 3 4 5 1 2 3 4 5 1 2 3 4 5 6 7 8 9 10 1 2 3 4 5"
	if values := strings.Join(got.values["a"], " "); values != want || malformed != 4 {
		t.Errorf("%d malformed, values %s", malformed, values)
	}
	s := m.Stats()
	if s.Records != 10 || s.Processed != 10 || s.Duplicates != 12 || s.Injected != 1 || s.Retries != 1 || s.Batches != 2 {
		t.Errorf("stats %+v", s)
	}
}

// TestGivenUp: an S3 destination gets the records, a queue does not.
func TestGivenUp(t *testing.T) {
	f := newFixture(t, engine.Dynoxide)
	for range 3 {
		f.add("a")
	}
	for _, kind := range []string{DestinationS3, DestinationSQS} {
		settings := quick()
		settings.BatchSize, settings.MaxRetries, settings.Bisect, settings.Destination = 2, 1, false, kind
		m := f.start(Config{Settings: settings,
			Invoke: func(_ context.Context, p []byte) (runtimeapi.Result, error) {
				if strings.Contains(string(p), `"n":{"N":"3"}`) {
					return runtimeapi.Result{}, nil
				}
				return runtimeapi.Result{}, errors.New("no")
			}})
		f.drain(m)
		given := m.GivenUp()
		if len(given) != 1 || len(given[0].Records) != 2 || given[0].Condition != retriesExhausted ||
			given[0].Invokes != 2 {
			t.Fatalf("%s: %+v", kind, given)
		}
		var event events.DynamoDBEvent
		switch err := json.Unmarshal([]byte(given[0].Payload), &event); {
		case kind == DestinationS3 && (err != nil || len(event.Records) != 2):
			t.Errorf("S3 record has payload %q: %v", given[0].Payload, err)
		case kind == DestinationSQS && given[0].Payload != "":
			t.Errorf("queue record has payload %q", given[0].Payload)
		}
		if s := m.Stats(); s.Dropped != 2 || s.Processed != 1 {
			t.Errorf("%s: stats %+v", kind, s)
		}
		m.Stop()
	}
}

func TestRecordsThatAreTooOldAreGivenUp(t *testing.T) {
	f := newFixture(t, engine.Dynoxide)
	f.add("a")
	settings, now := quick(), func() int64 { return time.Now().Add(time.Hour).UnixMilli() }
	settings.MaxAge = time.Minute
	var got seen
	m := f.start(Config{Settings: settings, Invoke: got.invoke, Now: now})
	f.drain(m)
	given := m.GivenUp()
	if len(given) != 1 || given[0].Condition != recordAgeExceeded || given[0].Invokes+got.batches != 0 ||
		m.Stats().Dropped != 1 {
		t.Errorf("%+v, %d batches", given, got.batches)
	}
}

func TestDrainReportsAStreamThatIsGone(t *testing.T) {
	f := newFixture(t, engine.Dynoxide)
	f.stream = strings.Replace(f.stream, f.table, "gone", 1)
	m := f.start(Config{Settings: quick(), Invoke: new(seen).invoke})
	check.Says(t, m.Drain(t.Context()), "gone")
}

func TestStartRefusesBadSettings(t *testing.T) {
	bad := quick()
	bad.BatchSize, bad.Window, bad.Factor, bad.MaxRetries, bad.MaxAge = 0, time.Hour, 11, -2, time.Second
	bad.Filters = []string{`{}`}
	_, err := Start(Config{Settings: bad})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range []string{"BatchSize", "Window", "Factor", "MaxRetries", "MaxAge", "filter"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is missing in %q", name, err)
		}
	}
}

// TestAWriteThatChangesNothingIsNoRecord: both emulators agree with AWS.
func TestAWriteThatChangesNothingIsNoRecord(t *testing.T) {
	for _, kind := range engine.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			f := newFixture(t, kind)
			item := map[string]types.AttributeValue{
				"PK": &types.AttributeValueMemberS{Value: "a"}, "SK": &types.AttributeValueMemberS{Value: "#STATE"},
				"n": &types.AttributeValueMemberN{Value: "1"},
			}
			for range 3 {
				check.Must(t, check.Err(f.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &f.table,
					Item: item})))
			}
			var got seen
			m := f.start(Config{Settings: quick(), Invoke: got.invoke})
			f.drain(m)
			if s := m.Stats(); s.Records != 1 || len(got.values["a"]) != 1 {
				t.Errorf("stats %+v, values %v", s, got.values)
			}
		})
	}
}
