package table

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// An error names an invalid capacity, amount, period or shard count with its value.
func TestErrorsNameInvalidNumbersOfABucket(t *testing.T) {
	for _, c := range []struct {
		attr  string
		v     int64
		wrong bool
	}{
		{"b_rpm_cp", 0, true}, {"b_rpm_cp", -1, true}, {"b_rpm_ra", -1, true}, {"b_rpm_rp", 0, true}, {"b_rpm_rp", -1, true},
		{"b_rpm_cp", 1, false}, {"b_rpm_ra", 1, false}, {"b_rpm_rp", 1, false}, {"b_rpm_tk", -1, false},
		{"shard_count", 0, true}, {"shard_count", 1<<20 + 1, true}, {"shard_count", 1 << 20, false},
	} {
		put, _ := create(sampleNow, Costs([]bucket.Limit{newRate("rpm", 1000, 1000)}))
		put.Item[c.attr] = item.N(c.v)
		_, err := DecodeShard(put.Item)
		check.Equal(t, err != nil, c.wrong, "%s=%d: %v", c.attr, c.v, err)
		most := int64(math.MaxInt64)
		if c.attr == AttrShardCount {
			most = 1 << 20
		}
		if c.wrong {
			check.Says(t, err, fmt.Sprintf("attribute %q is %d, want 1 to %d", c.attr, c.v, most))
		}
	}
}

// Limits are identified by the names of their levels, and slots by their epochs. Attributes with
// similar names belong to something else.
func TestLevelsAndEpochsIdentifyLimits(t *testing.T) {
	for attr, want := range map[string]string{"b_rpm_tk": "rpm", "b_a_b_tk": "a_b", "c_rpm_tk": "", "b_rpm_tc": "",
		"b__tk": "", "b_tk": "", "tk": ""} {
		if got, ok := limitOfTokens(attr); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v, want %q", attr, got, ok, want)
		}
	}
	for attr, want := range map[string]bool{"s_fly_ep": true, "s_x_ep": true, "b_fly_ep": false, "s_fly_0": false,
		"s__ep": false, "ep": false} {
		check.Equal(t, HasSlots([]byte(attr)), want, "%s: slots", attr)
	}
}

// manyKinds returns a bucket of a rate with held tokens, a quota of each kind, and slots, with
// remainders.
func manyKinds(t *testing.T) item.Item {
	t.Helper()
	limits := append([]bucket.Limit{slotsLimit("fly", 10)}, quotaLimits...)
	n := sampleNew(limits)
	b := begun(t, n)
	b, _ = written(t, b, Charge{Image: b, Costs: n.Costs, Now: sampleNow + 7})
	hold(&b, sampleNow+500)
	b.State.Slots[b.State.Index("tph")].Extra, b.State.Slots[b.State.Index("tph")].Resets = 5_000, 2
	return b.Item()
}

// Every number of a bucket and every remainder must be a number. Otherwise the item is unreadable,
// and the error names the attribute and the item.
func TestEveryNumberOfABucketMustBeANumber(t *testing.T) {
	whole := manyKinds(t)
	if b, err := DecodeShard(whole); err != nil || !item.EqualItems(b.Item(), whole) {
		t.Fatalf("%v", err)
	}
	played := 0
	for attr, v := range whole {
		if _, number := v.(*types.AttributeValueMemberN); !number || attr == AttrBorn {
			continue // any type is allowed
		}
		for _, wrong := range []item.Value{item.S("x"), num("1.5")} {
			it := maps.Clone(whole)
			it[attr] = wrong
			_, err := DecodeShard(it)
			if !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), fmt.Sprintf("attribute %q", attr)) ||
				!strings.Contains(err.Error(), item.KeyOf(it).PK) {
				t.Errorf("%s is %v: %v", attr, wrong, err)
			}
			played++
		}
	}
	b, _ := DecodeShard(whole)
	for _, of := range []string{RemaindersOf, EndsOf, layout.AttrRF} {
		var wrong item.Value = item.Map(item.Item{"rpm": item.S("x")})
		if of == layout.AttrRF {
			wrong = item.S("x")
		}
		it := maps.Clone(whole)
		it[AttrRemainders] = item.Map(item.Item{layout.AttrRF: item.N(b.State.RF), of: wrong})
		check.Is(t, check.Err(DecodeShard(it)), ErrUnreadable, "remainders with an invalid %s", of)
		played++
	}
	if played < 50 {
		t.Errorf("only %d attributes tested", played)
	}
}

// An item with another key is not a bucket, whatever its attributes. The error names its key.
func TestAnotherKeyIsNoBucket(t *testing.T) {
	for _, k := range []item.Key{{PK: "ns/BUCKET#e#r#0", SK: "#META"}, {PK: "ns/ENTITY#e", SK: layout.SKBucketState}} {
		it := manyKinds(t)
		it[item.AttrPK], it[item.AttrSK] = item.S(k.PK), item.S(k.SK)
		_, err := DecodeShard(it)
		check.Is(t, err, ErrUnreadable)
		check.Says(t, err, fmt.Sprintf("PK %q, SK %q: not a bucket key", k.PK, k.SK))
	}
}

// Slots and their epochs must be valid. The error names the limit.
func TestErrorsNameInvalidSlots(t *testing.T) {
	for _, c := range []struct {
		attr  string
		v     int64
		wrong bool
	}{
		{"s_fly_cp", 0, true}, {"s_fly_cp", 1, false}, {"s_fly_rp", bucket.MinEpoch - 1, true},
		{"s_fly_rp", bucket.MinEpoch, false}, {"s_fly_rp", bucket.MaxEpoch, false}, {"s_fly_rp", bucket.MaxEpoch + 1, true},
		{"s_fly_ep", -1, true}, {"s_fly_ep", 0, false}, {"s_fly_ep", 1<<53/slotsEpoch + 1, true},
	} {
		it := slotsBucket(sampleNow, 0, slotsLimit("fly", 10)).Item()
		it[c.attr] = item.N(c.v)
		_, err := DecodeShard(it)
		check.Equal(t, err != nil, c.wrong, "%s=%d: %v", c.attr, c.v, err)
		if c.wrong {
			check.Says(t, err, `limit "fly" has`)
			want := fmt.Sprintf("ms, want slots, and epochs of %d to %d ms", bucket.MinEpoch, bucket.MaxEpoch)
			check.Says(t, err, want)
		}
	}
}
