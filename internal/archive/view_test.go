package archive

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A stream with the wrong view costs one object with a batch, not one with each record;
// what is malformed for another reason is kept by itself, whatever its items say.
func TestAWrongViewIsOneObject(t *testing.T) {
	record := func(i int, view string) Malformed {
		text := fmt.Sprintf(`{"dynamodb":{"SequenceNumber":"%d","Keys":{"PK":{"S":"\"StreamViewType\":\"KEYS_ONLY\""},`+
			`"StreamViewType":{"S":"KEYS_ONLY"}},"StreamViewType":%q}}`, i, view)
		return Malformed{Reason: "no image", Record: json.RawMessage(text), Sequence: fmt.Sprint(i)}
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
		if told != (want == 3) {
			t.Errorf("%s: %s", view, got[1].Malformed)
		}
	}
	if got := (Batch{Malformed: []Malformed{record(1, "KEYS_ONLY")}}).Objects(); got[0].Malformed != "no image" {
		t.Errorf("a single one: %s", got[0].Malformed)
	}
}
