package streams

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// A counter grows beyond 2^63 and 2^64 millitokens, and beyond as many tokens, and so does the counter of what ended
// unspent. Usage of every window, its Live queries and Peek go on, also when a record is lost on the way.
func TestUsageOfCountersBeyond64Bits(t *testing.T) {
	const step = 400_000_000_000_000 // tokens an hour of each shard
	for name, beyond := range map[string]string{
		"2^63 millitokens": "9223372036854775808", "2^64 millitokens": "18446744073709551616",
		"2^63 tokens": "9223372036854775808000", "2^64 tokens": "18446744073709551616000",
	} {
		for _, shards := range []int{1, 2} {
			for _, ended := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d shards, ended %t", name, shards, ended), func(t *testing.T) {
					r := newRig(t)
					r.agg.conf.MergeAfter = math.MaxInt64
					made := r.registered(t)
					counter, _ := new(big.Int).SetString(beyond, 10)
					counter.Sub(counter, big.NewInt(3*step*1000+500))
					unspent := new(big.Int)
					store := func(more int64) {
						counter.Add(counter, big.NewInt(more*1000))
						if ended {
							counter.Add(counter, big.NewInt(step*1000))
							unspent.Add(unspent, big.NewInt(step*1000))
						}
						for k := range shards {
							b := table.Shard{Namespace: made.ID(), Entity: "e", Resource: "gpt", Generation: 7, State: bucket.New(
								[]bucket.Limit{{Name: "bytes", Capacity: 1e18, Amount: 1e18, Period: 1000}}, k, shards, r.now)}
							it := b.Item()
							it["b_bytes_tc"] = &types.AttributeValueMemberN{Value: counter.String()}
							if ended {
								it["x_bytes"] = &types.AttributeValueMemberN{Value: unspent.String()}
							}
							r.db.Store(it)
						}
						r.now += 3_600_000
					}
					store(0) // was there before
					seen := len(r.db.Changes(0))
					days := map[time.Time]int64{}
					for hour := range 8 {
						days[time.UnixMilli(r.now).UTC().Truncate(24*time.Hour)] += step * int64(shards)
						if store(step); hour == 3 {
							continue // its records come with the next
						}
						changes := r.since(int64(seen))
						seen = len(r.db.Changes(0))
						if hour == 4 {
							changes = changes[shards:] // or not at all
						}
						r.handle(windowed(records(changes), nil, true))
					}
					for _, live := range []bool{false, true} {
						got := map[time.Time]int64{}
						q := admin.UsageQuery{Entity: "e", Resource: "gpt", Window: admin.Daily, Live: live}
						for u, err := range made.Usage(t.Context(), q) {
							check.Must(t, err)
							got[u.Start] += u.Tokens["bytes"]
						}
						check.Equal(t, fmt.Sprint(got), fmt.Sprint(days),
							"usage, live %t: %v, want %v", live, got, days)
					}
					all, err := made.Peek(t.Context(), "e", "gpt")
					check.Must(t, err)
					want := new(big.Int).Mul(counter, big.NewInt(int64(shards)))
					if want.Div(want, big.NewInt(1000)); !want.IsInt64() {
						want.SetInt64(math.MaxInt64)
					}
					check.Equal(t, all[0].Levels[0].Used, want.Int64(), "Peek: used, want %s", want)
				})
			}
		}
	}
}

// Thresholds of a quota whose counter has outgrown 64 bits are told of, each when it is reached.
func TestThresholdsOfCountersBeyond64Bits(t *testing.T) {
	for _, before := range []string{"9223372036854775000", "9223372036854799999", "99223372036854775000123"} {
		r := newRig(t)
		counter, _ := new(big.Int).SetString(before, 10)
		var old item.Item
		reached := 0
		for n := range 41 { // of 40 tokens
			s := budgetShard(0, 1)
			s.State.Slots[s.State.Index("budget")].Tokens -= int64(n) * bucket.Milli
			now := s.Item()
			now["b_budget_tc"] = &types.AttributeValueMemberN{
				Value: new(big.Int).Add(counter, big.NewInt(int64(n)*bucket.Milli)).String()}
			if old != nil {
				r.handle(streamtest.Payload(streamtest.Record{Sequence: fmt.Sprint(100 + n), Created: t0, Old: old, New: now}))
			}
			old = now
			if n == 20 || n == 32 || n == 40 {
				reached++
			}
			told := 0
			for _, it := range r.db.Items() {
				if strings.HasPrefix(item.KeyOf(it).SK, "#QUOTA#") {
					told++
				}
			}
			check.MustEqual(t, told, reached, "from %s: told of after %d of 40 tokens", before, n)
		}
	}
}
