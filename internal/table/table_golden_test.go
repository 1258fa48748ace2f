package table

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
)

var update = flag.Bool("update", false, "write the goldens anew")

const sampleNow = 1_700_000_000_000

// sampleBucket is a bucket in the middle of its life: split, in debt, with
// remainders.
func sampleBucket() Shard {
	_, b := Create(NewBucket{
		Namespace: "aZ09_-aZ09_", Entity: "key-1", Resource: "openai/gpt-4", Cascade: true, Parent: "acme",
		Costs: Costs(sampleLimits, 1000, 21_000_000), Lifetime: Expires, Now: sampleNow,
	})
	return b
}

// pagedSample is the state of a provisioner that does not fit into one item, or would
// not with more entities.
var pagedSample = Provisioner{Namespace: "aZ09_-aZ09_", Resources: []string{"search"},
	Entities: map[string][]string{"key-1": {"openai/gpt-4"}}, LastApplied: Timestamp(sampleNow),
	Hash: "sha256:00", Paged: true}

// pageOf returns the page with the key.
func pageOf(p Provisioner, k item.Key) item.Item {
	return p.Pages()[slices.Index(ProvisionerPageKeys(p.Namespace), k)]
}

// samples is one item of every kind, by the name of its golden.
func samples() map[string]item.Item {
	const ns = "aZ09_-aZ09_"
	created := Timestamp(sampleNow)
	fresh := sampleBucket()
	split := fresh
	split.State = fresh.State.At(sampleNow + 1)
	split.State, _ = split.State.Split()
	split.TTL = 0
	held := fresh
	held.State.Slots = slices.Clone(fresh.State.Slots)
	hold(&held, sampleNow+500)
	n := Namespace{ID: ns, Name: "default", CreatedAt: created}
	gone := n
	gone.Status, gone.DeletedAt = NamespaceDeleted, Timestamp(sampleNow+60_000)
	return map[string]item.Item{
		"bucket":       fresh.Item(),
		"bucket_held":  held.Item(),
		"bucket_split": split.Item(),
		"entity":       Entity{Namespace: ns, ID: "acme", CreatedAt: created}.Item(),
		"entity_child": Entity{Namespace: ns, ID: "key-1", Name: "Key one", Parent: "acme", Cascade: true,
			Metadata: item.Item{"tier": item.S("gold"), "seats": item.N(3)}, CreatedAt: created}.Item(),
		"config_system": Config{Namespace: ns, Limits: sampleLimits[:1], OnUnavailable: OnUnavailableAllow,
			AuditRetentionDays: 90}.Item(),
		"config_resource": Config{Namespace: ns, Resource: "openai/gpt-4", Limits: sampleLimits}.Item(),
		"config_entity": Config{Namespace: ns, Entity: "key-1", Resource: "openai/gpt-4",
			Limits: sampleLimits}.Item(),
		"config_entity_default": Config{Namespace: ns, Entity: "key-1", Resource: DefaultResource,
			Limits: sampleLimits[:1]}.Item(),
		"registry_resources":     Resources{ns, []string{"openai/gpt-4", "search"}}.Item(),
		"registry_entityconfigs": EntityConfigs{ns, map[string]int64{"openai/gpt-4": 2, "search": 0}}.Item(),
		"registry_provisioner": Provisioner{ns, true, []string{"search"}, map[string][]string{"key-1": {"openai/gpt-4"}},
			created, "sha256:00", false}.Item(),
		"registry_provisioner_paged": pagedSample.Item(),
		"registry_provisioner_page":  pagedSample.Pages()[70],
		"usage_hourly":               usageSample("hourly", "2023-11-14T22:00:00Z", "2023-11-14T22:00:00Z").Item(),
		"usage_daily":                usageSample("daily", "2023-11-14T00:00:00Z", "2023-11-14").Item(),
		"usage_monthly":              usageSample("monthly", "2023-11-01T00:00:00Z", "2023-11").Item(),
		"threshold": Threshold{ns, "key-1", "openai/gpt-4", "budget", sampleNow + 3_600_000, 80, 412, 500, created,
			sampleNow/1000 + 90*86400}.Item(),
		"audit": Audit{ns, "key-1", "01HF7YAT00000000000000AUDI", created, "limits_set", "", "openai/gpt-4",
			LimitsSet(Config{Entity: "key-1", Resource: "openai/gpt-4", Limits: sampleLimits}),
			sampleNow/1000 + 90*86400}.Item(),
		"audit_entity": Audit{ns, "key-1", "01HF7YAT00000000000000AUDK", created, ActionEntityCreated, "alice", "",
			EntitySet(Entity{Namespace: ns, ID: "key-1", Parent: "acme", Cascade: true,
				Metadata: item.Item{"tier": item.S("gold")}}), sampleNow/1000 + 90*86400}.Item(),
		"audit_entity_deleted": Audit{ns, "key-1", "01HF7YAT00000000000000AUDM", created, ActionEntityDeleted, "", "",
			EntityDeleted(3), sampleNow/1000 + 90*86400}.Item(),
		"audit_system": Audit{ns, AuditSystem, "01HF7YAT00000000000000AUDJ", created, "limits_deleted",
			"arn:aws:iam::123456789012:user/a", "",
			LimitsDeleted(Config{Limits: sampleLimits, OnUnavailable: OnUnavailableAllow}), sampleNow/1000 + 90*86400}.Item(),
		"version":           Version{Schema: "0.9.0", ClientMin: "0.0.0", UpdatedAt: created}.Item(),
		"namespace_forward": n.Forward(),
		"namespace_reverse": n.Reverse(),
		"namespace_deleted": gone.Reverse(),
	}
}

