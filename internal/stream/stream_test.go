package stream_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/usage"
)

// The benchmarks use the same payload: 100 records over 20 buckets with two limits. Compare their
// ns/record: decoding and folding a record costs at most a fifth of decoding it into the Lambda
// library's event type (docs/design.md, Budgets).
const benchRecords, benchBuckets = 100, 20

func benchmark(b *testing.B, decode func(payload []byte) int) {
	payload := batch(benchRecords, benchBuckets)
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		check.MustEqual(b, decode(payload), benchRecords)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRecords, "ns/record")
}

func BenchmarkDecode(b *testing.B) {
	benchmark(b, func(payload []byte) int {
		got, err := stream.Decode(payload)
		check.Must(b, err)
		return len(got.Changes)
	})
}

func BenchmarkDecodeFold(b *testing.B) {
	benchmark(b, func(payload []byte) int {
		got, err := stream.Decode(payload)
		check.Must(b, err)
		parts := usage.Extend(nil, usage.Fold(got.Changes), usage.Hourly)
		check.MustEqual(b, len(parts), benchBuckets)
		for i := range parts {
			usage.Totals(parts[i:i+1], usage.Hourly)
		}
		return len(got.Changes)
	})
}

func BenchmarkLambdaEventDecode(b *testing.B) {
	benchmark(b, func(payload []byte) int {
		var e events.DynamoDBEvent
		check.Must(b, json.Unmarshal(payload, &e))
		return len(e.Records)
	})
}

