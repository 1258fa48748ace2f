package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
)

// kinds returns limits of every kind, with all the settings of a configuration.
func kinds() []bucket.Limit {
	const second = 1000
	return []bucket.Limit{
		{Name: "budget", Capacity: 5 * bucket.Milli, Period: bucket.QuotaPeriod, Reset: "m0h0D1@Asia/Tokyo"},
		{Name: "fly_l", Capacity: 20 * bucket.Milli, Period: 30 * second, InFlight: true},
		{Name: "rpm", Capacity: 100 * bucket.Milli, Amount: 90 * bucket.Milli, Period: 60 * second,
			Floors: "batch=40,free=60", Ahead: 2000},
		{Name: "rps", Capacity: 100 * bucket.Milli, Amount: 90 * bucket.Milli, Period: second,
			Plan: "100000 90000 1000 h9s500;w6,7c5@Asia/Tokyo"},
		{Name: "tpm", Capacity: 7 * bucket.Milli, Amount: 6 * bucket.Milli, Period: 60 * second, Soft: true},
		{Name: "use", Capacity: 3 * bucket.Milli, Period: bucket.QuotaPeriod, Reset: "+3600"},
		{Name: "wk", Capacity: 4 * bucket.Milli, Period: bucket.QuotaPeriod, Reset: "m0h0D1@UTC", Soft: true},
	}
}

// Stored limits of every kind read back unchanged.
func TestLimitsOfEveryKindAreStored(t *testing.T) {
	c := Config{Namespace: "ns", Entity: "acme", Resource: "gpt", Limits: kinds(),
		Raises: map[string]string{"rpm": "5:7+6:9", "not_here": "1:1"}}
	got, err := DecodeConfig(c.Item())
	if err != nil || !reflect.DeepEqual(got.Limits, c.Limits) || !reflect.DeepEqual(got.Raises, c.Raises) {
		t.Errorf("%v, %v, %v, want %v", got.Limits, got.Raises, err, c.Limits)
	}
	if got.SetLimits(nil); got.Empty() || len(got.Names()) > 0 {
		t.Errorf("raises alone are %v", got)
	}
	spoilt := c.Item()
	spoilt["l_rpm_more"] = item.S("x")
	got, err = DecodeConfig(spoilt)
	got.SetLimits(kinds())
	if after, _, _ := got.Over(spoilt, nil).Apply(spoilt); err == nil || after["l_rpm_more"] != nil ||
		after["l_not_here_more"] == nil {
		t.Errorf("unreadable raises stay: %v, %v", after, err)
	}
	everywhere := Config{Namespace: "ns", Entity: "acme", Resource: layout.DefaultResource, Raises: c.Raises}
	if got, err := DecodeConfig(everywhere.Item()); err != nil || got.Raises != nil {
		t.Errorf("raises on all resources: %v, %v", got.Raises, err)
	}
	c.Raises = nil
	it := c.Item()
	if it["s_fly_l_cp"] == nil || it["l_fly_l_cp"] != nil {
		t.Errorf("others would read slots as a limit of theirs: %v", it)
	}
	it["l_budget_rp"] = item.N(86_400) // another client's, meaningless for it
	it["l_rpm_rsched"] = item.S("1m0h0D1")
	if got, err := DecodeConfig(it); err != nil || !reflect.DeepEqual(got.Limits, c.Limits) {
		t.Errorf("with a period of a quota, and the calendar of a rate: %v, %v, want %v", got.Limits, err, c.Limits)
	}
}

