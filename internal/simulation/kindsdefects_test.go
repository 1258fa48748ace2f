package simulation

import (
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
)

const slotsPrefix = "s_" + slotsName + "_"

// slotsAdd returns the change of a count of slots in an update, and of which count; -1 is none.
func slotsAdd(u item.Update) int {
	return slices.IndexFunc(u.Add, func(a item.Attr) bool { return strings.HasPrefix(a.Name, slotsPrefix) })
}

// takes reports whether a write takes for a request.
func takes(o *op) bool { return o.kind == "acquire" || o.kind == "wait" }

// twice doubles the change of a count of slots.
func twice(when func(*op) bool) func(*network, *op, item.Write) item.Write {
	return onBuckets(func(_ *network, o *op, u item.Update) item.Write {
		if i := slotsAdd(u); i >= 0 && when(o) {
			u.Add = slices.Clone(u.Add)
			u.Add[i].Value = item.N(2 * number(u.Add[i].Value))
		}
		return u
	})
}

var kindsDefects = []defect{
	{name: "a quota is made whole twice", write: onBuckets(func(_ *network, o *op, u item.Update) item.Write {
		if takes(o) && slices.ContainsFunc(u.Set, func(a item.Attr) bool { return a.Name == "b_q_tk" }) {
			u.If = item.Exists("b_q_tk")
		}
		return u
	})},
	{name: "a quota is made whole a month late", reset: limiter.Monthly(1, "UTC")},
	{name: "what is given back lands in the next period", write: onBuckets(
		func(_ *network, o *op, u item.Update) item.Write {
			if o.kind == "settle" && slices.ContainsFunc(u.Add, func(a item.Attr) bool { return a.Name == "b_q_tc" }) {
				u.If = item.Exists("b_q_tk")
			}
			return u
		})},
	{name: "a slot is counted twice", write: twice(takes)},
	{name: "a slot is given back twice", write: twice(func(o *op) bool { return o.kind == "settle" })},
	{name: "an epoch is forgotten early", write: onBuckets(func(n *network, o *op, u item.Update) item.Write {
		i := slotsAdd(u)
		if i < 0 || !takes(o) || number(u.Add[i].Value) < 0 {
			return u
		}
		for _, d := range "012" { // of all epochs but that which is taken in
			name := slotsPrefix + string(d)
			if name != u.Add[i].Name && !slices.ContainsFunc(u.Set, func(a item.Attr) bool { return a.Name == name }) {
				u.Set = append(slices.Clip(u.Set), item.Attr{Name: name, Value: item.N(0)})
			}
		}
		return u
	})},
	{name: "slots are taken blindly", write: onBuckets(func(_ *network, o *op, u item.Update) item.Write {
		if i := slotsAdd(u); i >= 0 && takes(o) {
			u.If = item.Exists("b_q_tk")
		}
		return u
	})},
	{name: "a class leaves nothing", class: func(string) string { return "" }},
	{name: "a floor starves those it is for", class: func(string) string { return lowClass }},
	{name: "a parent is not charged for a quota", write: onBuckets(func(_ *network, o *op, u item.Update) item.Write {
		if _, entity, _, _, _ := layout.ParseBucketPK(u.Key.PK); entity != "key" && takes(o) {
			u.Add = slices.DeleteFunc(slices.Clone(u.Add), func(a item.Attr) bool { return a.Name == "b_q_tc" })
		}
		return u
	})},
}

// TestKindsTogetherCatchPlantedDefects: every weakness of a kind that is put back is seen
// within a few worlds, all of which are sound without it.
func TestKindsTogetherCatchPlantedDefects(t *testing.T) {
	const seeds = 20
	for _, d := range kindsDefects {
		t.Run(d.name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				if got := playKinds(t, seed, d, false); got.broken != "" {
					t.Logf("seed %d: %s", seed, got.broken)
					return
				}
			}
			t.Errorf("not seen in %d worlds", seeds)
		})
	}
}