// agree fails unless both decoders return the same, apart from the text of reasons.
func agree(t *testing.T, payload []byte) {
	t.Helper()
	before := bytes.Clone(payload)
	got, err := stream.Decode(payload)
	want, naive := stream.NaiveDecode(payload)
	check.MustEqual(t, err == nil, naive == nil, "error %v, naive %v %s", err, naive, payload)
	if !bytes.Equal(before, payload) {
		t.Fatal("the payload was changed")
	}
	for i := range got.Malformed {
		got.Malformed[i].Reason, got.Malformed[i].Created = "", 0
	}
	for i := range want.Malformed {
		want.Malformed[i].Reason = ""
	}
	for i := range got.Changes { // no slots and nil slots are equal
		c := &got.Changes[i]
		if len(c.New.State.Slots) == 0 {
			c.New.State.Slots = nil
		}
		if len(c.Used) == 0 {
			c.Used = nil
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got   %+v\nnaive %+v\n%s", got, want, payload)
	}
}

func seeds() [][]byte {
	b := sample("u\u00e9\"", 2, 4)
	b.State = b.State.At(t0 + 1)
	for i := range b.State.Slots {
		b.State.Slots[i].Tokens -= 777
	}
	b.State = b.State.At(t0 + 1_002)
	b.Parent, b.Cascade, b.Born = "p", true, t0
	b.State.HeldUntil, b.State.Slots[0].Held, b.State.Slots[1].Ended = t0+500, 3_000, 7_000
	now := take(b, 1, -5)
	uncounted := b.Item()
	delete(uncounted, "b_tpm_tc")
	return [][]byte{
		streamtest.Payload(streamtest.Record{Sequence: "12", Created: t0, Old: b.Item(), New: now.Item()}),
		streamtest.Payload(streamtest.Record{Sequence: "13", Created: t0, New: now.Item()},
			streamtest.Record{Sequence: "14", Created: t0, Old: now.Item()},
			streamtest.Record{Sequence: "15", Created: t0, Old: uncounted, New: now.Item()}),
		batch(2, 2),
		[]byte(`{"Records":[{"eventName":"INSERT","dynamodb":{"Keys":{"PK":{"S":"n/BUCKET#e#r#0"},"SK":{"S":"#STATE"}},"NewImage":{"b_x_tk":{"N":"1"}},"SequenceNumber":"1","ApproximateCreationDateTime":1e9}}]}`),
		streamtest.Payload(
			streamtest.Record{Sequence: strings.Repeat("9", 40), Created: t0, New: now.Item(),
				Label: "2026-02-28T23:59:59.999"},
			streamtest.Record{Sequence: "3", Created: t0, New: now.Item(), Label: "1795245763.946449995"}),
		[]byte(`{"Records":[null,[],{"eventName":"REMOVE"}]}`),
		append([]byte(`{"window":{"start":"2020-07-30T17:00:00Z","end":"2020-07-30T17:05:00Z"},"state":{"1":"282"},"shardId":"shard123456789",`+
			`"eventSourceARN":"stream-ARN","isFinalInvokeForWindow":false,"isWindowTerminatedEarly":true,`),
			batch(1, 1)[1:]...),
	}
}

// pieces are inserted by mutations: structure, and values at bounds.
var pieces = []string{
	`{`, `}`, `[`, `]`, `,`, `:`, `"`, `\`, `\u0041`, `\ud83d`, `\ude00`, `\n`, "\xff", "\xc3", "\x00", " ", "1", "-",
	".", "e5", "0",
	"null", "true", "false", `""`, `{}`, `[]`, `"N"`, `"S"`, `"M"`, `"BOOL"`, `{"N":"1"}`, `{"N":"9223372036854775807"}`,
	`{"N":"-9223372036854775808"}`,
	`{"N":"1.5"}`, `{"S":"x"}`, `{"NULL":true}`, `{"M":{}}`, `"x":1,`, `"rf":{"N":"5"},`, `"gn":{"N":"7"},`,
	`"hu":{"N":"7"},`, `"o_x":{"N":"-7"},`, `"x_x":{"N":"7"},`, `"x_rpm":{"S":"7"},`, `"o_wcu":{"N":"-7"},`, `"o_":{"N":"1"},`,
	`"dn":{"N":"9000"},`, `"dn":{"N":"-1"},`, `"dn":{"S":"1"},`, `"b_#_tc":{"N":"5"},`, `"x_#":{"N":"5"},`, `"bn":{"N":"-9"},`, `"bn":{"N":"9"},`,
	`"gn":{"S":"8"},`, `"gn":{"N":"9223372036854775808"},`, `"bn":{"N":"9223372036854775808"},`, `"s_rpm_ep":{"N":"1"},`,
	`"cascade":[true],`, `"window":{},`, `"state":{"v":1},`,
	`"isFinalInvokeForWindow":true,`, `"shardId":"s",`, `{"N":"99999999999999999999"}`,
	`"rr":{"M":{"rf":{"N":"5"},"r":{"M":{"x":{"N":"1"}}}}},`,
	`"eventSourceARN":"x/stream/2025-01-01T00:00:00",`, `/stream/`, `9`, `T`, `12:`,
	`"b_x_tc":{"N":"5"},`, `"b_x_tk":{"N":"5"},`, `"b_x_cp":{"N":"5"},`, `"b_x_ra":{"N":"5"},`, `"b_x_rp":{"N":"5"},`,
	`"b__tc":{"N":"1"},`, `"shard_count":{"N":"2"},`, `"cascade":{"BOOL":true},`,
}

func mutate(r *rand.Rand, in []byte) []byte {
	out := bytes.Clone(in)
	for range 1 + r.IntN(3) {
		if len(out) == 0 {
			return out
		}
		at := r.IntN(len(out))
		if i := bytes.IndexAny(out[at:], `{,:"`); r.IntN(2) == 0 && i >= 0 {
			at += i + 1 // after structure, where inserted members fit
		}
		piece := []byte(pieces[r.IntN(len(pieces))])
		member := at + bytes.Index(out[at:], []byte(`,"`)) + 1
		switch r.IntN(6) {
		case 0:
			out[at%len(out)] = byte(r.IntN(256))
		case 1:
			out = append(out[:at:at], out[min(len(out), at+1+r.IntN(8)):]...)
		case 2: // copy a part somewhere else
			from := r.IntN(len(out))
			piece = bytes.Clone(out[from:min(len(out), from+1+r.IntN(60))])
			out = slices.Insert(out, at, piece...)
		case 3: // repeat a member
			length := bytes.Index(out[member:], []byte(`,"`)) + 1
			out = slices.Insert(out, member, bytes.Clone(out[member:member+length])...)
		default:
			if bytes.HasSuffix(piece, []byte(",")) {
				at = member
			}
			out = slices.Insert(out, at, piece...)
		}
	}
	return out
}

func TestMutatedPayloadsDecodeLikeNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	valid, set := 0, 0
	all := seeds()
	for i := range 15_000 {
		p := mutate(r, all[i%len(all)])
		agree(t, p)
		if json.Valid(p) {
			valid++
			if b, err := stream.Decode(p); err == nil && len(b.Malformed) > 0 {
				set++
			}
		}
	}
	t.Logf("%d payloads were still JSON, %d of them with malformed records", valid, set)
	if valid < 1_000 || set < 300 {
		t.Errorf("mutations are too destructive: %d still JSON, %d with malformed records", valid, set)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	f.Fuzz(agree)
}
