package config

import (
	"reflect"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Configurations, entities, namespaces and versions survive their items.
func TestRecordsSurviveTheirItems(t *testing.T) {
	check := func(name string, it item.Item, got any, err error, want any) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: decoded %+v (%v), want %+v", name, got, err, want)
		}
		if err := item.ValidateItem(it); err != nil {
			t.Errorf("%s: DynamoDB would refuse the item: %v", name, err)
		}
	}
	for _, c := range []Config{
		{Namespace: "ns", Limits: sampleLimits, OnUnavailable: OnUnavailableAllow, AuditRetentionDays: 30},
		{Namespace: "ns"}, {Namespace: "ns", Resource: "gpt"}, {Namespace: "ns", Entity: "e", Resource: "gpt"},
		{Namespace: "ns", Resource: "openai/gpt-4", Limits: sampleLimits[:1]},
		{Namespace: "ns", Entity: "acme", Resource: "gpt", Limits: sampleLimits},
		{Namespace: "ns", Entity: "acme:x@y", Resource: layout.DefaultResource, Limits: sampleLimits},
	} {
		if _, has := c.Item()[attrAuditRetention]; has != (c.AuditRetentionDays > 0) {
			t.Errorf("%+v: how long audit events are kept is stored: %v", c, has)
		}
		switched := c.Item()
		switched[AttrDisabled] = item.Bool(true)
		if off, err := DecodeConfig(switched); err != nil || off.Access.Switch != SwitchedOff {
			t.Errorf("%+v is disabled, but read as %+v, %v", c, off.Access, err)
		}
		got, err := DecodeConfig(c.Item())
		check("config", c.Item(), got, err, c)
	}
	for _, e := range []Entity{
		{Namespace: "ns", ID: "acme", Name: "acme", CreatedAt: layout.Timestamp(1_700_000_000_123)},
		{Namespace: "ns", ID: "key-1", Name: "Key one", Parent: "acme", Cascade: true,
			Metadata: item.Item{"tier": item.S("gold")}},
	} {
		got, err := DecodeEntity(e.Item())
		check("entity", e.Item(), got, err, e)
	}
	for _, n := range []Namespace{
		{ID: "aZ09_-aZ09_", Name: "default", Status: NamespaceActive, CreatedAt: layout.Timestamp(0)},
		{ID: "x", Name: "a b/c", Status: NamespaceDeleted, CreatedAt: layout.Timestamp(0),
			DeletedAt: layout.Timestamp(1000)},
	} {
		for _, it := range []item.Item{n.Forward(), n.Reverse()} {
			got, err := DecodeNamespace(it)
			check("namespace", it, got, err, n)
			if !IsNamespace(it) {
				t.Errorf("%v is no record of a namespace", it)
			}
		}
	}
	v := Version{Schema: "0.9.0", ClientMin: "0.0.0", UpdatedAt: layout.Timestamp(0)}
	if IsNamespace(v.Item()) || IsNamespace(Config{Namespace: "ns"}.Item()) {
		t.Error("another item was read as a record of a namespace")
	}
	got, err := DecodeVersion(v.Item())
	check("version", v.Item(), got, err, v)
	v.Lambda, v.UpdatedBy = "0.10.3", "me"
	got, err = DecodeVersion(v.Item())
	check("version", v.Item(), got, err, v)
}

// Items of other clients are read: with old attributes, and with null for nothing.
func TestDecodersReadForeignItems(t *testing.T) {
	it := Config{Namespace: "ns", Limits: sampleLimits[:1]}.Item()
	it["l_rpm_bx"] = item.N(7)
	delete(it, attrConfigVersion)
	delete(it, item.AttrGSI4SK)
	c, err := DecodeConfig(it)
	if err != nil || !reflect.DeepEqual(c.Limits, sampleLimits[:1]) {
		t.Errorf("config %+v, error %v", c, err)
	}
	it["l__cp"], it["s__cp"] = item.N(5), item.N(5) // without a name
	if c, err := DecodeConfig(it); err != nil || !reflect.DeepEqual(c.Limits, sampleLimits[:1]) {
		t.Errorf("config %+v, error %v", c, err)
	}
	if c.Limits[0].Capacity != 100_000 || c.Limits[0].Period != 60_000 {
		t.Errorf("want millitokens and milliseconds: %+v", c.Limits[0])
	}
	it = Namespace{ID: "x", Name: "a", Status: NamespaceDeleted, CreatedAt: layout.Timestamp(0)}.Forward()
	delete(it, attrStatus) // as older clients stored it
	if n, err := DecodeNamespace(it); err != nil || n.Status != NamespaceActive {
		t.Errorf("a namespace without a status is %q, %v", n.Status, err)
	}
}

func TestDecodersNameWhatIsWrong(t *testing.T) {
	decodeConfig := func(it item.Item) error { _, err := DecodeConfig(it); return err }
	decodeEntity := func(it item.Item) error { _, err := DecodeEntity(it); return err }
	decodeNamespace := func(it item.Item) error { _, err := DecodeNamespace(it); return err }
	for _, tt := range []struct {
		want   []string
		it     item.Item
		decode func(item.Item) error
	}{
		{[]string{`"on_unavailable" is "maybe", want "allow" or "block"`},
			Config{Namespace: "ns", OnUnavailable: "maybe"}.Item(), decodeConfig},
		{[]string{"not the key"}, layout.VersionKey().Item(), decodeConfig},
		{[]string{"not the key"}, item.Item{}, decodeConfig},
		{[]string{"not the key"}, nil, decodeEntity},
		{[]string{"ns/ENTITY#e", "cascade", "want a boolean"}, func() item.Item {
			it := Entity{Namespace: "ns", ID: "e"}.Item()
			it["cascade"] = item.S("true")
			return it
		}(), decodeEntity},
		{[]string{"namespace_id"}, layout.NamespaceKey("x").Item(), decodeNamespace},
		{[]string{"namespace_id", "no slash"}, Namespace{ID: "a/b", Name: "x"}.Forward(), decodeNamespace},
		{[]string{"namespace_id", `"_"`}, Namespace{ID: "_", Name: "x"}.Forward(), decodeNamespace},
		{[]string{"not the key"}, func() item.Item {
			it := Namespace{ID: "i", Name: "x"}.Forward()
			it["namespace_name"] = item.S("y")
			return it
		}(), decodeNamespace},
	} {
		err := tt.decode(tt.it)
		for _, want := range tt.want {
			check.Says(t, err, want)
		}
	}
}