// An error names the unreadable attribute, and what was wanted.
func TestUnreadableConfigurationsNameTheirAttribute(t *testing.T) {
	for _, c := range []struct {
		attr string
		v    item.Value
		want string
	}{
		{"l_rpm_fl", item.S("batch"), `percents of classes`},
		{"l_rpm_more", item.S("5"), `attribute "l_rpm_more": the raises "5": want at most 16`},
		{"l_rpm_more", item.N(5), `attribute "l_rpm_more" has type`},
		{"l_rpm_fl", item.N(5), `attribute "l_rpm_fl" has type`},
		{"l_tpm_" + layout.FieldSoft, item.S("x"), `attribute "l_tpm_` + layout.FieldSoft + `" has type`},
		{"l_rpm_cp", item.N(0), `"l_rpm_cp" is 0, want 1 to 9223372036854775`},
		{"l_rpm_cp", item.N(9223372036854776), `"l_rpm_cp" is 9223372036854776, want 1 to 9223372036854775`},
		{"l_rpm_rp", item.N(0), `"l_rpm_rp"`},
		{"l_rpm_rp", num("1.5"), `1.5`},
		{"l_rpm_rp", item.S("60"), `a whole number`},
		{"l_rpm_ra", nil, `attribute "l_rpm_ra" is absent, want 1 to`},
		{"l_rpm_ra", item.S("x"), `"l_rpm_ra"`},
		{"l_rpm_sched", item.S("x"), `attribute "l_rpm_sched": calendar "x": want version 1 or 2`},
		{"l_rpm_ra", item.N(0), `attribute "l_rpm_ra" is 0, want 1 to`},
		{"l_budget_ra", item.S("x"), `attribute "l_budget_ra"`},
		{"l_budget_ra", nil, `attribute "l_budget_ra" is absent, want 1 to`},
		{"l_budget_rsched", item.S("x"), `attribute "l_budget_rsched"`},
		{"w_use_rsa", item.N(-1), `attribute "w_use_rsa"`},
		{"s_fly_l_cp", item.N(0), `"s_fly_l_cp" is 0, want 1 to`},
		{prefixInFlight + "rpm_cp", item.N(5), `limit "rpm" is stored twice`},
	} {
		it := Config{Namespace: "ns", Entity: "acme", Resource: "gpt", Limits: kinds()}.Item()
		if it[c.attr] = c.v; c.v == nil {
			delete(it, c.attr)
		}
		check.Says(t, check.Err(DecodeConfig(it)), c.want, c.attr)
	}
	for seconds, fails := range map[int64]bool{4: true, 5: false, 600: false, 601: true} {
		it := Config{Namespace: "ns", Limits: kinds()[1:2]}.Item()
		for attr := range it {
			if strings.HasSuffix(attr, "fly_l_"+layout.FieldPeriod) {
				it[attr] = item.N(seconds)
			}
		}
		if _, err := DecodeConfig(it); (err != nil) != fails || fails && !strings.HasSuffix(err.Error(), "want 5 to 600") {
			t.Errorf("epochs of %d s: %v", seconds, err)
		}
	}
}

// Only whole tokens and seconds can be stored.
func TestFractionsCannotBeStored(t *testing.T) {
	for _, l := range []bucket.Limit{
		{Name: "a", Capacity: 1001, Amount: 1000, Period: 1000}, {Name: "a", Capacity: 1000, Amount: 1001, Period: 1000},
		{Name: "a", Capacity: 1000, Amount: 1000, Period: 1001},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v is stored", l)
				}
			}()
			Config{Namespace: "ns", Limits: []bucket.Limit{l}}.Item()
		}()
	}
}

// The first level with a setting decides, for the switch and the cascade separately.
func TestTheFirstLevelWithASettingDecides(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		levels  []Access
		to      Switch
		cascade *bool
	}{
		{nil, Undecided, nil},
		{[]Access{{}, {Switch: Bypassed}, {Switch: SwitchedOff}}, Bypassed, nil},
		{[]Access{{Switch: SwitchedOn}, {Switch: SwitchedOff, Cascade: &no}, {Cascade: &yes}}, SwitchedOn, &no},
		{[]Access{{Cascade: &yes}, {Switch: SwitchedOff, Cascade: &no}}, SwitchedOff, &yes},
	} {
		if got := Combined(c.levels...); got.Switch != c.to || got.Cascade != c.cascade {
			t.Errorf("%v: %+v", c.levels, got)
		}
	}
}

