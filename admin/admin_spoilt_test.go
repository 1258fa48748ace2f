package admin

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// spoilt returns an item whose attributes, but for its keys, are all of a type that nobody stores.
func spoilt(it item.Item) item.Item {
	out := maps.Clone(it)
	for attr := range it {
		if !item.IsKeyAttr(attr) {
			out[attr] = &types.AttributeValueMemberB{Value: []byte("x")}
		}
	}
	return out
}

// An item that cannot be read fails what would tell of it, and nothing else. Where it is one of many, it is
// the last that is told; buckets and stored limits go on with the others.
func TestWhatCannotBeRead(t *testing.T) {
	w := readable(t)
	w.apply(declare())
	ns := w.ns.ID()
	const (
		live   = "live days, live months"
		until  = ", usage of a resource until"
		usages = "live days, live hours, live months, summary, usage, usage of a resource"
	)
	snapshot := func(entity, resource, part string) item.Key { return layout.UsageKey(ns, entity, resource, part) }
	for _, c := range []struct {
		key  item.Key
		want string
	}{
		{layout.VersionKey(), "lookup, version"},
		{layout.NamespaceKey("prod"), "lookup, namespaces, orphans"},
		{layout.NamespaceKey("acme"), "namespaces, orphans"},
		{layout.NamespaceIDKey(ns), "orphans"},
		{layout.SystemConfigKey(ns), "all configs, resolve"},
		{layout.ResourceConfigKey(ns, "gpt-4"), "all buckets, all configs, buckets of a resource, configs of many, " +
			"resolve"},
		{layout.EntityConfigKey(ns, "acme", "_default_"),
			"all buckets, all configs, buckets of one, configs of one, resolve"},
		{layout.EntityConfigKey(ns, "acme", "gpt-4"), "all buckets, all configs, bucket, buckets of a resource, " +
			"buckets of one, config, configs of many, configs of one, its configs there, " +
			"peek, resolve"},
		{layout.ResourcesKey(ns), "all configs"},
		{layout.ProvisionerKey(ns), "plan"},
		{layout.EntityKey(ns, "acme"), "children, entity, peek"},
		{layout.EntityKey(ns, "beta"), "children"},
		{layout.EntityKey(ns, "org"), "peek"},
		{item.Key{PK: ns + "/ENTITY#acme", SK: "#QUOTA#gpt-4#1700000000000#rpm#050"}, "thresholds"},
		{layout.BucketKey(ns, "acme", "gpt-4", 0), "all buckets, bucket, buckets of a resource, buckets of one, " +
			"live days, live hours, live months, peek, summary"},
		{layout.BucketKey(ns, "beta", "gpt-4", 0),
			"all buckets, buckets of a resource, " + live},
		{snapshot("acme", "gpt-4", "2023-11"), usages + until + ", usage until"},
		{snapshot("acme", "gpt-4", "2023-11-14"), usages + until},
		{snapshot("acme", "gpt-4", "2023-11-14T20:00:00Z"), usages},
		{snapshot("acme", "gpt-4", "2023-11-14T22:00:00Z"), usages},
		{snapshot("acme", "o3", "2023-11-14T21:00:00Z"), "live hours, summary, usage"},
		{snapshot("beta", "gpt-4", "2023-11-14T20:00:00Z"), live + ", usage of a resource"},
		{snapshot("beta", "o3", "2023-11-14T21:00:00Z"), ""},
	} {
		if got := w.failing(c.key); got != c.want {
			t.Errorf("without %v:\n%s\nwant\n%s", c.key, got, c.want)
		}
	}
	for _, e := range w.events(Scope{Entity: "acme"}) {
		if got := w.failing(item.Key{PK: ns + "/AUDIT#acme", SK: "#AUDIT#" + e.ID}); got != "all events, events" {
			t.Errorf("without an event: %s", got)
		}
	}
}

// failing returns what fails while the item at a key cannot be read.
func (w *world) failing(key item.Key) string {
	w.Helper()
	it := w.db.Item(key)
	if it == nil {
		w.Fatalf("nothing at %v", key)
	}
	w.db.Store(spoilt(it))
	defer w.db.Store(it)
	var failed []string
	for name, read := range reads(w) {
		_, err := read(w.Context(), 0)
		if err == nil {
			continue
		}
		failed = append(failed, name)
		goesOn := strings.Contains(name, "bucket") || strings.Contains(name, "configs")
		if !inWords(err) || strings.Contains(err.Error(), "it went on") && !goesOn {
			w.Errorf("%s without %v: %v", name, key, err)
		}
	}
	slices.Sort(failed)
	return strings.Join(failed, ", ")
}
