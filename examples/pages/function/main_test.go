package main

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

func TestHandler(t *testing.T) {
	table := limitertest.New(t)
	if err := table.Admin("").SetLimits(t.Context(), admin.Scope{}, limiter.PerMinute("rpm", 1)); err != nil {
		t.Fatal(err)
	}
	h := handler(table.Limiter(nil))
	if answer, err := h(t.Context(), request{"acme"}); err != nil || answer != "done for acme" {
		t.Errorf("%q, %v", answer, err)
	}
	if answer, err := h(t.Context(), request{"acme"}); !errors.Is(err, limiter.ErrLimited) || answer != "" {
		t.Errorf("the second in a minute: %q, %v", answer, err)
	}
}
