package table

import (
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

var update = flag.Bool("update", false, "write the goldens anew")

const sampleNow = 1_700_000_000_000

// sampleBucket is a bucket in use: split, in debt, with remainders.
func sampleBucket() Shard {
	_, b := Create(NewBucket{
		Namespace: "aZ09_-aZ09_", Entity: "key-1", Resource: "openai/gpt-4", Cascade: true, Parent: "acme",
		Costs: Costs(sampleLimits, 1000, 21_000_000), Lifetime: Expires, Now: sampleNow,
	})
	return b
}

// pagedSample is a provisioner's state that needs, or with more entities would need, more than one
// item.
var pagedSample = config.Provisioner{Namespace: "aZ09_-aZ09_", Resources: []string{"search"},
	Entities: map[string][]string{"key-1": {"openai/gpt-4"}}, LastApplied: layout.Timestamp(sampleNow),
	Hash: "sha256:00", Paged: true}

// samples returns one item of every kind, by the name of its golden.
func samples() map[string]item.Item {
	const ns = "aZ09_-aZ09_"
	created := layout.Timestamp(sampleNow)
	fresh := sampleBucket()
	split := fresh
	split.State = fresh.State.At(sampleNow + 1)
	split.State, _ = split.State.Split()
	split.TTL = 0
	held := fresh
	held.State.Slots = slices.Clone(fresh.State.Slots)
	hold(&held, sampleNow+500)
	n := config.Namespace{ID: ns, Name: "default", CreatedAt: created}
	gone := n
	gone.Status, gone.DeletedAt = config.NamespaceDeleted, layout.Timestamp(sampleNow+60_000)
	return map[string]item.Item{
		"bucket":       fresh.Item(),
		"bucket_held":  held.Item(),
		"bucket_split": split.Item(),
		"entity":       config.Entity{Namespace: ns, ID: "acme", CreatedAt: created}.Item(),
		"entity_child": config.Entity{Namespace: ns, ID: "key-1", Name: "Key one", Parent: "acme", Cascade: true,
			Metadata: item.Item{"tier": item.S("gold"), "seats": item.N(3)}, CreatedAt: created}.Item(),
		"config_system": config.Config{Namespace: ns, Limits: sampleLimits[:1], OnUnavailable: config.OnUnavailableAllow,
			AuditRetentionDays: 90}.Item(),
		"config_resource": config.Config{Namespace: ns, Resource: "openai/gpt-4", Limits: sampleLimits}.Item(),
		"config_entity": config.Config{Namespace: ns, Entity: "key-1", Resource: "openai/gpt-4",
			Limits: sampleLimits}.Item(),
		"config_entity_default": config.Config{Namespace: ns, Entity: "key-1", Resource: layout.DefaultResource,
			Limits: sampleLimits[:1]}.Item(),
		"registry_resources": registry(ns, config.Listing{Resource: "openai/gpt-4", Is: true},
			config.Listing{Resource: "search", Is: true}),
		"registry_entityconfigs": registry(ns, config.Listing{Entity: "a", Resource: "openai/gpt-4", Is: true},
			config.Listing{Entity: "b", Resource: "openai/gpt-4", Is: true},
			config.Listing{Entity: "a", Resource: "search", Is: true},
			config.Listing{Entity: "b", Resource: "search", Was: true}),
		"registry_provisioner": config.Provisioner{Namespace: ns, System: true, Resources: []string{"search"},
			Entities:    map[string][]string{"key-1": {"openai/gpt-4"}},
			LastApplied: created, Hash: "sha256:00"}.Item(),
		"registry_provisioner_paged": pagedSample.Item(),
		"registry_provisioner_page":  pagedSample.Pages()[70],
		"usage_hourly":               usageSample("hourly", "2023-11-14T22:00:00Z", "2023-11-14T22:00:00Z").Item(),
		"usage_daily":                usageSample("daily", "2023-11-14T00:00:00Z", "2023-11-14").Item(),
		"usage_monthly":              usageSample("monthly", "2023-11-01T00:00:00Z", "2023-11").Item(),
		"threshold": ledger.Threshold{Namespace: ns, Entity: "key-1", Resource: "openai/gpt-4", Limit: "budget",
			End: sampleNow + 3_600_000, Percent: 80, Spent: 412, Quota: 500, At: created,
			TTL: sampleNow/1000 + 90*86400}.Item(),
		"audit": ledger.Audit{Namespace: ns, Subject: "key-1", ID: "01HF7YAT00000000000000AUDI", At: created,
			Action: "limits_set", Resource: "openai/gpt-4",
			Details: config.LimitsSet(config.Config{Entity: "key-1", Resource: "openai/gpt-4", Limits: sampleLimits}),
			TTL:     sampleNow/1000 + 90*86400}.Item(),
		"audit_entity": ledger.Audit{Namespace: ns, Subject: "key-1", ID: "01HF7YAT00000000000000AUDK", At: created,
			Action:    ledger.ActionEntityCreated,
			Principal: "alice",
			Details: config.EntitySet(config.Entity{Namespace: ns, ID: "key-1", Parent: "acme", Cascade: true,
				Metadata: item.Item{"tier": item.S("gold")}}), TTL: sampleNow/1000 + 90*86400}.Item(),
		"audit_entity_deleted": ledger.Audit{Namespace: ns, Subject: "key-1", ID: "01HF7YAT00000000000000AUDM", At: created,
			Action:  ledger.ActionEntityDeleted,
			Details: config.EntityDeleted(3), TTL: sampleNow/1000 + 90*86400}.Item(),
		"audit_system": ledger.Audit{Namespace: ns, Subject: layout.AuditSystem, ID: "01HF7YAT00000000000000AUDJ",
			At: created, Action: "limits_deleted",
			Principal: "arn:aws:iam::123456789012:user/a",
			Details:   config.LimitsDeleted(config.Config{Limits: sampleLimits, OnUnavailable: config.OnUnavailableAllow}),
			TTL:       sampleNow/1000 + 90*86400}.Item(),
		"version":           config.Version{Schema: "0.9.0", ClientMin: "0.0.0", UpdatedAt: created}.Item(),
		"namespace_forward": n.Forward(),
		"namespace_reverse": n.Reverse(),
		"namespace_deleted": gone.Reverse(),
	}
}

// registry returns a registry that lists levels of one kind.
func registry(ns string, levels ...config.Listing) item.Item {
	it, _, _ := config.List(ns, levels...)[0].Apply(nil)
	return it
}

func usageSample(window, start, part string) ledger.Snapshot {
	return ledger.Snapshot{
		Namespace: "aZ09_-aZ09_", Entity: "key-1", Resource: "openai/gpt-4", Window: window, Start: start, Part: part,
		Counts: map[string]int64{"rpm": 12, "tpm": -40, "window": 3}, Events: 13,
		Legend: ledger.Legend{Stream: sampleNow / 1000, Limits: []string{"rpm", "tpm", "window"}},
		Marks: map[int]ledger.Mark{
			0: {At: ledger.PositionOf(sampleNow/1000, "100000000000000000042"),
				Used: []ledger.Count{{Limit: "rpm", Tokens: 4_000}, {Limit: "tpm", Tokens: 9_000_000}, {Limit: "window",
					Tokens: 3}}, Gen: 9},
			3: {At: ledger.PositionOf(sampleNow/1000, "100000000000000000007"), Gone: true},
		},
		TTL: sampleNow/1000 + 90*86400,
	}
}

// The layout of each kind of item is in a file, so that changes are visible.
func TestItemsAreLaidOutAsTheirGoldens(t *testing.T) {
	all := samples()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		check.NoError(t, item.ValidateItem(all[name]), name)
		golden(t, filepath.Join("items", name+".json"), itemtest.JSON(all[name]))
	}
	files, _ := filepath.Glob(filepath.Join("testdata", "items", "*.json"))
	for _, f := range files {
		if all[strings.TrimSuffix(filepath.Base(f), ".json")] == nil {
			t.Errorf("%s has no kind of item", f)
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	check.Golden(t, filepath.Join("testdata", name), string(got), *update)
}

// record is a kind of record: the prefix of its sort keys, and a function that decodes and encodes
// an item.
type record struct {
	sk     string
	decode func(item.Key, item.Item) (item.Item, error)
}

var records = []record{
	kindOf(layout.SKBucketState, DecodeShard, Shard.Item), kindOf(layout.SKMeta, config.DecodeEntity, config.Entity.Item),
	kindOf("#USAGE#", ledger.DecodeSnapshot, ledger.Snapshot.Item),
	kindOf("#QUOTA#", ledger.DecodeThreshold, ledger.Threshold.Item),
	kindOf(layout.SKConfig, config.DecodeConfig, config.Config.Item),
	kindOf(layout.SKAuditPrefix, ledger.DecodeAudit, ledger.Audit.Item),
	{layout.SKResources, func(k item.Key, it item.Item) (item.Item, error) {
		names, err := config.DecodeResources(it)
		if names == nil {
			return inSystem(k, item.Item{}), err
		}
		return inSystem(k, item.Item{"resources": item.SS(names...)}), err
	}},
	{layout.SKEntityConfigs, func(k item.Key, it item.Item) (item.Item, error) {
		counts, err := config.DecodeEntityConfigs(it)
		all := item.Item{}
		for resource, n := range counts {
			all[resource] = item.N(n)
		}
		return inSystem(k, all), err
	}},
	{layout.SKProvisioner, func(k item.Key, it item.Item) (item.Item, error) {
		x, err := config.DecodeProvisioner(it)
		if err != nil || k.SK == layout.SKProvisioner {
			return x.Item(), err
		}
		x.Paged = true
		return x.Pages()[slices.Index(layout.ProvisionerPageKeys(x.Namespace), k)], nil
	}},
	kindOf(layout.SKVersion, config.DecodeVersion, config.Version.Item),
	kindOf("#NAMESPACE#", config.DecodeNamespace, config.Namespace.Forward),
	kindOf("#NSID#", config.DecodeNamespace, config.Namespace.Reverse),
}

func kindOf[R any](sk string, decode func(item.Item) (R, error), encode func(R) item.Item) record {
	return record{sk, func(_ item.Key, it item.Item) (item.Item, error) {
		x, err := decode(it)
		return encode(x), err
	}}
}

// inSystem is a record of a namespace with these attributes.
func inSystem(k item.Key, attrs item.Item) item.Item {
	maps.Copy(attrs, k.Item())
	ns, _, _ := layout.CutNamespace(k.PK)
	return layout.WithGSI4(attrs, ns, k.PK)
}

// decoded decodes and encodes any item.
func decoded(it item.Item) (item.Item, error) { return decodedAs(item.KeyOf(it), it) }

// decodedAs decodes and encodes an item as if it had a key.
func decodedAs(k item.Key, it item.Item) (item.Item, error) {
	for _, r := range records {
		if strings.HasPrefix(k.SK, r.sk) {
			return r.decode(k, it)
		}
	}
	return nil, fmt.Errorf("no kind of record has the key %q", k)
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

// One write unit holds a bucket with 8 limits of 3-letter names and a 40-character entity id: it
// stays under 1 KB split, in debt and with remainders.
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
	check.Equal(t, itemtest.WriteUnits(nil, few.Item()), 1, "write units of a bucket with 6 limits, all prefetched")
	if full > 1024 {
		t.Errorf("bucket of %d bytes costs %d write units", full, itemtest.WriteUnits(nil, b.Item()))
	}
}

var sampleLimits = []bucket.Limit{
	newRate("rpm", 100_000, 60_000),
	{Name: "tpm", Capacity: 20_000_000, Amount: 10_000_000, Period: 60_000},
}

func num(s string) item.Value {
	return &types.AttributeValueMemberN{Value: s}
}

// kinds returns limits of every kind, with all their attributes.
func kinds() []bucket.Limit {
	const second = 1000
	return []bucket.Limit{
		newQuota("budget", 5*bucket.Milli, "m0h0D1@Asia/Tokyo"),
		{Name: "fly", Capacity: 20 * bucket.Milli, Period: 30 * second, InFlight: true},
		{Name: "rpm", Capacity: 100 * bucket.Milli, Amount: 90 * bucket.Milli, Period: 60 * second,
			Floors: "batch=40,free=60", Ahead: 2000},
		{Name: "tpm", Capacity: 7 * bucket.Milli, Amount: 6 * bucket.Milli, Period: 60 * second, Soft: true},
		newQuota("use", 3*bucket.Milli, "+3600"),
		{Name: "wk", Capacity: 4 * bucket.Milli, Period: bucket.QuotaPeriod, Reset: "m0h0D1@UTC", Soft: true},
	}
}
