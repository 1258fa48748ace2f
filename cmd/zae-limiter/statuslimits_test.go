package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Of many refused scopes the first are named, and all are counted. Limits that cannot be looked at
// are not said to be served.
func TestLimitsInTheStatus(t *testing.T) {
	s := newStored(t)
	s.says(0, "namespace register default")
	s.says(0, "limits set -y --everybody tpm=5")
	for i := range maxRefused + 2 {
		s.says(0, fmt.Sprintf("limits set -y -r r%d rpm=5", i))
	}
	table, err := admin.Open(t.Context(), s.memory, "zae-limiter", &admin.Options{Now: s.memory.Now})
	check.Must(t, err)
	status := func() part { return limitsPart(t.Context(), table, []string{"default"}) }
	if p := status(); p.Name != "8" || p.State != "served" || !p.OK {
		t.Errorf("served: %+v", p)
	}
	for _, it := range s.db.Items() {
		if it["l_rpm_cp"] != nil {
			it = maps.Clone(it)
			it["l_rpm_sched"] = item.S("3s500")
			s.db.Store(it)
		}
	}
	if p := status(); p.Name != "8" || p.State != "refused" || p.OK ||
		strings.Count(p.Detail, "want version 1 or 2") != maxRefused ||
		!strings.HasSuffix(p.Detail, "; and 2 more: zae-limiter limits list") {
		t.Errorf("refused: %+v", p)
	}
	calls := 0
	s.db.SetSerialHook(func(memdynamo.Op) (bool, error) {
		if calls++; calls > 1 { // the first finds the namespace
			return false, memdynamo.Fail(store.Unavailable)
		}
		return true, nil
	})
	if p := status(); p.State != "unknown" || p.OK || !strings.Contains(p.Detail, "unavailable") {
		t.Errorf("limits that cannot be listed: %+v", p)
	}
}