func usageSample(window, start, part string) Snapshot {
	return Snapshot{
		Namespace: "aZ09_-aZ09_", Entity: "key-1", Resource: "openai/gpt-4", Window: window, Start: start, Part: part,
		Counts: map[string]int64{"rpm": 12, "tpm": -40, "window": 3}, Events: 13,
		Legend: Legend{Stream: sampleNow / 1000, Limits: []string{"rpm", "tpm", "window"}},
		Marks: map[int]Mark{
			0: {At: PositionOf(sampleNow/1000, "100000000000000000042"),
				Used: []Count{{"rpm", 4_000}, {"tpm", 9_000_000}, {"window", 3}}, Gen: 9},
			3: {At: PositionOf(sampleNow/1000, "100000000000000000007"), Gone: true},
		},
		TTL: sampleNow/1000 + 90*86400,
	}
}

// The layout of every item kind is a file: changing it is a visible change.
func TestItemsAreLaidOutAsTheirGoldens(t *testing.T) {
	all := samples()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := item.ValidateItem(all[name]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		golden(t, filepath.Join("items", name+".json"), itemtest.JSON(all[name]))
	}
	files, _ := filepath.Glob(filepath.Join("testdata", "items", "*.json"))
	for _, f := range files {
		if all[strings.TrimSuffix(filepath.Base(f), ".json")] == nil {
			t.Errorf("%s belongs to no item kind", f)
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run go test -run %s -update and look at the difference", err, t.Name())
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs, got:\n%s\nwant:\n%s", path, got, want)
	}
}

// decoded returns what any item decodes to, as an item again.
func decoded(it item.Item) (item.Item, error) { return decodedAs(item.KeyOf(it), it) }

// decodedAs decodes an item as what stands under a key.
func decodedAs(k item.Key, it item.Item) (item.Item, error) {
	switch {
	case k.SK == SKBucketState:
		x, err := DecodeShard(it)
		return x.Item(), err
	case IsEntity(k.Item()):
		x, err := DecodeEntity(it)
		return x.Item(), err
	case strings.HasPrefix(k.SK, skUsagePrefix):
		x, err := DecodeSnapshot(it)
		return x.Item(), err
	case strings.HasPrefix(k.SK, skThresholdPrefix):
		x, err := DecodeThreshold(it)
		return x.Item(), err
	case strings.HasPrefix(k.SK, skConfig):
		x, err := DecodeConfig(it)
		return x.Item(), err
	case strings.HasPrefix(k.SK, SKAuditPrefix):
		x, err := DecodeAudit(it)
		return x.Item(), err
	case k.SK == skResources:
		x, err := DecodeResources(it)
		return x.Item(), err
	case k.SK == skEntityConfigs:
		x, err := DecodeEntityConfigs(it)
		return x.Item(), err
	case k.SK == skProvisioner:
		x, err := DecodeProvisioner(it)
		return x.Item(), err
	case strings.HasPrefix(k.SK, skProvisioner):
		x, err := DecodeProvisioner(it)
		if err != nil {
			return nil, err
		}
		x.Paged = true
		return pageOf(x, k), nil
	case k.SK == skVersion:
		x, err := DecodeVersion(it)
		return x.Item(), err
	case strings.HasPrefix(k.SK, "#NAMESPACE#"):
		x, err := DecodeNamespace(it)
		return x.Forward(), err
	case strings.HasPrefix(k.SK, "#NSID#"):
		x, err := DecodeNamespace(it)
		return x.Reverse(), err
	}
	return nil, fmt.Errorf("no kind has the key %q", k)
}

func TestEveryKindSurvivesDecoding(t *testing.T) {
	all := samples()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		got, err := decoded(all[name])
		if err != nil || !item.EqualItems(got, all[name]) {
			t.Errorf("%s: error %v, decoded and encoded again:\n%s", name, err, itemtest.JSON(got))
		}
	}
}

