package poll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// source is a stream whose shards have records with sequence numbers; in the emulators, a stream
// has only one shard. A read returns two records.
type source struct {
	mu      sync.Mutex
	shards  []*part
	trimmed string // sequence number that is trimmed
	expired int    // reads whose iterator has expired
	reads   int
	lists   int
	silent  int // lists that fail
	created map[string]*time.Time
}

type part struct {
	id, parent string
	sequences  []string
	open       bool
}

func (s *source) DescribeStream(_ context.Context, in *dynamodbstreams.DescribeStreamInput,
	_ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists++; s.lists <= s.silent {
		return nil, errors.New("no list")
	}
	out := &types.StreamDescription{}
	i := 0
	if in.ExclusiveStartShardId != nil {
		i = 1 + slices.IndexFunc(s.shards, func(p *part) bool { return p.id == *in.ExclusiveStartShardId })
	}
	p := s.shards[i] // a page has one shard
	out.Shards = []types.Shard{{ShardId: aws.String(p.id), ParentShardId: aws.String(p.parent)}}
	if i+1 < len(s.shards) {
		out.LastEvaluatedShardId = aws.String(p.id)
	}
	return &dynamodbstreams.DescribeStreamOutput{StreamDescription: out}, nil
}

func (s *source) shard(id string) *part {
	return s.shards[slices.IndexFunc(s.shards, func(p *part) bool { return p.id == id })]
}

func (s *source) GetShardIterator(_ context.Context, in *dynamodbstreams.GetShardIteratorInput,
	_ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := 0
	if in.SequenceNumber != nil {
		if *in.SequenceNumber == s.trimmed {
			return nil, &types.TrimmedDataAccessException{}
		}
		at = slices.Index(s.shard(*in.ShardId).sequences, *in.SequenceNumber)
		if in.ShardIteratorType == types.ShardIteratorTypeAfterSequenceNumber {
			at++
		}
	} else if in.ShardIteratorType != types.ShardIteratorTypeTrimHorizon {
		return nil, fmt.Errorf("iterator of type %q", in.ShardIteratorType)
	}
	return &dynamodbstreams.GetShardIteratorOutput{ShardIterator: aws.String(*in.ShardId + "/" + strconv.Itoa(at))}, nil
}

func (s *source) GetRecords(_ context.Context, in *dynamodbstreams.GetRecordsInput,
	_ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.expired > 0 {
		s.expired--
		return nil, &types.ExpiredIteratorException{}
	}
	id, at, _ := strings.Cut(*in.ShardIterator, "/")
	if !slices.ContainsFunc(s.shards, func(p *part) bool { return p.id == id }) {
		return nil, &types.ResourceNotFoundException{}
	}
	i, _ := strconv.Atoi(at)
	p := s.shard(id)
	out := &dynamodbstreams.GetRecordsOutput{}
	for ; i < len(p.sequences) && len(out.Records) < 2; i++ {
		out.Records = append(out.Records, types.Record{
			EventName: types.OperationTypeModify,
			Dynamodb: &types.StreamRecord{
				SequenceNumber:              aws.String(p.sequences[i]),
				ApproximateCreationDateTime: s.created[p.sequences[i]],
			},
		})
	}
	if p.open || i < len(p.sequences) {
		out.NextShardIterator = aws.String(id + "/" + strconv.Itoa(i))
	}
	return out, nil
}

// oneShard returns a source with an open shard s.
func oneShard(sequences ...string) *source {
	return &source{shards: []*part{{id: "s", sequences: sequences, open: true}}}
}

// runFor reads the stream in a bubble until its context ends.
func runFor(t *testing.T, d time.Duration, o Options) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	o.Stream = "arn"
	check.Equal(t, Run(ctx, o), context.DeadlineExceeded, "ended with")
}

// function records its payloads, and answers as configured.
type function struct {
	mu     sync.Mutex
	got    []string
	answer func(batch int, first string) ([]byte, error)
	from   time.Time // see Options
}

func (f *function) invoke(ctx context.Context, payload []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, part := range strings.Split(string(payload), `"SequenceNumber":"`)[1:] {
		s, _, _ := strings.Cut(part, `"`)
		all = append(all, s)
	}
	f.got = append(f.got, strings.Join(all, " "))
	if f.answer != nil {
		if out, err := f.answer(len(f.got), all[0]); out != nil || err != nil {
			return out, err
		}
	}
	return []byte(`{"batchItemFailures":[]}`), nil
}

