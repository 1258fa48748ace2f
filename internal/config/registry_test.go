package config

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// A count of configurations is forgotten when there are none: by other clients it may be below zero.
func TestCountsAreForgottenAtZero(t *testing.T) {
	forget := ForgetEntityConfigs("ns", "gpt")
	for n, want := range map[int64]bool{-1: true, 0: true, 1: false, 2: false} {
		it := layout.EntityConfigsKey("ns").Item()
		it["gpt"], it["other"] = item.N(n), item.N(5)
		after, held, err := forget.Apply(it)
		if err != nil || held != want {
			t.Errorf("%d: held %v, %v", n, held, err)
		}
		if held && (after["gpt"] != nil || after["other"] == nil) {
			t.Errorf("%d: %v", n, after)
		}
	}
}
