package stream_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

const t0 = 1_700_000_000_123

// sample is a bucket with two limits, as created by a client.
func sample(entity string, shard, shards int) table.Shard {
	limits := []bucket.Limit{
		{Name: "rpm", Capacity: 100_000, Amount: 100_000, Period: 60_000},
		{Name: "tpm", Capacity: 40_000_000, Amount: 40_000_000, Period: 60_000},
	}
	return table.Shard{
		Namespace: "kQ3xZp9LmNa", Entity: entity, Resource: "openai/gpt-4",
		State: bucket.New(limits, shard, shards, t0), TTL: t0/1000 + 420,
	}
}

// take returns the item after a charge.
func take(b table.Shard, rpm, tpm int64) table.Shard {
	b.State = b.State.Take([]int64{rpm * 1000, tpm * 1000, 1000})
	return b
}

func seq(n int) string { return fmt.Sprintf("%d", 4_421_584_500_000_000_000+int64(n)) + "0174504390" }

// batch returns n records, each an acquire on one of several buckets.
func batch(n, buckets int) []byte {
	state := make([]table.Shard, buckets)
	var all []json.RawMessage
	for i := range buckets {
		state[i] = sample(fmt.Sprintf("tenant-%06d:api-key@example.com", i), 0, 1)
	}
	for i := range n {
		old := state[i%buckets]
		now := take(old, 1, 350)
		state[i%buckets] = now
		all = append(all, streamtest.Record{Sequence: seq(i), Created: t0 + int64(i), Old: old.Item(),
			New: now.Item()}.JSON())
	}
	return streamtest.PayloadOf(all...)
}

func decode(t testing.TB, payload []byte) stream.Batch {
	t.Helper()
	b, err := stream.Decode(payload)
	check.Must(t, err)
	return b
}

