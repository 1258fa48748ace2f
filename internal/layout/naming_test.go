package layout_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// hostileNames are names of entities and resources that look like keys, escapes or other records.
var hostileNames = []string{
	"plain", "#", "##", "a#b", "#0", "a#b#1", "%", "%23", "%25", "%2523", "a%23b", "100%", "$SYSTEM", "$RESOURCE:gpt",
	"%24SYSTEM", "_", "/", "a/b",
	"BUCKET#x", "2024-01-01T00:00:00Z", "x#2024-01-01T00:00:00Z", "PK", "ttl", "é", "用户", " ", `"\`, "auth0|5f7c", "v2:0",
	strings.Repeat("x", 512), strings.Repeat("é", 256), strings.Repeat("#", 256) + strings.Repeat("x", 256),
}

// Names survive their keys, and two buckets never share a key.
func TestNamesSurviveTheirKeys(t *testing.T) {
	keys := map[item.Key][2]string{}
	for _, entity := range hostileNames {
		check.NoError(t, layout.CheckEntity(entity), "entity %q", entity)
		for _, resource := range hostileNames {
			k := layout.BucketKey("ns", entity, resource, 12)
			ns, e, r, shard, ok := layout.ParseBucketPK(k.PK)
			if !ok || ns != "ns" || e != entity || r != resource || shard != 12 {
				t.Errorf("%q on %q: key %q is of %q on %q, shard %d, %v", entity, resource, k.PK, e, r, shard, ok)
			}
			if other, taken := keys[k]; taken {
				t.Errorf("%q on %q has the key of %q", entity, resource, other)
			}
			keys[k] = [2]string{entity, resource}
			_, b := table.Create(table.NewBucket{Namespace: "aZ09_-aZ09_", Entity: entity, Resource: resource, Now: 1})
			b.State.Shard, b.State.Shards = 1023, 1024
			snapshot := ledger.Snapshot{Namespace: "ns", Entity: entity, Resource: resource, Window: "hourly",
				Start: "2024-01-01T14:00:00Z", Part: "2024-01-01T14:00:00Z"}
			audit := ledger.Audit{Namespace: "ns", Subject: layout.AuditResourcePrefix + resource, ID: "01", Action: "x",
				Resource: resource}
			for _, it := range []item.Item{
				survives(t, b, table.Shard.Item, table.DecodeShard),
				survives(t, snapshot, ledger.Snapshot.Item, ledger.DecodeSnapshot),
				survives(t, config.Config{Namespace: "ns", Entity: entity, Resource: resource}, config.Config.Item,
					config.DecodeConfig),
				survives(t, config.Entity{Namespace: "ns", ID: entity, Parent: resource}, config.Entity.Item, config.DecodeEntity),
				survives(t, audit, ledger.Audit.Item, ledger.DecodeAudit),
			} {
				check.Must(t, item.ValidateItem(it), "%q on %q", entity, resource)
				for attr, most := range map[string]int{item.AttrGSI2SK: 1024, item.AttrGSI3SK: 1024, item.AttrGSI4SK: 1024,
					item.AttrGSI1SK: 1024} {
					if s, ok := it[attr].(*types.AttributeValueMemberS); ok && len(s.Value) > most {
						t.Errorf("%q on %q: %s is too long for a key", entity, resource, attr)
					}
				}
			}
		}
	}
}

// survives returns the item of a record, which must survive decoding and encoding.
func survives[T any](t *testing.T, x T, encode func(T) item.Item, decode func(item.Item) (T, error)) item.Item {
	t.Helper()
	it := encode(x)
	again, err := decode(it)
	if err != nil || !item.EqualItems(encode(again), it) {
		t.Fatalf("%+v: %v: %s", x, err, itemtest.JSON(encode(again)))
	}
	return it
}

// Names that Python accepts are stored byte for byte like Python's.
func TestPlainNamesAreNotEscaped(t *testing.T) {
	const entity, resource = "user:a.b-c_d@x", "openai/gpt-4.1_x-y"
	k := layout.BucketKey("ns", entity, resource, 0)
	check.Equal(t, k.PK, "ns/BUCKET#"+entity+"#"+resource+"#0", "key")
	check.Equal(t, layout.EntitySubject(entity), entity, "subject")
}

// In the audit trail, no entity has the subject of the namespace, of a resource, or of another
// entity.
func TestSubjectsOfEntitiesAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, entity := range hostileNames {
		s := layout.EntitySubject(entity)
		if strings.HasPrefix(s, "$") {
			t.Errorf("entity %q has subject %q", entity, s)
		}
		if other, taken := seen[s]; taken {
			t.Errorf("entities %q and %q share subject %q", entity, other, s)
		}
		seen[s] = entity
		if got, ok := layout.SubjectEntity(s); got != entity || !ok {
			t.Errorf("subject %q is that of entity %q, %v; want %q", s, got, ok, entity)
		}
	}
	for _, s := range []string{layout.AuditSystem, layout.AuditResourcePrefix + "gpt-4",
		layout.AuditResourcePrefix + "$SYSTEM"} {
		if got, ok := layout.SubjectEntity(s); ok {
			t.Errorf("subject %q was read as entity %q", s, got)
		}
	}
}

func TestInvalidNamesAreRefused(t *testing.T) {
	for _, s := range []string{"", strings.Repeat("x", 513), "a\nb", "\xff", "a\u200bb", "\x7f", "\u00a0", "\u2028"} {
		if layout.CheckEntity(s) == nil || layout.CheckResource(s) == nil {
			t.Errorf("%q is a name", s)
		}
	}
	if layout.CheckResource(layout.DefaultResource) == nil || layout.CheckEntity(layout.DefaultResource) != nil {
		t.Error("the pseudo-resource is reserved for resources only")
	}
	if layout.CheckEntity(strings.Repeat("#", 342)) == nil || layout.CheckEntity(strings.Repeat("#", 256)) != nil {
		t.Error("the bound counts the bytes in the key")
	}
}

// A sort key that is too long is cut between two characters.
func TestLongSortKeysAreCutBetweenCharacters(t *testing.T) {
	a := strings.Repeat("a", item.MaxSortKey)
	for _, c := range []struct{ s, want string }{
		{"", ""}, {a, a}, {a + "b", a}, {a[1:] + "é", a[1:]}, {a[2:] + "é", a[2:] + "é"}, {a[2:] + "éé", a[2:] + "é"},
		{strings.Repeat("\x80", item.MaxSortKey+1), ""},
	} {
		if got := layout.Cut(c.s); got != c.want {
			t.Errorf("%d bytes are cut to %d, want %d", len(c.s), len(got), len(c.want))
		}
	}
}