// Records older than From are skipped, also when they are read again. Later records of the same
// read are not skipped.
func TestBeginsFromAnInstant(t *testing.T) {
	from := time.Unix(1_700_000_000, 500_000_000)
	at := func(s int) *time.Time { t := from.Truncate(time.Second).Add(time.Duration(s) * time.Second); return &t }
	s := &source{
		shards:  []*part{{id: "s", sequences: []string{"1", "2", "3", "4", "5", "6"}, open: true}},
		created: map[string]*time.Time{"1": at(-9), "2": at(-1), "3": at(-1), "4": at(0), "5": at(1)}, // "6" does not say
	}
	f := &function{}
	f.from = from
	got, failed := play(t, s, f, func() { s.expired = 1; s.shard("s").sequences = append(s.shard("s").sequences, "7") })
	check.Slices(t, got, []string{"4", "5 6", "7"}, "given")
	check.Equal(t, len(failed), 1, "failed %q", failed)
}

// play runs for a minute in a bubble. It returns the payloads of the function, and the errors.
func play(t *testing.T, s *source, f *function, meanwhile func()) (got, failed []string) {
	synctest.Test(t, func(t *testing.T) {
		if meanwhile != nil {
			go func() { time.Sleep(20 * time.Second); s.mu.Lock(); defer s.mu.Unlock(); meanwhile() }()
		}
		var mu sync.Mutex
		runFor(t, time.Minute, Options{Client: s, Invoke: f.invoke, From: f.from, Failed: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err.Error())
		}})
	})
	return f.got, failed
}

// unanswered is a stream that never answers, or answers only lists, until its reader stops waiting.
type unanswered struct{ source }

func (u *unanswered) DescribeStream(ctx context.Context, in *dynamodbstreams.DescribeStreamInput,
	_ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	if len(u.shards) > 0 {
		return u.source.DescribeStream(ctx, in)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (u *unanswered) GetRecords(ctx context.Context, _ *dynamodbstreams.GetRecordsInput,
	_ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The end of the context is not reported as a failure, whatever the reader waits for.
func TestTheEndIsNotAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, shards := range [][]*part{nil, {{id: "a"}}} {
			runFor(t, time.Second, Options{Client: &unanswered{source{shards: shards}}, Invoke: new(function).invoke,
				Failed: func(err error) { t.Errorf("failed: %v", err) }})
		}
	})
}

// stalled is a stream whose first calls of each kind never end by themselves.
type stalled struct {
	source
	calls map[string]int
}

func (s *stalled) stall(ctx context.Context, call string) error {
	if s.calls[call]++; s.calls[call] > 1 {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *stalled) DescribeStream(ctx context.Context, in *dynamodbstreams.DescribeStreamInput,
	_ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	if err := s.stall(ctx, "list"); err != nil {
		return nil, err
	}
	return s.source.DescribeStream(ctx, in)
}

func (s *stalled) GetShardIterator(ctx context.Context, in *dynamodbstreams.GetShardIteratorInput,
	_ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	if err := s.stall(ctx, "open"); err != nil {
		return nil, err
	}
	return s.source.GetShardIterator(ctx, in)
}

func (s *stalled) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput,
	_ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	if err := s.stall(ctx, "read"); err != nil {
		return nil, err
	}
	return s.source.GetRecords(ctx, in)
}

// A call that is never answered is reported and made again: a dead connection stops no stream.
func TestUnansweredCallsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		s := &stalled{source{shards: []*part{{id: "a", sequences: []string{"1"}, open: true}}}, map[string]int{}}
		f, failed := &function{}, 0
		err := Run(ctx, Options{Client: s, Stream: "arn", Invoke: f.invoke, Failed: func(err error) {
			if failed++; !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}})
		check.Is(t, err, context.DeadlineExceeded, "ended with")
		if !slices.Equal(f.got, []string{"1"}) || failed != len(s.calls) {
			t.Errorf("given %q, %d failures of %v", f.got, failed, s.calls)
		}
	})
}

// All records of a shard come before those of its children, also if the children appear later. A
// parent that is no longer listed is not waited for.
func TestChildShardsFollowTheirParents(t *testing.T) {
	s := &source{shards: []*part{
		{id: "child-a", parent: "root", sequences: []string{"11", "12"}, open: true},
		{id: "child-b", parent: "root", sequences: []string{"21"}},
		{id: "root", parent: "gone", sequences: []string{"1", "2", "3"}},
	}}
	got, failed := play(t, s, &function{}, func() {
		s.shards = append(s.shards, &part{id: "late", parent: "child-b", sequences: []string{"31"}, open: true})
		s.shard("child-a").sequences = append(s.shard("child-a").sequences, "13")
	})
	if len(got) < 2 || got[0] != "1 2" || got[1] != "3" {
		t.Fatalf("given %q", got)
	}
	slices.Sort(got[2:])
	check.Slices(t, got[2:], []string{"11 12", "13", "21", "31"}, "then")
	check.Equal(t, len(failed), 0, "failed %q", failed)
}