func TestModifyCountsTheGrowth(t *testing.T) {
	old := take(sample("user:1", 3, 4), 5, 100)
	now := take(old, 1, -40)
	now.Parent, now.Cascade = "org", true
	got := decode(t, streamtest.Payload(streamtest.Record{Sequence: "0017", Created: t0, Old: old.Item(),
		New: now.Item()}))
	want := stream.Change{
		Operation: stream.Modify, Stream: 1_704_067_200, Sequence: "0017", Created: t0, New: now, OldShards: 4,
		Used: []stream.Used{
			{Limit: "rpm", Before: 5, After: 6, Was: true, Is: true, Milli: 1000},
			{Limit: "tpm", Before: 100, After: 60, Was: true, Is: true, Milli: -40_000},
		},
		Metered: 1000, OldRF: t0,
	}
	if len(got.Changes) != 1 || !reflect.DeepEqual(got.Changes[0], want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.Records != 1 || got.Oldest != t0 || got.Ignored != 0 || got.Malformed != nil {
		t.Errorf("batch %+v", got)
	}
}

// Prefetched tokens count as used, until they are known to have expired unused.
func TestExpiredTokensAreNotCounted(t *testing.T) {
	old := take(sample("e", 0, 1), 50, 0)
	old.State.HeldUntil, old.State.Slots[0].Held = t0+500, 40_000
	now := take(old, 1, 0)
	now.State.Slots = slices.Clone(now.State.Slots)
	now.State.Slots[0].Held, now.State.Slots[0].Ended = 0, 3_000
	c := decode(t, streamtest.Payload(streamtest.Record{Sequence: "1", Created: t0, Old: old.Item(),
		New: now.Item()})).Changes[0]
	check.Equal(t, c.Used[0], stream.Used{Limit: "rpm", Before: 50, After: 48, Was: true, Is: true, Milli: -2_000},
		"used %+v", c.Used)
	gone := decode(t, streamtest.Payload(streamtest.Record{Sequence: "1", Created: t0, Old: now.Item()})).Changes[0]
	check.Equal(t, gone.Used[0], stream.Used{Limit: "rpm", Before: 48, Was: true}, "the removal")
}

// The state of a change equals what the item codec decodes.
func TestStateEqualsItemCodec(t *testing.T) {
	b := sample("e", 5, 8)
	b.State = b.State.At(t0 + 7)
	for i := range b.State.Slots {
		b.State.Slots[i].Tokens -= 12_345
	}
	b.State = b.State.At(t0 + 1_011)
	rests := 0
	for _, sl := range b.State.Slots {
		if sl.Rest != 0 {
			rests++
		}
	}
	if rests == 0 {
		t.Fatal("sample has no remainders")
	}
	b.State.Slots[1].Soft = true
	b.State.HeldUntil, b.State.Slots[0].Held, b.State.Slots[1].Ended = t0+1_500, 3_000, 7_000
	want, err := table.DecodeShard(b.Item())
	check.Must(t, err)
	got := decode(t, streamtest.Payload(streamtest.Record{Sequence: "1", Created: t0, New: b.Item()})).Changes[0].New
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Quotas of both kinds are decoded as by the item codec: the end of their period, and credits in
// it. A second attribute of the same name, an attribute of another type, or an end of another
// refill instant changes nothing. A quota with an unknown calendar is not a slot.
func TestQuotasEqualItemCodec(t *testing.T) {
	b := sample("e", 1, 2)
	b.State = bucket.New([]bucket.Limit{
		{Name: "budget", Capacity: 10_000, Period: bucket.QuotaPeriod, Reset: "m0h*/2@UTC"},
		{Name: "first", Capacity: 8_000, Period: bucket.QuotaPeriod, Reset: "+3600"},
		bucket.Limit{Name: "raised", Capacity: 90_000, Amount: 60_000, Period: 60_000}.WithRaises("5:1999999999999+6:7"),
		bucket.Limit{Name: "more", Capacity: 90_000, Period: bucket.QuotaPeriod, Reset: "m0h0@UTC"}.
			WithRaises("5:1999999999999"),
		{Name: "rpm", Capacity: 100_000, Amount: 100_000, Period: 60_000},
	}, 1, 2, t0)
	b.State.Slots[b.State.Index("more")].End = t0 + 90_000 // later than the others
	for i, name := range []string{"budget", "first"} {
		sl := &b.State.Slots[b.State.Index(name)]
		sl.Tokens, sl.Used, sl.Extra = 1_000+int64(i), 3_000, 2_000*int64(i+1)
		if sl.End == 0 {
			sl.End = t0 + 60_000
		}
	}
	want, err := table.DecodeShard(b.Item())
	if err != nil || want.State.Slots[want.State.Index("first")].End != t0+60_000 ||
		want.State.Slots[want.State.Index("budget")].Extra == 0 ||
		want.State.Slots[want.State.Index("raised")].Capacity != 97_500 ||
		want.State.Slots[want.State.Index("more")].Capacity != 95_000 {
		t.Fatalf("%+v, %v", want, err)
	}
	payload := streamtest.Payload(streamtest.Record{Sequence: "1", Created: t0, New: b.Item()})
	got := decode(t, payload)
	if len(got.Changes) != 1 || !reflect.DeepEqual(got.Changes[0].New, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if len(got.Changes) == 1 && got.Changes[0].New.Key() != b.Key() {
		t.Errorf("key %v", got.Changes[0].New.Key())
	}
	it := b.Item() // of another refill instant
	it["rr"] = item.Map(item.Item{"rf": item.N(5), "e": item.Map(item.Item{"budget": item.N(t0 + 5)})})
	now := decode(t, streamtest.Payload(streamtest.Record{Sequence: "1", Created: t0, New: it})).Changes[0].New
	budget := want.State.Index("budget")
	check.Equal(t, now.State.Slots[budget], want.State.Slots[budget], "with an end of another instant")
	for limit, attr := range map[string]string{"budget": "b_budget_rsched", "wcu": "b_wcu_ra"} {
		it := b.Item()
		if it[attr] = item.S("x"); limit == "wcu" {
			it[attr] = item.N(0)
		}
		now = decode(t, streamtest.Payload(streamtest.Record{Sequence: "1", Created: t0, New: it})).Changes[0].New
		if now.State.Index(limit) >= 0 || len(now.Partial) != 1 || now.Partial[0].Name != limit {
			t.Errorf("with an odd %s: %+v", attr, now)
		}
	}
	for _, second := range []string{`"b_budget_tu":{"N":"1"}`, `"b_budget_rsched":{"S":"1m0h0"}`, `"b_budget_tu":[1]`,
		`"b_budget_tu":{"L":[]}`, `"b_budget_tu":{"B":"MQ=="}`} {
		twice := strings.Replace(string(payload), `"ttl":`, second+`,"ttl":`, 1)
		check.Deep(t, decode(t, []byte(twice)).Changes[0].New, want, "after a second %s", second)
	}
}

// Remainders count only if they are of the last refill, and unambiguous. Otherwise there are none,
// which loses less than a thousandth of a token.
func TestAmbiguousRemaindersAreDropped(t *testing.T) {
	b := sample("e", 5, 8)
	for i := range b.State.Slots {
		b.State.Slots[i].Tokens -= 12_345
	}
	b.State = b.State.At(t0 + 1_011)
	payload := string(streamtest.Payload(streamtest.Record{Sequence: "1", Created: t0, New: b.Item()}))
	instant := fmt.Sprintf(`"rf":{"N":"%d"}`, t0+1_011)
	rests := func(payload string) (n int) {
		for _, sl := range decode(t, []byte(payload)).Changes[0].New.State.Slots {
			if sl.Rest != 0 {
				n++
			}
		}
		return n
	}
	if n := rests(payload); n == 0 || strings.Count(payload, `"rr":{"M":{`) != 1 || strings.Count(payload, instant) != 2 {
		t.Fatalf("%d remainders in %s", n, payload)
	}
	whole := payload[strings.Index(payload, `"rr":{"M":{`):]
	whole = whole[:strings.Index(whole, instant)+len(instant)]
	for name, odd := range map[string]string{
		"twice":            `"rr":{"M":{}},` + whole,
		"of no instant":    strings.Replace(whole, instant, `"x":{"N":"1"}`, 1),
		"of another":       strings.Replace(whole, instant, `"rf":{"N":"5"}`, 1),
		"of two instants":  strings.Replace(whole, instant, instant+","+instant, 1),
		"of a text":        strings.Replace(whole, instant, `"rf":{"S":"x"}`, 1),
		"of limits, twice": strings.Replace(whole, `"M":{`, `"M":{"r":{"M":{}},`, 1),
		"of odd limits":    strings.Replace(whole, `"M":{`, `"M":{"r":{"N":"1"},`, 1),
		"of two types":     strings.Replace(whole, `"M":{`, `"N":"1","M":{`, 1),
		"of a limit twice": strings.Replace(whole, `"r":{"M":{`, `"r":{"M":{"rpm":{"N":"1"},`, 1),
		"of a whole token": strings.Replace(whole, `{"N":"37500"}`, `{"N":"60000"}`, 1),
		"of no type":       strings.Replace(whole, `"rr":{`, `"rr":1,"x":{`, 1),
		"of a negative":    strings.Replace(whole, `{"N":"37500"}`, `{"N":"-1"}`, 1),
		"of a fraction":    strings.Replace(whole, `{"N":"37500"}`, `{"N":"1.5"}`, 1),
		"of two maps":      strings.Replace(whole, `"rr":{`, `"rr":{"M":{},`, 1),
		"a list":           strings.Replace(whole, `"M":{`, `"L":[],"x":{`, 1),
	} {
		check.Equal(t, rests(strings.Replace(payload, whole, odd, 1)), 0, "%s: remainders", name)
	}
}

// W18: a bad record does not affect the others.
func TestMalformedRecordsAreSetAsideOneByOne(t *testing.T) {
	b := sample("e", 0, 1)
	rec := streamtest.Record{Sequence: "77", Created: t0, Old: b.Item(), New: take(b, 1, 1).Item()}
	whole := string(rec.JSON())
	good := streamtest.Record{Sequence: "78", Created: t0, Old: b.Item(), New: take(b, 1, 1).Item()}.JSON()
	const noNumber = `NewImage: limit "rpm": an attribute is no whole number, or there twice`
	for _, c := range []struct{ name, find, put, seq, reason string }{
		{"decimal", `"b_rpm_tc":{"N":"1000"}`, `"b_rpm_tc":{"N":"1000.5"}`, "77", noNumber},
		{"exponent", `"b_rpm_tc":{"N":"1000"}`, `"b_rpm_tc":{"N":"1E3"}`, "77", noNumber},
		{"a sign only", `"b_rpm_tc":{"N":"1000"}`, `"b_rpm_tc":{"N":"-"}`, "77", noNumber},
		{"a plus sign", `"b_rpm_tc":{"N":"1000"}`, `"b_rpm_tc":{"N":"+1000"}`, "77", noNumber},
		{"removed without an image", `"MODIFY"`, `"REMOVE"`, "77", `REMOVE without "OldImage"`},
		{"empty number", `"b_rpm_tc":{"N":"1000"}`, `"b_rpm_tc":{"N":""}`, "77", noNumber},
		{"string for number", `"b_rpm_tc":{"N":"1000"}`, `"b_rpm_tc":{"S":"1000"}`, "77", noNumber},
		{"bare number", `"b_rpm_tc":{"N":"1000"}`, `"b_rpm_tc":1000`, "77", noNumber},
		{"two types", `"b_rpm_tc":{"N":"1000"}`, `"b_rpm_tc":{"N":"1000","S":"x"}`, "77", noNumber},
		{"attribute twice", `"b_rpm_tc":{"N":"1000"}`, `"b_rpm_tc":{"N":"1000"},"b_rpm_tc":{"N":"1000"}`, "77",
			noNumber},
		{"shard count", `"shard_count":{"N":"1"}`, `"shard_count":{"N":"0"}`, "77",
			`NewImage: "shard_count" is no whole number from 1 to 1048576`},
		{"clock", `"rf":{"N":"1700000000123"}`, `"rf":{"N":"now"}`, "77",
			`NewImage: "rf" is no whole number of 64 bits`},
		{"event name", `"MODIFY"`, `"MODIFIED"`, "77", `"eventName" is none of INSERT, MODIFY, REMOVE`},
		{"event name as number", `"MODIFY"`, `7`, "77", `"eventName" is no string`},
		{"no event name", `"eventName":"MODIFY",`, ``, "77", `no "eventName"`},
		{"image missing", `"OldImage":`, `"OtherImage":`, "77", `MODIFY without "OldImage"`},
		{"insert with old image", `"MODIFY"`, `"INSERT"`, "77", `INSERT with "OldImage"`},
		{"denials twice", `"rf":`, `"dn":{"N":"1"},"dn":{"N":"1"},"rf":`, "77", `Image: "dn" twice`},
		{"image null", `"NewImage":{`, `"NewImage":null,"X":{`, "77", `NewImage: is no object`},
		{"created missing", `"ApproximateCreationDateTime":1700000000.123,`, ``, "77",
			`no "ApproximateCreationDateTime"`},
		{"created as string", `1700000000.123`, `"1700000000.123"`, "77", `"ApproximateCreationDateTime" is no number`},
		{"created in ms", `1700000000.123`, `1700000000123`, "77",
			`"ApproximateCreationDateTime" is no instant in seconds before the year 10000`},
		{"created negative", `1700000000.123`, `-1`, "77",
			`"ApproximateCreationDateTime" is no instant in seconds before the year 10000`},
		{"created beyond 64 bits", `1700000000.123`, `18446744073709556.616`, "77",
			`"ApproximateCreationDateTime" is no instant in seconds before the year 10000`},
		{"created in a huge power", `1700000000.123`, `1e999999999`, "77",
			`"ApproximateCreationDateTime" is no instant in seconds before the year 10000`},
		{"key", `{"S":"kQ3xZp9LmNa/BUCKET#e#openai/gpt-4#0"}`, `{"S":"kQ3xZp9LmNa/BUCKET#e#openai/gpt-4#x"}`, "77",
			`partition key is none of a bucket`},
		{"key of a shard of 32 bits", `#openai/gpt-4#0"}`, `#openai/gpt-4#2147483647"}`, "77",
			`partition key is none of a bucket`},
		{"key of a long entity", `/BUCKET#e#`, `/BUCKET#` + strings.Repeat("e", layout.MaxName+1) + `#`, "77",
			`partition key is none of a bucket`},
		{"key of a long resource", `#openai/gpt-4#0"}`, `#` + strings.Repeat("r", layout.MaxName+1) + `#0"}`, "77",
			`partition key is none of a bucket`},
		{"key without entity", `{"S":"kQ3xZp9LmNa/BUCKET#e#openai/gpt-4#0"}`, `{"S":"BUCKET#0"}`, "77",
			`partition key is none of a bucket`},
		{"key as number", `{"S":"kQ3xZp9LmNa/BUCKET#e#openai/gpt-4#0"}`, `{"N":"1"}`, "77",
			`"PK" in "Keys" is no string`},
		{"keys twice", `"Keys":{`, `"Keys":{},"Keys":{`, "77", `"Keys" twice`},
		{"keys as a list", `"Keys":{`, `"Keys":[1],"X":{`, "77", `"Keys" is no object`},
		{"sequence letters", `"SequenceNumber":"77"`, `"SequenceNumber":"x7"`, "",
			`"SequenceNumber" is not 1 to 40 digits`},
		{"sequence empty", `"SequenceNumber":"77"`, `"SequenceNumber":""`, "",
			`"SequenceNumber" is not 1 to 40 digits`},
		{"sequence long", `"SequenceNumber":"77"`, `"SequenceNumber":"` + strings.Repeat("1", 41) + `"`, "",
			`"SequenceNumber" is not 1 to 40 digits`},
		{"sequence number", `"SequenceNumber":"77"`, `"SequenceNumber":77`, "", `"SequenceNumber" is no string`},
		{"no sequence", `"SequenceNumber":"77",`, ``, "", `no "SequenceNumber"`},
		{"dynamodb twice", `"dynamodb":{`, `"dynamodb":{},"dynamodb":{`, "", `"dynamodb" twice`},
		{"dynamodb as a list", `"dynamodb":{`, `"dynamodb":[1],"X":{`, "", `"dynamodb" is no object`},
		{"stream twice", `"eventSourceARN":`, `"eventSourceARN":"","eventSourceARN":`, "77", `"eventSourceARN" twice`},
		{"stream null", `"eventSourceARN":`, `"eventSourceARN":null,"X":`, "77", `"eventSourceARN" is no string`},
		{"not an object", whole, `[1,2]`, "", `record is no object`},
		{"null", whole, `null`, "", `record is no object`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(whole, c.find) {
				t.Fatalf("sample has no %s:\n%s", c.find, whole)
			}
			bad := strings.Replace(whole, c.find, c.put, 1)
			if strings.HasPrefix(c.name, "removed") {
				bad = strings.Replace(bad, `"OldImage":`, `"OtherImage":`, 1)
			}
			got := decode(t, streamtest.PayloadOf(good, json.RawMessage(bad), good))
			if len(got.Changes) != 2 || len(got.Malformed) != 1 || got.Records != 3 {
				t.Fatalf("batch %+v", got)
			}
			m := got.Malformed[0]
			if m.Sequence != c.seq || !strings.Contains(m.Reason, c.reason) || string(m.Raw) != bad {
				t.Errorf("malformed %q: %s\n%s", m.Sequence, m.Reason, m.Raw)
			}
			t.Log(m.Reason)
		})
	}
}

func TestOtherPayloadsAreErrors(t *testing.T) {
	good := string(batch(1, 1))
	for _, p := range []string{
		"", " ", "null", "[]", "{}", `{"records":[]}`, `{"Records":{}}`, `{"Records":null}`, `{"Records":[]`,
		`{"Records":[],}`,
		`{"Records":[{]}`, `{"Records":[]}x`, `{"Records":[],"Records":[]}`, good[:len(good)-3], good[:len(good)/2],
		good + good,
		strings.Repeat("[", 100_000), `{"Records":` + strings.Repeat("[", 100_000), `{"Records":["` + "\x01" + `"]}`,
	} {
		if b, err := stream.Decode([]byte(p)); err == nil {
			t.Errorf("%.60q: no error, %+v", p, b)
		}
	}
	if b := decode(t, []byte(" {\"x\": [true,false,null,-1.5e+3,\"\\u00e9\"] ,\"Records\" : [ ] } \n")); b.Records != 0 {
		t.Errorf("empty batch: %+v", b)
	}
}

// A stream is identified by the instant in its name, which only DynamoDB's own streams have.
func TestStreamsAreIdentifiedByTheirName(t *testing.T) {
	const prefix = "arn:aws:dynamodb:us-east-1:123456789012:table/stream/stream/"
	var all []json.RawMessage
	names := []struct {
		arn  string
		want int64
	}{
		{prefix + "2024-01-01T00:00:00.000", 1_704_067_200},
		{prefix + "2024-01-01T00:00:00.999", 1_704_067_200},
		{prefix + "2024-01-01T00:00:01", 1_704_067_201},
		{"", 0},
		{prefix + "1795245763.946449995", 0}, // dynoxide
		{prefix, 0},
		{prefix + "2024-13-01T00:00:00.000", 0},
		{prefix + "2024-01-01T00:00:00.000/x", 0},
		{prefix + "1969-12-31T23:59:59.999", 0},
		{prefix + "2286-11-20T17:46:39.000", 9_999_999_999},
		{prefix + "2286-11-20T17:46:40.000", 0}, // eleven digits
		{"arn:aws:dynamodb:us-east-1:123456789012:table/2024-01-01T00:00:00.000", 0},
		{prefix + "2024-01-01T00:00:00.000", 1_704_067_200},
	}
	whole := string(streamtest.Record{Sequence: "1", Created: t0, New: sample("e", 0, 1).Item(), Label: "@"}.JSON())
	from := strings.Index(whole, `"eventSourceARN"`)
	to := from + strings.Index(whole[from:], "@\"") + 2
	for _, n := range names {
		all = append(all, json.RawMessage(whole[:from]+fmt.Sprintf(`"eventSourceARN":%q`, n.arn)+whole[to:]))
	}
	without := strings.Replace(whole, "eventSourceARN", "x", 1)
	got := decode(t, streamtest.PayloadOf(append(all, json.RawMessage(without))...))
	if len(got.Changes) != len(names)+1 || got.Changes[len(names)].Stream != 0 {
		t.Fatalf("batch %+v", got)
	}
	for i, n := range names {
		check.Equal(t, got.Changes[i].Stream, n.want, "%q: stream of", n.arn)
	}
}

func TestEscapedAndUnicodeText(t *testing.T) {
	b := sample("e", 0, 1)
	now := take(b, 1, 1)
	now.Entity, now.Parent = "é", "a\"b\\c/\b\f\n\r\té😀"
	raw := string(streamtest.Record{Sequence: "1", Created: t0, Old: b.Item(), New: now.Item()}.JSON())
	raw = strings.ReplaceAll(raw, `#é#`, `#\u00E9#`)
	raw = strings.ReplaceAll(raw, `😀`, `\ud83D\uDe00`)
	raw = strings.ReplaceAll(raw, `"b_rpm_tc"`, `"\u0062_rpm_t\u0063"`)
	raw = strings.ReplaceAll(raw, `"NewImage"`, `"New\u0049mage"`)
	raw = strings.ReplaceAll(raw, `"N":`, `"\u004e":`)
	c := decode(t, streamtest.PayloadOf(json.RawMessage(raw))).Changes[0]
	if c.New.Parent != now.Parent || c.New.Entity != now.Entity || len(c.Used) != 2 || c.Used[0].Milli != 1000 {
		t.Errorf("change %+v", c)
	}
}

func TestCreatedIsExact(t *testing.T) {
	for in, want := range map[string]int64{
		"1700000000": 1_700_000_000_000, "1700000000.1": 1_700_000_000_100,
		"1700000000.1239999999999999999999": 1_700_000_000_123,
		"1.7E9":                             1_700_000_000_000, "1.700000000123e+9": 1_700_000_000_123,
		"17000000001235e-4": 1_700_000_000_123, "170000000012350000000000000e-17": 1_700_000_000_123,
		"0.001":            1,
		"253402300799.999": 253402300799999,
	} {
		raw := strings.Replace(string(streamtest.Record{Sequence: "1", Created: t0, New: sample("e", 0, 1).Item()}.JSON()),
			"1700000000.123", in, 1)
		b := decode(t, streamtest.PayloadOf(json.RawMessage(raw)))
		if len(b.Changes) != 1 || b.Changes[0].Created != want {
			t.Errorf("%s: %+v, want %d", in, b, want)
		}
	}
}

func TestResultsOutliveThePayload(t *testing.T) {
	payload := batch(5, 2)
	got := decode(t, payload)
	want := decode(t, append([]byte(nil), payload...))
	for i := range payload {
		payload[i] = '#'
	}
	check.Deep(t, got, want, "changes point into the payload")
}

// The old image of a removal has the last counters, for any cause of the removal.
func TestRemovalCarriesTheLastCounters(t *testing.T) {
	b := take(sample("e", 3, 4), 5, 100)
	it := b.Item()
	it["gn"], it["bn"] = item.N(77), item.N(55)
	c := decode(t, streamtest.Payload(streamtest.Record{Sequence: "9", Created: t0, Old: it})).Changes[0]
	want := stream.Change{
		Operation: stream.Remove, Stream: 1_704_067_200, Sequence: "9", Created: t0, OldShards: 4, OldRF: t0,
		OldGeneration: 77, OldBorn: 55,
		New:  table.Shard{Namespace: b.Namespace, Entity: "e", Resource: b.Resource, State: bucket.State{Shard: 3}},
		Used: []stream.Used{{Limit: "rpm", Before: 5, Was: true}, {Limit: "tpm", Before: 100, Was: true}},
	}
	check.Deep(t, c, want)
}

// Levels and counters beyond 64 bits, and items with any number of limits, are decoded: their
// records are counted, not set aside.
func TestHostileItemsAreRead(t *testing.T) {
	old, now := sample("e", 0, 1).Item(), take(sample("e", 0, 1), 1, 1).Item()
	for i := range 3000 {
		name := fmt.Sprintf("b_day%04d_tc", i*7919%3000)
		old[name], now[name] = item.N(1000), item.N(1000)
	}
	now["b_day0042_tc"] = item.N(3000)
	old["b_big_tc"], now["b_big_tc"] = &types.AttributeValueMemberN{Value: "9223372036854775808"},
		&types.AttributeValueMemberN{Value: "1" + strings.Repeat("0", 37)}
	now["b_rpm_tk"] = &types.AttributeValueMemberN{Value: "-9223372036854775809"}
	now["b_tpm_tk"] = &types.AttributeValueMemberN{Value: "9223372036854775808"}
	got := decode(t, streamtest.Payload(streamtest.Record{Sequence: "9", Created: t0, Old: old, New: now}))
	check.MustEqual(t, len(got.Changes), 1, "malformed: %+v", got.Malformed)
	c := got.Changes[0]
	check.Equal(t, len(c.Used), 3003)
	for limit, want := range map[string]int64{"big": math.MaxInt64, "day0042": 2000, "day0043": 0, "rpm": 1000} {
		i := slices.IndexFunc(c.Used, func(u stream.Used) bool { return u.Limit == limit })
		check.Equal(t, c.Used[i].Milli, want, "growth of %s", limit)
	}
	for limit, want := range map[string]int64{"rpm": math.MinInt64, "tpm": math.MaxInt64} {
		check.Equal(t, c.New.State.Slots[c.New.State.Index(limit)].Tokens, want, "level of %s", limit)
	}
}
