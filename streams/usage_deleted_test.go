package streams

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// dbOf is a table in memory for a limiter.
type dbOf struct {
	limiter.DynamoDB // nil
	*memdynamo.DB
}

// tenant is an entity with requests, and an aggregator that counts them.
type tenant struct {
	*rig
	all  *admin.Table
	made *admin.Namespace
	lim  *limiter.Limiter
	seen int64
}

func newTenant(t *testing.T) *tenant {
	w := &tenant{rig: newRig(t)}
	w.made = w.registered(t)
	now := func() time.Time { return time.UnixMilli(w.now) }
	var err error
	w.all, err = admin.Open(t.Context(), twin{Lister: w.db}, "limits", &admin.Options{Now: now})
	check.Must(t, err)
	w.lim, err = limiter.Open(t.Context(), dbOf{DB: w.db}, "limits",
		&limiter.Options{Namespace: w.made.Name(), Timeout: 24 * time.Hour, ConfigTTL: -1, Now: now})
	check.Must(t, err)
	err = w.made.SetLimits(t.Context(), admin.Scope{Resource: "gpt"}, limiter.PerMinute("rpm", 1000))
	check.Must(t, err)
	return w
}

func (w *tenant) take(n int64) {
	w.t.Helper()
	_, err := w.lim.Acquire(context.Background(), limiter.Request{Entity: "acme", Resource: "gpt",
		Costs: limiter.Costs{"rpm": n}})
	check.Must(w.t, err)
}

// count delivers n records, or all.
func (w *tenant) count(n int) {
	w.t.Helper()
	changes := w.since(w.seen)
	if changes = changes[:min(n, len(changes))]; len(changes) > 0 {
		w.seen = changes[len(changes)-1].Seq
	}
	w.handle(windowed(records(changes), nil, true))
}

const all = 1 << 30

// usage returns the tenant's tokens by the hours and by the days.
func (w *tenant) usage() (hours, days int64) {
	for _, it := range w.db.Items() {
		switch ledger.WindowOf(it) {
		case "hourly":
			hours += read(it, "rpm")
		case "daily":
			days += read(it, "rpm")
		}
	}
	return hours, days
}

// Deleted usage does not reappear when records of the deleted buckets are counted later, for an
// entity or a purged namespace. Only the audit trail and a note still name the entity, and both
// expire.
func TestDeletedUsageStaysDeleted(t *testing.T) {
	const day = 24 * 3_600_000
	entity := func(w *tenant) error { _, err := w.made.DeleteEntity(context.Background(), "acme"); return err }
	purge := func(w *tenant) error {
		err := w.all.DeleteNamespace(context.Background(), w.made.ID())
		if err != nil {
			return err
		}
		_, err = w.all.PurgeNamespace(context.Background(), w.made.ID())
		return err
	}
	for name, c := range map[string]struct {
		before func(w *tenant)
		remove func(w *tenant) error
		first  int // records in the first batch after it
	}{
		"all was counted":   {func(w *tenant) { w.take(70); w.count(all); w.now += day; w.count(all) }, entity, 1},
		"some is uncounted": {func(w *tenant) { w.take(1); w.count(all); w.now += 20 * day; w.take(10) }, entity, 1},
		"nothing is yet":    {func(w *tenant) { w.take(5); w.now += 1000; w.take(10) }, entity, all},
		"an hour has passed": {func(w *tenant) {
			w.take(1)
			w.count(all)
			w.take(5)
			w.now += 3_600_000
			w.take(10)
		}, entity, 1},
		"purged":                {func(w *tenant) { w.take(70); w.count(all); w.now += day; w.count(all) }, purge, 1},
		"purged before a count": {func(w *tenant) { w.take(5); w.count(all); w.take(10) }, purge, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // a purge waits for indexes
				w := newTenant(t)
				c.before(w)
				check.Must(t, c.remove(w))
				w.now += 60_000
				w.count(c.first) // in several batches
				w.count(all)
				w.now += day
				w.count(all)
				for _, it := range w.db.Items() {
					k := item.KeyOf(it)
					if strings.Contains(k.PK, "acme") && (it[layout.AttrTTL] == nil || !strings.Contains(k.PK, "AUDIT#acme") &&
						k != config.DeletionKey(w.made.ID(), "acme")) {
						t.Errorf("left: %v", k)
					}
				}
			})
		})
	}
}

