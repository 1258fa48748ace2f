package docs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// The code of choosing-keys.md about tenants.

// addTenant stores a tenant and its limits. It may be called again, with the same plan or another one.
func addTenant(ctx context.Context, db admin.DynamoDB, id, name string, perMinute int64) error {
	table, err := admin.Open(ctx, db, "zae-limiter", &admin.Options{Principal: "sign-up"})
	if err != nil {
		return err
	}
	ns, err := table.Namespace(ctx, "default")
	if err != nil {
		return err
	}
	_, err = ns.CreateEntity(ctx, admin.Entity{ID: id, Name: name, Metadata: map[string]any{"plan": "pro"}})
	if err != nil && !errors.Is(err, admin.ErrExists) {
		return err
	}
	return ns.SetLimits(ctx, admin.Scope{Entity: id, Resource: "api"}, limiter.PerMinute("rpm", perMinute))
}

// addKey stores a key of a tenant. What it takes is charged to the tenant too.
func addKey(ctx context.Context, ns *admin.Namespace, tenant, key string, perMinute int64) error {
	id := limiter.Hashed(key)
	_, err := ns.CreateEntity(ctx, admin.Entity{ID: id, Name: tenant + "'s key", Parent: tenant, Cascade: true})
	if err != nil && !errors.Is(err, admin.ErrExists) {
		return err
	}
	return ns.SetLimits(ctx, admin.Scope{Entity: id, Resource: "api"}, limiter.PerMinute("rpm", perMinute))
}

// A tenant of three a minute has two keys of two: the third request of one key is denied
// by the key, the second of the other one by the tenant. Blocked, it is denied at once.
func TestAddTenant(t *testing.T) {
	table := limitertest.New(t)
	ns := table.Admin("default")
	for range 2 { // again
		if err := addTenant(t.Context(), table, "acme", "Acme Corporation", 3); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"one", "two"} {
			if err := addKey(t.Context(), ns, "acme", key, 2); err != nil {
				t.Fatal(err)
			}
		}
	}
	l := table.Limiter(nil)
	for i, ask := range []struct{ key, denies string }{
		{"one", ""}, {"one", ""}, {"one", limiter.Hashed("one")}, {"two", ""}, {"two", "acme"},
	} {
		r := limiter.Request{Entity: limiter.Hashed(ask.key), Resource: "api", Costs: limiter.Costs{"rpm": 1}}
		_, err := l.Acquire(t.Context(), r)
		by := ""
		if denied, ok := errors.AsType[*limiter.LimitError](err); ok {
			by = denied.Entity
		} else if err != nil {
			t.Fatal(err)
		}
		if by != ask.denies {
			t.Errorf("request %d: denied by %q, want %q", i, by, ask.denies)
		}
	}
	api := admin.Scope{Entity: "acme", Resource: "api"}
	if err := ns.SetLimits(t.Context(), api, limiter.Blocked("rpm")); err != nil {
		t.Fatal(err)
	}
	r := limiter.Request{Entity: limiter.Hashed("two"), Resource: "api", Costs: limiter.Costs{"rpm": 1}}
	if _, err := table.Limiter(nil).Acquire(t.Context(), r); !errors.Is(err, limiter.ErrLimited) {
		t.Errorf("of a blocked tenant: %v", err)
	}
}
