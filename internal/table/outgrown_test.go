package table

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

func TestCountersOfAnySize(t *testing.T) {
	size := new(big.Int).Lsh(big.NewInt(1), 64)
	low := func(n *big.Int) int64 { return int64(new(big.Int).Mod(n, size).Uint64()) }
	nearest := func(n *big.Int) int64 {
		switch {
		case n.Cmp(big.NewInt(math.MaxInt64)) > 0:
			return math.MaxInt64
		case n.Cmp(big.NewInt(math.MinInt64)) < 0:
			return math.MinInt64
		}
		return n.Int64()
	}
	var all []*big.Int
	for s := range strings.FieldsSeq(`0 1 -1 999 1000 -1000 -1001 9223372036854775807 -9223372036854775808 9223372036854775808
		-9223372036854775809 18446744073709551616 9223372036854775807999 9223372036854775808000 -9223372036854775808001
		18446744073709551616001 85070591730234615865843651857942052863`) {
		n, _ := new(big.Int).SetString(s, 10)
		all = append(all, n)
	}
	same := func(what string, c Counter, n *big.Int) {
		tokens := new(big.Int).Div(n, big.NewInt(1000))
		if c.Low() != low(n) || c.Milli() != nearest(n) || c.Tokens() != nearest(tokens) || c.Mark() != low(tokens) {
			t.Errorf("%s, %v: %d, %d, %d, %d, want %d, %d, %d, %d", what, n, c.Low(), c.Milli(), c.Tokens(), c.Mark(),
				low(n), nearest(n), nearest(tokens), low(tokens))
		}
	}
	for _, a := range all {
		x, ok := ParseCounter(a.String())
		if !ok {
			t.Fatalf("%s is no counter", a)
		}
		same("itself", x, a)
		for _, b := range all {
			y, _ := ParseCounter(b.String())
			same(fmt.Sprintf("%v plus %v", a, b), x.Plus(y), new(big.Int).Add(a, b))
			same(fmt.Sprintf("%v minus %v", a, b), x.Minus(y), new(big.Int).Sub(a, b))
		}
	}
	for _, s := range []string{"", "-", "1.5", "x", "85070591730234615865843651857942052864", fmt.Sprintf("1%040d", 0)} {
		if c, ok := ParseCounter(s); ok {
			t.Errorf("%q is the counter %v", s, c)
		}
	}
}

// A shard reports its counters at any size, with and without expired tokens.
func TestCountersOfAShardThatHaveOutgrown64Bits(t *testing.T) {
	num := func(s string) item.Value { return &types.AttributeValueMemberN{Value: s} }
	for _, c := range []struct{ used, ended, usedTokens, spent string }{
		{"5500", "", "5", "5"},
		{"5500", "2000", "5", "3"},
		{"9223372036854775807", "1000", "9223372036854775", "9223372036854774"},
		{"9223372036854775808", "1000", "9223372036854775", "9223372036854774"},
		{"30000000000000000000", "10000000000000000000", "30000000000000000", "20000000000000000"},
		{"9223372036854775999", "9223372036854775000", "9223372036854775", "0"},
	} {
		b := imageOf(0, []bucket.Limit{newRate("l", 1000, 1000)}, 0, 1, 0)
		it := b.Item()
		it["b_l_tc"] = num(c.used)
		if c.ended != "" {
			it["x_l"] = num(c.ended)
		}
		b = decode(t, it)
		sl := b.State.Slots[b.State.Index("l")]
		used, spent := fmt.Sprint(b.Used(sl).Tokens()), fmt.Sprint(b.Spent(sl).Mark())
		if used != c.usedTokens || spent != c.spent {
			t.Errorf("%s, %s unspent: %s used, %s spent, want %s, %s", c.used, c.ended, used, spent, c.usedTokens, c.spent)
		}
		u, _ := ParseCounter(c.used)
		e, _ := ParseCounter(cmp.Or(c.ended, "0"))
		of := Shard{}
		of.Outgrow("l", u, e)
		if !maps.EqualFunc(of.Outgrown, b.Outgrown, item.Equal) {
			t.Errorf("%s, %s unspent: noted %v, want %v", c.used, c.ended, of.Outgrown, b.Outgrown)
		}
	}
}
