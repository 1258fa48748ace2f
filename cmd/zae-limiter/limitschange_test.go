package main

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// Limits that could not be read, because the table did not answer, are not replaced
// unseen: nobody was shown what would leave.
func TestLimitsAreNotReplacedUnseen(t *testing.T) {
	db := memdb.New(func() int64 { return time.Now().UnixMilli() })
	table, err := admin.Open(t.Context(), db.Client(), "table", &admin.Options{Principal: "tester"})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := table.Register(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	at := admin.Scope{Resource: "gpt-4"}
	if err := ns.SetLimits(t.Context(), at, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 500)); err != nil {
		t.Fatal(err)
	}
	calls := 0
	db.SetHook(func(memdb.Op) (bool, error) {
		if calls++; calls == 1 {
			return false, memdb.Fail(store.Unavailable)
		}
		return true, nil
	})
	var errs strings.Builder
	for _, replace := range []bool{true, false} {
		calls = 0
		l := limitsChange{at: at, replace: replace, yes: true}
		_, err = l.set(t.Context(), &app{errs: &errs}, ns, []limiter.Limit{limiter.PerMinute("rpm", 20)})
		if err == nil || strings.Contains(err.Error(), "--replace") || calls != 1 {
			t.Errorf("replace %v: error %v after %d calls", replace, err, calls)
		}
	}
	if c, err := ns.Config(t.Context(), at); err != nil || len(c.Limits) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}