// A shard that is no longer listed is dropped with the next list, so its reads fail for at most ten
// seconds.
func TestUnlistedShardsAreForgotten(t *testing.T) {
	s := &source{shards: []*part{{id: "a", open: true}, {id: "b", open: true}}}
	_, failed := play(t, s, &function{}, func() { s.shards = s.shards[1:] })
	if len(failed) > 11 {
		t.Errorf("%d reads of a shard that is gone", len(failed))
	}
}

// Records that are reported as not done are delivered again from there. Without an answer, the
// whole batch is.
func TestFailuresAreDeliveredAgain(t *testing.T) {
	s := oneShard("1", "2", "3", "4", "5")
	f := &function{answer: func(batch int, _ string) ([]byte, error) {
		switch batch {
		case 1:
			return []byte(`{"batchItemFailures":[{"itemIdentifier":"2"}]}`), nil
		case 2:
			return nil, errors.New("no answer")
		case 4:
			return []byte(`{"batchItemFailures":[{"itemIdentifier":""}]}`), nil
		case 5:
			return []byte(`not json`), nil
		}
		return nil, nil
	}}
	got, failed := play(t, s, f, nil)
	check.Slices(t, got, []string{"1 2", "2 3", "2 3", "4 5", "4 5", "4 5"}, "given")
	if len(failed) != 4 || failed[0] != `shard s: not done from record "2" on` ||
		failed[1] != "shard s: invoke: no answer" || !strings.HasPrefix(failed[3], `shard s: answer "not json"`) {
		t.Errorf("failed %q", failed)
	}
}

// A shard is read again at once after a read with records, and after a second otherwise. Three
// records take two reads. Then there is one read at once and one each second, for 10 s.
func TestReadsPauseWithoutRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := oneShard("1", "2", "3")
		runFor(t, 10*time.Second+time.Millisecond, Options{Client: s, Invoke: new(function).invoke})
		check.Equal(t, s.reads, 2+1+10, "reads")
		check.Equal(t, s.lists, 1, "lists")
	})
}

// When a shard ends, its children are listed and read at once, even if its last read had no record.
func TestChildShardsAreReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{shards: []*part{{id: "root"}, {id: "next", parent: "root", sequences: []string{"1"}}}}
		f := &function{}
		f.answer = func(int, string) ([]byte, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.shards) == 2 {
				s.shards = append(s.shards, &part{id: "last", parent: "next", sequences: []string{"2"}, open: true})
			}
			return nil, nil
		}
		runFor(t, 500*time.Millisecond, Options{Client: s, Invoke: f.invoke})
		check.Slices(t, f.got, []string{"1", "2"}, "given")
	})
}

// slowWithout is a source that answers late if a shard has no record.
type slowWithout struct{ *source }

func (s slowWithout) GetRecords(ctx context.Context, in *dynamodbstreams.GetRecordsInput,
	o ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	out, err := s.source.GetRecords(ctx, in, o...)
	if err == nil && len(out.Records) == 0 {
		time.Sleep(time.Millisecond)
	}
	return out, err
}

// A shard with records is read again at once, although another one without records answers later.
func TestShardsAreReadIndependently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{shards: []*part{{id: "idle", open: true}, {id: "busy", sequences: []string{"1", "2", "3"}, open: true}}}
		runFor(t, 500*time.Millisecond, Options{Client: slowWithout{s}, Invoke: new(function).invoke})
		check.Equal(t, s.reads, 2*3, "reads")
	})
}

// A list that fails is reported, and tried again after a pause.
func TestFailedListsAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := oneShard("1")
		s.silent = 3
		var failed []string
		runFor(t, 2500*time.Millisecond, Options{Client: s, Invoke: new(function).invoke,
			Failed: func(err error) { failed = append(failed, err.Error()) }})
		check.Slices(t, failed, slices.Repeat([]string{"list the shards of arn: no list"}, 3), "failed")
		check.Equal(t, s.reads, 0, "reads")
	})
}

// A batch that takes longer than Timeout is given up, and delivered again after a pause of Every.
func TestSlowBatchesAreDeliveredAgain(t *testing.T) {
	for _, o := range []Options{{}, {Timeout: 5 * time.Second, Every: 2 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			each := cmp.Or(o.Timeout, time.Minute) + cmp.Or(o.Every, time.Second)
			o.Client = oneShard("1")
			var at []time.Duration
			begin := time.Now()
			o.Invoke = func(ctx context.Context, _ []byte) ([]byte, error) {
				at = append(at, time.Since(begin))
				<-ctx.Done()
				return nil, ctx.Err()
			}
			runFor(t, 3*each+time.Second, o)
			check.Slices(t, at, []time.Duration{0, each, 2 * each, 3 * each}, "delivered at")
		})
	}
}

