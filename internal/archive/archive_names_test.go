package archive

import (
	"encoding/json"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
)

// Audit events of entities and resources with any name reach the archive under that name, each in
// its own object.
func TestAnyNamesAreArchived(t *testing.T) {
	keys := map[string]string{}
	for _, name := range []string{"plain", "#", "a#b", "%23", "$SYSTEM", "../../x", "a/b", "é", "\U0001f600", " ", `"\`,
		"<&>", "auth0|5f7c"} {
		subject := layout.EntitySubject(name)
		it := ledger.Audit{
			Namespace: "ns", Subject: subject, ID: "01HF7YAT00000000000000AUDI", At: "2026-01-02T03:04:05Z",
			Action: "limits_set", Principal: name, Resource: name, TTL: 1,
		}.Item()
		record, err := json.Marshal(map[string]any{
			"eventName":    "REMOVE",
			"userIdentity": map[string]string{"type": "Service", "principalId": "dynamodb.amazonaws.com"},
			"dynamodb": map[string]any{
				"ApproximateCreationDateTime": 1.7e9, "SequenceNumber": "1",
				"Keys":     json.RawMessage(itemtest.JSON(item.KeyOf(it).Item())),
				"OldImage": json.RawMessage(itemtest.JSON(it)),
			},
		})
		check.Must(t, err)
		batch, err := Decode(streamtest.PayloadOf(record))
		if err != nil || len(batch.Events) != 1 || len(batch.Malformed) != 0 {
			t.Fatalf("%q: %v: %+v", name, err, batch)
		}
		e := batch.Events[0]
		if e.EntityID != subject || e.Resource == nil || *e.Resource != name || e.Principal == nil || *e.Principal != name {
			t.Errorf("%q: archived %+v", name, e)
		}
		objects := batch.Objects()
		check.MustEqual(t, len(objects), 1, "%q: objects", name)
		if other, taken := keys[objects[0].Key]; taken {
			t.Errorf("%q and %q are archived as %q", name, other, objects[0].Key)
		}
		keys[objects[0].Key] = name
	}
}
