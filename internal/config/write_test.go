package config

import (
	"maps"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Settings that other clients store in a configuration stay when ours overwrites it. Limits are
// replaced with all their attributes.
func TestConfigurationsKeepWhatOthersStored(t *testing.T) {
	limit := func(name string, n int64) bucket.Limit {
		return bucket.Limit{Name: name, Capacity: n * bucket.Milli, Amount: n * bucket.Milli, Period: 60_000}
	}
	stored := func(c Config, more item.Item) item.Item {
		it := c.Item()
		for attr, v := range more {
			it[attr] = v
		}
		return it
	}
	n := item.N(1)
	rpm, tpm := limit("rpm", 10), limit("tpm", 500)
	at := Config{Namespace: "ns", Resource: "gpt"}
	with := func(limits ...bucket.Limit) Config { return Config{Namespace: "ns", Resource: "gpt", Limits: limits} }
	system := Config{Namespace: "ns", OnUnavailable: OnUnavailableAllow, AuditRetentionDays: 7}
	for name, c := range map[string]struct {
		stored item.Item
		over   Config
		want   item.Item // nil: deleted
	}{
		"nothing there": {nil, with(rpm), with(rpm).Item()},
		"nothing else":  {with(rpm, tpm).Item(), with(limit("rpm", 20)), with(limit("rpm", 20)).Item()},
		"emptied":       {with(rpm).Item(), at, nil},
		"a switch and a policy stay": {stored(with(rpm, tpm), item.Item{"disabled": item.Bool(true), "cascade": n}),
			with(limit("rpm", 20)), stored(with(limit("rpm", 20)), item.Item{"disabled": item.Bool(true), "cascade": n})},
		"a switch keeps an empty one": {stored(with(rpm), item.Item{"disabled": item.S("bypass")}), at,
			stored(at, item.Item{"disabled": item.S("bypass")})},
		"a first-use quota is replaced too": {stored(with(rpm), item.Item{"w_rpd_cp": n, "w_rpd_rsa": n}), with(tpm),
			with(tpm).Item()},
		"a common prefix": {stored(with(rpm, limit("rpm_x", 3)), item.Item{"l_rpm_x_sched": n, "l_rpm_sched": n}),
			with(limit("rpm_x", 4)), with(limit("rpm_x", 4)).Item()},
		"the version of other clients stays": {stored(with(rpm), item.Item{"config_version": item.N(2)}), with(tpm),
			stored(with(tpm), item.Item{"config_version": item.N(2)})},
		"a policy belongs to the system": {stored(with(rpm), item.Item{"on_unavailable": n}), with(tpm),
			stored(with(tpm), item.Item{"on_unavailable": n})},
		"nothing over nothing": {nil, Config{Namespace: "ns"}, nil},
		"undecided": {stored(system, item.Item{"x": n}), Config{Namespace: "ns", Limits: []bucket.Limit{rpm}},
			stored(Config{Namespace: "ns", Limits: []bucket.Limit{rpm}}, item.Item{"x": n})},
	} {
		c.over.Access = AccessOf(c.stored)
		after, held, err := c.over.Over(c.stored, nil).Apply(c.stored)
		if err != nil || !held || (after == nil) != (c.want == nil) || !item.EqualItems(after, c.want) {
			t.Errorf("%s: %v, held %v\n%s\nwant\n%s", name, err, held, itemtest.JSON(after), itemtest.JSON(c.want))
		}
		cond := item.Exists("refused")
		if _, held, _ := c.over.Over(c.stored, cond).Apply(c.stored); held {
			t.Errorf("%s: the write lacks the condition", name)
		}
	}
}

// An unreadable raise stays when only access changes, even if it is the only setting.
func TestUnreadableRaisesStay(t *testing.T) {
	stored := Config{Namespace: "ns", Entity: "acme", Resource: "gpt"}.Item()
	stored["l_rpm_more"] = item.S("soon")
	c, err := DecodeConfig(stored)
	if err == nil {
		t.Fatal("the raise is readable")
	}
	for _, to := range []Access{{Switch: SwitchedOff}, {}} {
		c.Decide(to)
		after, held, err := c.Over(stored, nil).Apply(stored)
		if err != nil || !held || after["l_rpm_more"] == nil || !AccessOf(after).Equal(to) {
			t.Errorf("%+v: %v, held %v\n%s", to, err, held, itemtest.JSON(after))
		}
		stored = after
	}
}

// A limit of any kind replaces one of any kind, even a partly stored one. No attribute is left that
// would change the new limit, or hide it.
func TestStoringLimitsReplacesAllOfThem(t *testing.T) {
	settings := item.Item{"disabled": item.S("bypass"), "cascade": item.Bool(true), "lx_cp": item.N(1)}
	for _, was := range kinds() {
		for _, prefix := range prefixes {
			for _, whole := range []bool{true, false} {
				stored := Config{Namespace: "ns", Resource: "gpt"}.Item()
				if whole {
					stored = Config{Namespace: "ns", Resource: "gpt", Limits: []bucket.Limit{was}}.Item()
				}
				for _, field := range []string{
					layout.FieldSchedule, layout.FieldCalendar, layout.FieldLength, layout.FieldSoft, fieldFloors, fieldAhead, "new",
				} {
					stored[prefix+was.Name+"_"+field] = item.S("1*=2")
				}
				stored[layout.AttrZone] = item.S("Asia/Tokyo")
				maps.Copy(stored, settings)
				for _, l := range append(kinds(), bucket.Limit{}) {
					c := Config{Namespace: "ns", Resource: "gpt"}
					if l.Name != "" {
						l.Name = was.Name
						c.Limits = []bucket.Limit{l}
					}
					want := c.Item()
					maps.Copy(want, settings)
					c.Access = AccessOf(stored)
					after, held, err := c.Over(stored, nil).Apply(stored)
					if err != nil || !held || !item.EqualItems(after, want) {
						t.Errorf("%v over %v, %v with %s: %v, held %v\n%s\nwant\n%s", l, was, whole, prefix, err, held,
							itemtest.JSON(after), itemtest.JSON(want))
					}
				}
			}
		}
	}
}

// Each change of a configuration increments its version, so that a comparison with an earlier read
// detects it. A version that is not a number is another client's, and stays.
func TestChangesIncrementTheVersion(t *testing.T) {
	limit := bucket.Limit{Name: "rpm", Capacity: 10 * bucket.Milli, Amount: 10 * bucket.Milli, Period: 60_000}
	with := Config{Namespace: "ns", Resource: "gpt", Limits: []bucket.Limit{limit}}
	bare := Config{Namespace: "ns", Resource: "gpt"}
	for name, c := range map[string]struct{ version, want item.Value }{
		"first": {item.N(1), item.N(2)}, "later": {item.N(41), item.N(42)}, "none": {nil, item.N(1)},
		"of another client": {item.S("x"), item.S("x")},
	} {
		stored := with.Item()
		if stored[attrConfigVersion] = c.version; c.version == nil {
			delete(stored, attrConfigVersion)
		}
		cond := item.Exists(item.AttrPK)
		w := with.Over(stored, cond)
		after, held, err := Noticed(w, stored).Apply(stored)
		want, _, _ := w.Apply(stored)
		want[attrConfigVersion] = c.want
		if err != nil || !held || !item.EqualItems(after, want) {
			t.Errorf("%s: held %v, %v\n%s\nwant\n%s", name, held, err, itemtest.JSON(after), itemtest.JSON(want))
		}
	}
	put := with.Over(nil, item.Absent(item.AttrPK))
	if after, held, err := Noticed(put, nil).Apply(nil); err != nil || !held || !item.EqualItems(after, with.Item()) {
		t.Errorf("new: %v, %v, %v", after, held, err)
	}
	for attr, v := range map[string]item.Value{"": nil, AttrDisabled: item.S("bypass"),
		layout.AttrCascade: item.Bool(false),
		AttrOnUnavailable:  item.S("allow"), attrAuditRetention: item.N(7)} {
		stored := with.Item()
		w := Noticed(bare.Over(stored, item.Exists(item.AttrPK)), stored)
		if attr != "" {
			stored[attr] = v
		}
		if after, held, err := w.Apply(stored); err != nil || held != (attr == "") || held && after != nil {
			t.Errorf("limits are deleted, and %q was added: %v, held %v, %v", attr, after, held, err)
		}
	}
}
