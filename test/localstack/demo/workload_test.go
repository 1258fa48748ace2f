package main

import (
	"slices"
	"testing"
)

func TestTheGeneratedWorkloadIsTheSameEveryTime(t *testing.T) {
	a, b := generate(), generate()
	if !slices.Equal(a, b) {
		t.Fatal("two runs differ")
	}
	if n := float64(len(a)); n < 0.9*playRate*playTime.Seconds() || n > 1.1*playRate*playTime.Seconds() {
		t.Errorf("%v requests, want about %v per second for %v", n, playRate, playTime)
	}
	seen, fails := map[string]int{}, 0
	for _, r := range a {
		seen[r.tenant.entity]++
		if r.fails {
			fails++
		}
		if r.estimate < 1 || r.estimate+r.settle < 1 {
			t.Fatalf("request %+v costs nothing in the end", r)
		}
	}
	if len(seen) != len(tenants) || fails == 0 {
		t.Errorf("tenants %v, %d failing calls", seen, fails)
	}
}

func TestTheHotBucketIsHotAndWhatOneShardHoldsCoversARequest(t *testing.T) {
	perSecond := map[string]float64{}
	for _, r := range generate() {
		perSecond[r.tenant.entity] += 2 / playTime.Seconds() // acquire and settle
		for _, l := range r.tenant.limits {
			if l.Name == "tpm" && r.tenant.entity == hotEntity && r.estimate > l.Capacity/32 {
				t.Fatalf("%d tokens are more than one of 32 shards of %v holds", r.estimate, l)
			}
		}
	}
	if perSecond[hotEntity] < 2*hotWCU {
		t.Errorf("the hot bucket gets %.0f writes a second, want well over %d", perSecond[hotEntity], hotWCU)
	}
}
