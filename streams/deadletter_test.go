package streams

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/stream"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
)

// A batch from a stream without the needed images is stored as one object, not one per record,
// whichever images are missing. All of it is acknowledged.
func TestWrongViewsAreStoredOnce(t *testing.T) {
	for view, left := range map[string][]string{
		"KEYS_ONLY": {"NewImage", "OldImage"}, "NEW_IMAGE": {"OldImage"}, "OLD_IMAGE": {"NewImage"},
	} {
		r := newRig(t)
		for i := range 20 {
			r.take(fmt.Sprint("tenant-", i%10), 0, 1, 10)
		}
		var seen []json.RawMessage
		for _, raw := range records(r.since(0))[10:] { // the second of each: MODIFY
			var record map[string]any
			check.Must(t, json.Unmarshal(raw, &record))
			change := record["dynamodb"].(map[string]any)
			change["StreamViewType"] = view
			for _, image := range left {
				delete(change, image)
			}
			raw, err := json.Marshal(record)
			check.Must(t, err)
			seen = append(seen, raw)
		}
		r.handle(streamtest.PayloadOf(seen...))
		check.Equal(t, len(seen), 10, "%s: records", view)
		check.Equal(t, len(r.kept.keys), 1, "%s: objects", view)
	}
}

// A malformed record without a creation time has no day in its key.
func TestMalformedRecordsMayHaveNoDay(t *testing.T) {
	for created, want := range map[int64]string{0: "malformed/undated/", t0: "malformed/year=2023/month=11/day=14/"} {
		objects := kept([]stream.Malformed{{Sequence: "7", Created: created, Reason: "x", Raw: []byte("{}")}})
		if len(objects) != 1 || !strings.HasPrefix(objects[0].Key, want) {
			t.Errorf("created at %d: %q, want %s", created, objects, want)
		}
	}
}