// Requests after an entity's deletion are counted exactly, however their records are batched, and
// even if buckets expire in between.
func TestUsageAfterADeletionIsExact(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 60
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 7))
		w := newTenant(t)
		key := layout.BucketKey(w.made.ID(), "acme", "gpt", 0)
		want, lived := int64(0), false // since the last deletion; whether the bucket has been counted in this life
		for range 40 {
			switch n := random.IntN(10); {
			case n < 5:
				lived = lived && w.db.Item(key) != nil
				cost := 1 + random.Int64N(5)
				w.take(cost)
				want += cost
			case n < 7:
				if w.count(all); want > 0 {
					lived = true
				}
			case n < 8:
				w.now += random.Int64N(3 * 3_600_000)
			case n == 8: // the bucket expires, its usage stays
				w.db.Delete(key)
				w.now += 1000
			default:
				if !lived { // otherwise usage that never existed comes after the deletion
					w.count(all)
				}
				check.Must(t, check.Err(w.made.DeleteEntity(t.Context(), "acme")))
				w.count(random.IntN(4)) // a part of the rest
				want, lived = 0, false
				w.now += 1000
			}
		}
		w.count(all)
		w.now += 2 * 24 * 3_600_000
		w.count(all)
		if hours, days := w.usage(); hours != want || days != want {
			t.Fatalf("seed %d: %d in hours, %d in days, want %d", seed, hours, days, want)
		}
	}
}

// Lost usage of a life after the deletion is recovered as usual.
func TestBeginningsAfterADeletion(t *testing.T) {
	w := newTenant(t)
	w.take(5)
	w.count(all)
	check.Must(t, check.Err(w.made.DeleteEntity(t.Context(), "acme")))
	w.count(all)
	w.now += 20 * 60_000
	w.take(3)
	changes := w.since(w.seen)
	w.seen = changes[len(changes)-1].Seq // lost
	w.now += 3_600_000
	w.take(4)
	w.count(all)
	hours, _ := w.usage()
	check.Equal(t, hours, 7, "in hours")
}

// If a note cannot be read, the batch fails, and is counted when it is repeated.
func TestUsageWaitsForNotes(t *testing.T) {
	w := newTenant(t)
	w.take(5)
	w.count(all)
	w.take(5)
	check.Must(t, check.Err(w.made.DeleteEntity(t.Context(), "acme")))
	w.fails(func(op memdynamo.Op) bool { return op.Name == memdynamo.BatchGetItem })
	_, err := w.agg.Invoke(t.Context(), windowed(records(w.since(w.seen)), nil, true))
	w.db.SetHook(nil)
	if err == nil {
		t.Error("the batch counts as done")
	}
	w.count(all)
	hours, _ := w.usage()
	check.Equal(t, hours, 0, "of the deleted tokens are counted")
}

// A counter exceeds 2^63 and 2^64 millitokens, and then as many tokens, and so does the counter of
// expired tokens. Usage of every window, Live queries and Peek go on, even if a record is lost on
// the way.
func TestUsageOfCountersBeyond64Bits(t *testing.T) {
	const step = 400_000_000_000_000 // tokens per hour and shard
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
							limits := []bucket.Limit{{Name: "bytes", Capacity: 1e18, Amount: 1e18, Period: 1000}}
							b := table.Shard{Namespace: made.ID(), Entity: "e", Resource: "gpt", Generation: 7,
								State: bucket.New(limits, k, shards, r.now)}
							it := b.Item()
							it["b_bytes_tc"] = &types.AttributeValueMemberN{Value: counter.String()}
							if ended {
								it["x_bytes"] = &types.AttributeValueMemberN{Value: unspent.String()}
							}
							r.db.Store(it)
						}
						r.now += 3_600_000
					}
					store(0) // existed before
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
					want := new(big.Int).Sub(counter, unspent)
					want.Mul(want, big.NewInt(int64(shards)))
					if want.Div(want, big.NewInt(1000)); !want.IsInt64() {
						want.SetInt64(math.MaxInt64)
					}
					check.Equal(t, all[0].Levels[0].Used, want.Int64(), "Peek: used")
				})
			}
		}
	}
}
