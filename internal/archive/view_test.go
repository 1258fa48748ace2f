package archive

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// With the wrong view of a stream, a batch has one object, not one per record. Records that are
// malformed for another reason have their own object, whatever their items are.
func TestBatchesWithAWrongViewHaveOneObject(t *testing.T) {
	record := func(i int, view string) Malformed {
		text := fmt.Sprintf(`{"dynamodb":{"SequenceNumber":"%d","Keys":{"PK":{"S":"\"StreamViewType\":\"KEYS_ONLY\""},`+
			`"StreamViewType":{"S":"KEYS_ONLY"}},"StreamViewType":%q}}`, i, view)
		return Malformed{Reason: `MODIFY without "OldImage"`, Record: json.RawMessage(text), Sequence: fmt.Sprint(i)}
	}
	for view, want := range map[string]int{"KEYS_ONLY": 3, "NEW_IMAGE": 3, "OLD_IMAGE": 3, "NEW_AND_OLD_IMAGES": 102} {
		b := Batch{Malformed: []Malformed{record(1, "NEW_AND_OLD_IMAGES")}}
		for i := range 100 {
			b.Malformed = append(b.Malformed, record(i+2, view))
		}
		b.Malformed = append(b.Malformed, record(200, "NEW_AND_OLD_IMAGES"))
		got := b.Objects()
		if len(got) != want || got[1].Sequence != "2" {
			t.Errorf("%s: %d objects, want %d", view, len(got), want)
			continue
		}
		told := strings.Contains(got[1].Malformed, "view of the stream is "+view) &&
			strings.Contains(got[1].Malformed, "100 records")
		check.Equal(t, told, want == 3, "%s: %s", view, got[1].Malformed)
	}
	if got := (Batch{Malformed: []Malformed{record(1, "KEYS_ONLY")}}).Objects(); got[0].Malformed != `MODIFY without "OldImage"` {
		t.Errorf("a single one: %s", got[0].Malformed)
	}
}

// A record that is malformed for another reason has its own object in every view, because it may be
// the only trace of an event, such as one that expires where the view is OLD_IMAGE.
func TestWrongViewsHideNoOtherMalformedRecord(t *testing.T) {
	record := func(i int, rest string) string {
		return fmt.Sprintf(`{"eventName":"REMOVE","userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},`+
			`"dynamodb":{"SequenceNumber":"%d","StreamViewType":"OLD_IMAGE","Keys":{"PK":{"S":"a/AUDIT#b"},"SK":{"S":"#AUDIT#c"}}%s}}`,
			i, rest)
	}
	var records []string
	for i := range 3 {
		records = append(records, record(i, ""), record(10+i, `,"OldImage":{"PK":{"S":"a/AUDIT#b"},"SK":{"S":"#AUDIT#c"},`+
			`"action":{"N":"1"}}`))
	}
	batch, err := Decode([]byte(`{"Records":[` + strings.Join(records, ",") + `]}`))
	if err != nil || len(batch.Malformed) != 6 {
		t.Fatalf("%v, %v", batch.Malformed, err)
	}
	var kept []string
	for _, o := range batch.Objects() {
		kept = append(kept, o.Sequence)
	}
	check.Equal(t, strings.Join(kept, " "), "0 10 11 12")
}