// An expired iterator is opened again after the last finished record. If that is trimmed, it is
// opened at the oldest record.
func TestExpiredIteratorsAreReopened(t *testing.T) {
	s := oneShard("1", "2")
	got, failed := play(t, s, &function{}, func() {
		s.expired = 1
		s.shard("s").sequences = append(s.shard("s").sequences, "3")
	})
	check.Slices(t, got, []string{"1 2", "3"}, "given")
	check.Equal(t, len(failed), 1, "failed %q", failed)
	s = oneShard("1", "2")
	got, failed = play(t, s, &function{}, func() {
		s.expired, s.trimmed = 1, "2"
		s.shard("s").sequences = []string{"5", "6"}
	})
	check.Slices(t, got, []string{"1 2", "5 6"}, "given")
	check.Equal(t, len(failed), 2, "failed %q", failed)
}

func TestLowestFailureCounts(t *testing.T) {
	var records []types.Record
	for _, n := range []string{"98", "99", "100"} {
		records = append(records, types.Record{Dynamodb: &types.StreamRecord{SequenceNumber: aws.String(n)}})
	}
	records = append(records, types.Record{}) // a record without contents
	check.Equal(t, len((&reader{}).due(records)), 4, "records")
	for answer, want := range map[string]int{
		`{"batchItemFailures":[]}`: 4,
		`{"batchItemFailures":[{"itemIdentifier":"99"},{"itemIdentifier":"100"}]}`: 1,
		`{"batchItemFailures":[{"itemIdentifier":"100"},{"itemIdentifier":"99"}]}`: 1,
		`{"batchItemFailures":[{"itemIdentifier":"100"},{"itemIdentifier":""}]}`:   0,
	} {
		first, err := undone([]byte(answer), records)
		check.Must(t, err, "%s", answer)
		check.Equal(t, first, want, "%s: record", answer)
	}
	all := Options{Client: &source{}, Stream: "arn", Invoke: (&function{}).invoke}
	for _, o := range []Options{{Stream: all.Stream, Invoke: all.Invoke}, {Client: all.Client, Invoke: all.Invoke},
		{Client: all.Client, Stream: all.Stream}} {
		check.Says(t, Run(t.Context(), o), "poll: Client, Stream and Invoke are required")
	}
}

// Every type of value is encoded like DynamoDB's.
func TestPayload(t *testing.T) {
	created := time.Unix(1_700_000_000, 0)
	got, err := payloadOf("arn", []types.Record{{
		EventID: aws.String("id"), EventName: types.OperationTypeRemove, EventVersion: aws.String("1.1"),
		AwsRegion:    aws.String("eu"),
		UserIdentity: &types.Identity{Type: aws.String("Service"), PrincipalId: aws.String("ttl")},
		Dynamodb: &types.StreamRecord{
			ApproximateCreationDateTime: &created, SequenceNumber: aws.String("7"), SizeBytes: aws.Int64(9),
			StreamViewType: types.StreamViewTypeNewAndOldImages,
			Keys:           map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: "k"}},
			NewImage:       map[string]types.AttributeValue{"n": &types.AttributeValueMemberN{Value: "1"}},
			OldImage: map[string]types.AttributeValue{
				"all": &types.AttributeValueMemberL{Value: []types.AttributeValue{
					&types.AttributeValueMemberN{Value: "1.50"}, &types.AttributeValueMemberB{Value: []byte("b")},
					&types.AttributeValueMemberBOOL{Value: true}, &types.AttributeValueMemberNULL{Value: true},
					&types.AttributeValueMemberSS{Value: []string{"s"}}, &types.AttributeValueMemberNS{Value: []string{"2"}},
					&types.AttributeValueMemberBS{Value: [][]byte{[]byte("c")}}, &types.AttributeValueMemberM{},
					&types.AttributeValueMemberL{},
					&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"x": &types.AttributeValueMemberS{}}},
				}},
			},
		},
	}, {}})
	check.Must(t, err)
	const want = `{"Records":[{"eventID":"id","eventName":"REMOVE","eventVersion":"1.1","eventSource":"aws:dynamodb",` +
		`"awsRegion":"eu","dynamodb":{"ApproximateCreationDateTime":1700000000,"Keys":{"PK":{"S":"k"}},` +
		`"NewImage":{"n":{"N":"1"}},"OldImage":{"all":{"L":[{"N":"1.50"},{"B":"Yg=="},{"BOOL":true},{"NULL":true},{"SS":["s"]},{"NS":["2"]},` +
		`{"BS":["Yw=="]},{"M":{}},{"L":[]},{"M":{"x":{"S":""}}}]}},"SequenceNumber":"7","SizeBytes":9,` +
		`"StreamViewType":"NEW_AND_OLD_IMAGES"},"userIdentity":{"type":"Service","principalId":"ttl"},"eventSourceARN":"arn"},`
	if !strings.HasPrefix(string(got), want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	check.Equal(t, fmt.Sprint(value(nil)), "map[]", "an unknown type")
}
