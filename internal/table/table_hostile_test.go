package table

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
)

// hostileValue returns any value that the SDK can return, and some that it cannot.
func hostileValue(r *rand.Rand, depth int) item.Value {
	switch n := r.IntN(14); n {
	case 0:
		return nil
	case 1:
		return item.S(hostileText(r))
	case 2, 3:
		return &types.AttributeValueMemberN{Value: hostileNumeral(r)}
	case 4:
		return item.Bool(r.IntN(2) == 0)
	case 5:
		return &types.AttributeValueMemberNULL{Value: r.IntN(2) == 0}
	case 6:
		return &types.AttributeValueMemberB{Value: []byte(hostileText(r))}
	case 7:
		return item.SS(hostileText(r), hostileText(r))
	case 8:
		return &types.AttributeValueMemberNS{Value: []string{hostileNumeral(r)}}
	case 9:
		return &types.AttributeValueMemberBS{Value: [][]byte{nil}}
	case 10:
		return &types.UnknownUnionMember{Tag: "X"}
	case 11:
		return &types.AttributeValueMemberL{}
	default:
		if depth > 3 {
			return item.Map(nil)
		}
		m := item.Item{"rf": hostileValue(r, depth+1), "r": hostileValue(r, depth+1),
			hostileText(r): hostileValue(r, depth+1)}
		if n == 12 {
			return item.Map(m)
		}
		return &types.AttributeValueMemberL{Value: slices.Collect(maps.Values(m))}
	}
}

func hostileText(r *rand.Rand) string {
	texts := []string{"", "a", "rpm", "_", "#", "/", "b__tk", "b_tk", "\xff", "a/b#c", "active", "allow", "ns/SYSTEM#",
		"0", "-1", "SELECT"}
	return texts[r.IntN(len(texts))]
}

func hostileNumeral(r *rand.Rand) string {
	numerals := []string{"", "0", "-0", "1", "-1", "1.5", "1e3", "NaN", "0x10", "1/2", "9223372036854775807",
		"-9223372036854775808",
		"9223372036854775808", "99999999999999999999999999999999999999", "1e125", "007", "60000", "1048576", "1048577"}
	return numerals[r.IntN(len(numerals))]
}

// FuzzDecodersTakeAnything damages a few attributes of a valid item, and passes it to every
// decoder. None may panic, and accepted records must survive encoding.
func FuzzDecodersTakeAnything(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	all := samples()
	kinds := slices.Sorted(maps.Keys(all))
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		it := maps.Clone(all[kinds[r.IntN(len(kinds))]])
		attrs := slices.Sorted(maps.Keys(it))
		for range 1 + r.IntN(4) {
			attr := attrs[r.IntN(len(attrs))]
			switch r.IntN(4) {
			case 0:
				delete(it, attr)
			case 1:
				it[hostileText(r)] = hostileValue(r, 0)
			default:
				it[attr] = hostileValue(r, 0)
			}
		}
		for _, r := range records {
			_, _ = r.decode(item.KeyOf(it), it)
		}
		if again, err := decoded(it); err == nil {
			if twice, err := decoded(again); err != nil || !item.EqualItems(twice, again) {
				t.Errorf("accepted\n%s, which becomes\n%s, which becomes\n%s (%v)", itemtest.JSON(it), itemtest.JSON(again),
					itemtest.JSON(twice), err)
			}
		}
		writesTakeAnything(t, r, it)
	})
}

// writesTakeAnything applies each kind of write to a damaged item.
func writesTakeAnything(t *testing.T, r *rand.Rand, it item.Item) {
	t.Helper()
	k := item.Key{PK: "p", SK: "s"}
	for _, w := range []item.Write{
		item.Update{Key: k, Add: []item.Attr{{Name: "rf", Value: hostileValue(r, 0)},
			{Name: "r", Value: hostileValue(r, 0)}}},
		item.Update{Key: k, Set: []item.Attr{{Name: hostileText(r), Value: hostileValue(r, 0)}},
			Del: []item.Attr{{Name: hostileText(r), Value: hostileValue(r, 0)}}},
		item.Put{Item: it, If: item.Compare(hostileText(r), item.Lt, hostileValue(r, 0))},
		item.Check{Key: k, If: item.Between("rf", hostileValue(r, 0), hostileValue(r, 0))},
	} {
		if after, _, err := w.Apply(it); err != nil && !reflect.DeepEqual(after, it) {
			t.Errorf("%T: refused, but the item changed", w)
		}
	}
}

// FuzzShardsSurviveTheirItems checks decode(encode(x)) = x for random shards. Other records have
// such tests in their packages.
func FuzzShardsSurviveTheirItems(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		g := generator{rand.New(rand.NewPCG(seed, 2))}
		b := g.bucket()
		if got, err := DecodeShard(b.Item()); err != nil || !reflect.DeepEqual(got, b) {
			t.Errorf("decoded %+v (%v), want %+v", got, err, b)
		}
	})
}

type generator struct{ *rand.Rand }

func (g generator) name() string {
	names := []string{"a", "key-1", "a.b:c@d", "In.Tok", "a-b", "SIZE", "b_tk", "l_x_cp", "_default_", "window", "x/y"}
	return names[g.IntN(5)] + fmt.Sprint(g.IntN(100)) + names[g.IntN(len(names)-1)]
}

func (g generator) maybe() string {
	if g.IntN(2) == 0 {
		return ""
	}
	return g.name()
}

func (g generator) number() int64 {
	switch g.IntN(6) {
	case 0:
		return math.MaxInt64
	case 1:
		return math.MinInt64
	case 2:
		return 0
	}
	return g.Int64() >> g.IntN(62) * int64(1-2*g.IntN(2))
}

func (g generator) limits(unit, period int64) []bucket.Limit {
	var out []bucket.Limit
	for i := range g.IntN(4) {
		out = append(out, bucket.Limit{
			Name: fmt.Sprintf("l%d%s", i, g.name()), Capacity: unit * (1 + g.Int64N(1<<40)),
			Amount: unit * (1 + g.Int64N(1<<40)), Period: period * (1 + g.Int64N(1<<40)),
		})
	}
	return out
}

func (g generator) bucket() Shard {
	b := Shard{Namespace: g.name(), Entity: g.name(), Resource: g.name(), Parent: g.maybe(), Cascade: g.IntN(2) == 0,
		TTL: g.Int64N(1 << 40), Generation: g.number()}
	b.State = bucket.New(g.limits(1, 1), g.IntN(32), 32, g.number())
	for i := range b.State.Slots {
		sl := &b.State.Slots[i]
		sl.Tokens, sl.Used = g.number(), g.number()
		if g.IntN(2) == 0 {
			sl.Rest = g.Int64N(sl.Period)
		}
	}
	return b
}