// Only true disables a configuration, and only true cascades. A value of another form leaves it
// enabled.
func TestOnlyTrueDisablesOrCascades(t *testing.T) {
	for _, c := range []struct {
		disabled, cascade item.Value
		to                Switch
		cascades          string
	}{
		{nil, nil, Undecided, "no"}, {item.Bool(true), item.Bool(true), SwitchedOff, "true"},
		{item.Bool(false), item.Bool(false), SwitchedOn, "false"}, {item.S("bypass"), item.S("x"), Bypassed, "false"},
		{item.S("x"), nil, SwitchedOn, "no"}, {item.N(1), nil, SwitchedOn, "no"},
	} {
		it := item.Item{}
		if c.disabled != nil {
			it["disabled"] = c.disabled
		}
		if c.cascade != nil {
			it["cascade"] = c.cascade
		}
		got := AccessOf(it)
		cascades := "no"
		if got.Cascade != nil {
			cascades = map[bool]string{true: "true", false: "false"}[*got.Cascade]
		}
		if got.Switch != c.to || cascades != c.cascades {
			t.Errorf("%v: %+v, cascades %s", it, got, cascades)
		}
	}
}

// Buckets are stamped for clients that do not read configurations, if the bucket exists. The stamp
// of a bypass has the instant until which it counts.
func TestStampsNeedABucket(t *testing.T) {
	k := layout.BucketKey("ns", "acme", "gpt", 2)
	for to, want := range map[Switch]string{SwitchedOff: "true -", SwitchedOn: "- -", Undecided: "- -",
		Bypassed: "- 7"} {
		stored := k.Item()
		stored["bypass"], stored["disabled"], stored["x"] = item.S("kept"), item.Bool(to != SwitchedOff), item.N(1)
		u := Stamp(k, to, 7)
		after, held, err := u.Apply(stored)
		if err != nil || !held || after["x"] == nil || u.Key != k {
			t.Fatalf("%v: %v, %v, %v", to, after, held, err)
		}
		got := "- -"
		if v, ok := after["disabled"]; ok && item.EqualItems(item.Item{"v": v}, item.Item{"v": item.Bool(true)}) {
			got = "true -"
		} else if n, _, err := item.Int(after, "bypass"); after["bypass"] != nil && err == nil {
			got = fmt.Sprintf("- %d", n)
		}
		if _, ok := after["bypass"]; got != want || ok != (to == Bypassed) {
			t.Errorf("%v: %v", to, after)
		}
		if _, held, _ = u.Apply(nil); held {
			t.Errorf("%v: a missing bucket was stamped", to)
		}
	}
	on := Access{Cascade: new(true)}
	for _, c := range []struct {
		was, to Access
		want    item.Item
	}{
		{Access{}, Access{Switch: SwitchedOff}, item.Item{"disabled": item.Bool(true)}},
		{Access{}, Access{Switch: SwitchedOn}, item.Item{"disabled": item.Bool(false)}},
		{Access{}, Access{Switch: Bypassed}, item.Item{"disabled": item.S("bypass")}},
		{Access{Switch: Bypassed, Cascade: new(true)}, on, item.Item{"disabled": item.Null()}},
		{Access{Switch: Bypassed, Cascade: new(true)}, Access{Switch: Bypassed}, item.Item{"cascade": item.Null()}},
		{on, Access{Cascade: new(false)}, item.Item{"cascade": item.Bool(false)}},
		{on, Access{Cascade: new(true)}, item.Item{}},
	} {
		if got := AccessSet(c.was, c.to); !item.EqualItems(got, c.want) {
			t.Errorf("from %+v to %+v is logged as %v", c.was, c.to, got)
		}
	}
}

