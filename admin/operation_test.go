package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/table"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// operations are all that changes something, each in a way of its own, in the world of changeable. But for one
// with an id, each has the same outcome if it is carried out again.
func operations(ctx context.Context) map[string]func(w *world) error {
	resource, one := Scope{Resource: "gpt-4"}, Scope{"acme", "gpt-4"}
	once := func(w *world) *Namespace { return w.once("n-1") }
	credit := func(w *world) error {
		return check.Err(once(w).Credit(ctx, "acme", "gpt-4", limiter.Costs{"rpm": 1}))
	}
	raise := func(w *world) error {
		return check.Err(once(w).RaiseFor(ctx, "acme", "gpt-4", limiter.Costs{"rpm": 1}, 2))
	}
	apply := func(all ...Manifest) func(w *world) error {
		return func(w *world) error {
			for _, m := range all {
				p, err := w.ns.Plan(ctx, m)
				if err == nil {
					err = w.ns.Apply(ctx, p)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	twice := func(do func(w *world) error) func(w *world) error {
		return func(w *world) error { return cmp.Or(do(w), do(w)) }
	}
	access := func(at Scope, all ...Access) func(w *world) error {
		return func(w *world) (err error) {
			for _, a := range all {
				err = cmp.Or(err, check.Err(w.ns.SetAccess(ctx, at, a)))
			}
			return err
		}
	}
	reset := func(w *world) error { return check.Err(w.ns.Reset(ctx, "acme", "gpt-4")) }
	deletes := func(entity string) func(w *world) error {
		return func(w *world) error { return check.Err(w.ns.DeleteEntity(ctx, entity)) }
	}
	return map[string]func(w *world) error{
		"set limits":        func(w *world) error { return w.ns.SetLimits(ctx, resource, rpm20) },
		"set limits of one": func(w *world) error { return w.ns.SetLimits(ctx, Scope{"beta", "gpt-4"}, rpm20) },
		"change limits": func(w *world) error {
			return w.ns.ChangeLimits(ctx, Config{Scope: Scope{Entity: "acme"}, Limits: []limiter.Limit{rpm10}}, rpm20)
		},
		"delete limits":                    func(w *world) error { return w.ns.DeleteLimits(ctx, one) },
		"delete limits that are not there": func(w *world) error { return w.ns.DeleteLimits(ctx, Scope{"beta", "gpt-4"}) },
		"configure": func(w *world) error {
			return w.ns.Configure(ctx, Settings{OnUnavailable: new(limiter.PolicyAllow)})
		},
		"configure what is so already": func(w *world) error {
			return w.ns.Configure(ctx, Settings{OnUnavailable: new(limiter.PolicyDefault)})
		},
		"disable":                    access(resource, AccessDisabled),
		"enable again":               access(Scope{"acme", "o3"}, AccessDisabled, AccessInherited),
		"cascade":                    func(w *world) error { return check.Err(w.ns.SetCascade(ctx, resource, CascadeOff)) },
		"reach":                      func(w *world) error { return check.Err(w.ns.Reach(ctx, Scope{})) },
		"apply":                      apply(declare()),
		"apply twice, and take away": apply(declare(), declare(), Manifest{Namespace: "prod"}),
		"create an entity": func(w *world) error {
			return check.Err(w.ns.CreateEntity(ctx, Entity{ID: "new", Parent: "acme"}))
		},
		"update an entity": func(w *world) error {
			return check.Err(w.ns.UpdateEntity(ctx, Entity{ID: "acme", Name: "Acme"}))
		},
		"move an entity": func(w *world) error {
			return check.Err(w.ns.MoveEntity(ctx, "acme", "gone"))
		},
		"delete an entity":                        deletes("acme"),
		"delete an entity that is only described": deletes("gone"),
		"delete an entity that does not exist":    deletes("nobody"),
		"credit":                                  credit,
		"credit twice with an id":                 twice(credit),
		"credit of a quota that is not there": func(w *world) error {
			return check.Err(once(w).Credit(ctx, "org", "jobs", limiter.Costs{"rpy": 1}))
		},
		"raise twice with an id": twice(raise),
		"end raises": func(w *world) error {
			return cmp.Or(raise(w), w.ns.EndRaises(ctx, "acme", "gpt-4"))
		},
		"reset": reset, "reset of what cannot be read": reset, "reset of many shards that cannot be read": reset,
		"register a namespace": func(w *world) error { return check.Err(w.table.Register(ctx, "new")) },
		"register one that is": func(w *world) error { return check.Err(w.table.Register(ctx, "prod")) },
		"delete a namespace":   func(w *world) error { return w.table.DeleteNamespace(ctx, w.ns.ID()) },
		"recover a namespace": func(w *world) error {
			for ns, err := range w.table.Orphans(ctx) {
				if err == nil && ns.Name == "beta" {
					_, err = w.table.RecoverNamespace(ctx, ns.ID)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		"purge":           func(w *world) error { return check.Err(w.table.PurgeNamespace(ctx, w.ns.ID())) },
		"purge of nobody": func(w *world) error { return check.Err(w.table.PurgeNamespace(ctx, "nobody")) },
	}
}

// changeable is a world in which an operation of that name can be done.
func changeable(t *testing.T, name string) *world {
	w := readable(t)
	w.set(Scope{Resource: "jobs"}, limiter.Quota("rpy", 10, limiter.Daily("")))
	w.split("acme", "gpt-4", 1)
	switch name {
	case "purge":
		w.must(w.table.DeleteNamespace(t.Context(), w.ns.ID()))
	case "reset of what cannot be read":
		w.spoil("acme", 0, item.Item{"rf": item.S("x")})
	case "reset of many shards that cannot be read":
		for k := range 120 {
			it := layout.BucketKey(w.ns.id, "acme", "gpt-4", k).Item()
			it[table.AttrGeneration] = item.S("nonsense")
			w.db.Store(it)
		}
	}
	return w
}

// copy returns a world in which the same is stored.
func (w *world) copy(t *testing.T) *world {
	c := &world{T: t, db: w.db.Snapshot()}
	c.now.Store(w.now.Load())
	c.db.Now, c.db.PageSize = c.now.Load, w.db.PageSize
	opts := w.table.opts
	opts.Now = func() time.Time { return time.UnixMilli(c.now.Load()) }
	var err error
	c.table, err = open(t.Context(), c.db, &opts)
	c.must(err)
	c.ns = &Namespace{table: c.table, calls: c.table.calls, id: w.ns.id, name: w.ns.name}
	return c
}

// everything returns what is stored, an item each, without what each attempt makes anew and counts of zero, and the
// events by what they are about, each once.
func (w *world) everything() (out []string) {
	for _, it := range w.db.Items() {
		if a, err := ledger.DecodeAudit(it); err == nil {
			out = append(out, fmt.Sprintln("event", a.Subject, a.Action, a.Resource))
			continue
		}
		if ns, err := config.DecodeNamespace(it); err == nil {
			ns.ID = ""
			out = append(out, fmt.Sprintln("namespace", ns))
			continue
		}
		it = maps.Clone(it)
		for _, attr := range []string{"config_version", "writer", table.AttrGeneration} {
			delete(it, attr)
		}
		if item.KeyOf(it) == layout.EntityConfigsKey(w.ns.ID()) {
			maps.DeleteFunc(it, func(_ string, v item.Value) bool { return item.Equal(v, item.N(0)) })
		}
		out = append(out, string(itemtest.JSON(it)))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// differences returns which items are in one list and not in the other.
func differences(got, want []string) string {
	without := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	}
	more, less := without(got, want), without(want, got)
	if len(more)+len(less) == 0 {
		return ""
	}
	return fmt.Sprintf("stored %s\ninstead of %s", more, less)
}