// The key names that code and infrastructure share are those of the items.
func TestStateSurvivesItsItem(t *testing.T) {
	b := sampleBucket()
	b.State = b.State.At(sampleNow + 777)
	got, err := DecodeShard(b.Item())
	if err != nil || !reflect.DeepEqual(got, b) {
		t.Errorf("decoded %+v (%v), want %+v", got, err, b)
	}
}

// The budget of one write unit: 8 limits of 3-letter names and a 40-character
// entity id stay under 1 KB, split, in debt and with remainders.
func TestBucketsOfEightLimitsCostOneWriteUnit(t *testing.T) {
	n := NewBucket{
		Namespace: "aZ09_-aZ09_", Entity: strings.Repeat("e", 40), Resource: "gpt-4", Now: sampleNow, Lifetime: Expires,
	}
	for i := range 8 {
		n.Costs = append(n.Costs, Cost{Limit: bucket.Limit{Name: "lm" + string(rune('a'+i)), Capacity: 40_000_000,
			Amount: 40_000_000, Period: 60_000}})
	}
	_, b := Create(n)
	plain := item.Size(b.Item())
	for i := range b.State.Slots {
		b.State.Slots[i].Tokens -= 39_999_000
		b.State.Slots[i].Used = 123_456_789_000
	}
	b.State = b.State.At(sampleNow + 7)
	b.State.Shard, b.State.Shards = 7, 8
	full := item.Size(b.Item())
	t.Logf("bucket with 8 limits: %d bytes fresh, %d bytes in use with remainders, limit 1024", plain, full)
	hold(&b, sampleNow+500)
	for i := range b.State.Slots {
		b.State.Slots[i].Ended *= 1001
	}
	ahead := item.Size(b.Item())
	few := b
	few.State.Slots = b.State.Slots[2:]
	t.Logf("taken ahead of: %d bytes, with 6 limits %d; such a write costs %d and %d units", ahead, item.Size(few.Item()),
		itemtest.WriteUnits(nil, b.Item()), itemtest.WriteUnits(nil, few.Item()))
	if n := itemtest.WriteUnits(nil, few.Item()); n != 1 {
		t.Errorf("a bucket with 6 limits of which is taken ahead costs %d write units", n)
	}
	if full > 1024 {
		t.Errorf("bucket of %d bytes costs %d write units", full, itemtest.WriteUnits(nil, b.Item()))
	}
}