// An event has limits under the operator's names, and for the system level its policy.
func TestEventsHaveTheOperatorsNames(t *testing.T) {
	c := Config{Namespace: "ns", Limits: kinds(), OnUnavailable: "allow"}
	d := LimitsSet(c)
	var details []item.Item
	for _, v := range d["limits"].(*types.AttributeValueMemberL).Value {
		details = append(details, v.(*types.AttributeValueMemberM).Value)
	}
	for i, want := range []item.Item{
		{"name": item.S("budget"), "capacity": item.N(5), "refill_amount": item.N(0), "refill_period_seconds": item.N(1),
			"reset": details[0]["reset"]},
		{"name": item.S("fly_l"), "capacity": item.N(20), "refill_amount": item.N(0), "refill_period_seconds": item.N(30),
			"in_flight": item.Bool(true)},
		{"name": item.S("rpm"), "capacity": item.N(100), "refill_amount": item.N(90), "refill_period_seconds": item.N(60),
			"floors": item.S("batch=40,free=60"), "ahead_milliseconds": item.N(2000)},
		{"name": item.S("rps"), "capacity": item.N(100), "refill_amount": item.N(90), "refill_period_seconds": item.N(1),
			"schedule": item.S("h9s500;w6,7c5@Asia/Tokyo")},
		{"name": item.S("tpm"), "capacity": item.N(7), "refill_amount": item.N(6), "refill_period_seconds": item.N(60),
			"soft": item.Bool(true)},
	} {
		if !item.EqualItems(details[i], want) {
			t.Errorf("%v, want %v", details[i], want)
		}
	}
	policy := item.Item{"v": d["on_unavailable"]}
	if details[0]["reset"] == nil || !item.EqualItems(policy, item.Item{"v": item.S("allow")}) {
		t.Errorf("%v", d)
	}
	if d = LimitsDeleted(c); d["on_unavailable"] == nil || d["limits"] == nil {
		t.Errorf("of deleted limits: %v", d)
	}
	for _, level := range []Config{{Entity: "acme", Limits: kinds()}, {Resource: "gpt", Limits: kinds()}} {
		if LimitsDeleted(level) != nil || LimitsSet(level)["on_unavailable"] != nil {
			t.Errorf("%+v has the system's policy", level)
		}
	}
	if got := ledger.BucketLevels(map[string]int64{"rpm": 7}, ""); got["id"] != nil || got["tokens"] == nil {
		t.Errorf("levels without an id: %v", got)
	}
	if got := EntityDeleted(3); !item.EqualItems(got, item.Item{"records_deleted": item.N(3)}) {
		t.Errorf("%v", got)
	}
}

// Keys of an entity without a resource, and of a resource without a name, are not configurations.
func TestIncompleteKeysAreNotConfigurations(t *testing.T) {
	for _, c := range []struct {
		pk, sk string
		want   bool
	}{
		{"ns/ENTITY#e", "#CONFIG#gpt", true}, {"ns/ENTITY#e", "#CONFIG#", false}, {"ns/ENTITY#", "#CONFIG#gpt", false},
		{"ns/ENTITY#e", "#META", false}, {"ns/ENTITY#e", "#CONFIG", false}, {"ENTITY#e", "#CONFIG#gpt", false},
		{"ns/RESOURCE#gpt", "#CONFIG", true}, {"ns/RESOURCE#", "#CONFIG", false}, {"ns/RESOURCE#gpt", "#META", false},
		{"/RESOURCE#gpt", "#CONFIG", false}, {"ns/SYSTEM#", "#CONFIG", true}, {"ns/SYSTEM#", "#META", false},
		{"ns/SYSTEM#x", "#CONFIG", false},
	} {
		_, err := DecodeConfig(item.Key{PK: c.pk, SK: c.sk}.Item())
		check.Equal(t, err == nil, c.want, "%s %s: %v", c.pk, c.sk, err)
	}
}
