package admin

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// access returns an error unless that is stored at a scope.
func (w *world) access(at Scope, want Access) error {
	if got := w.says(at); got != want.String()+" inherited" {
		return fmt.Errorf("%s says %s, want %s", at, got, want)
	}
	return nil
}

// stamped returns an error unless the buckets of acme on gpt-4 tell that it is disabled, or
// that it is not.
func (w *world) stamped(want bool) error {
	shards, err := w.ns.shards(w.Context(), "acme", "gpt-4")
	if err == nil && len(shards) == 0 {
		err = errors.New("no bucket")
	}
	for _, b := range shards {
		if got := w.db.Item(b.Key())["disabled"]; (got != nil) != want || want && !item.Equal(got, item.Bool(true)) {
			err = errors.Join(err, fmt.Errorf("shard %d has the stamp %v, want one: %v", b.State.Shard, got, want))
		}
	}
	return err
}

// served reports whether a request is, which else is denied because it is disabled.
func (w *world) served(entity, resource string) bool {
	w.Helper()
	_, err := w.limiter().Acquire(context.Background(),
		limiter.Request{Entity: entity, Resource: resource, Costs: limiter.Costs{"rpm": 1}})
	if err != nil && !errors.Is(err, limiter.ErrDisabled) {
		w.Fatal(err)
	}
	return err == nil
}

// A resource is disabled for all but those who are enabled; each bucket is told what holds
// for it. Limits stay, what is stored already is recorded once, and nothing is left in the end.
func TestDisableAndEnable(t *testing.T) {
	w := newWorld(t)
	ctx, gpt, acme := t.Context(), Scope{Resource: "gpt-4"}, Scope{Entity: "acme"}
	w.set(Scope{}, limiter.PerMinute("rpm", 1000))
	w.split("acme", "gpt-4", 2)
	w.take("beta", "gpt-4", limiter.Costs{"rpm": 1})
	switchTo := func(at Scope, a Access, buckets int) {
		t.Helper()
		for range 2 {
			got, err := w.ns.SetAccess(ctx, at, a)
			w.must(err)
			check.MustEqual(t, got, Reached{Buckets: buckets, Changed: buckets}, "%s of %s", a, at)
		}
		w.must(w.access(at, a))
	}
	serves := func(acme, beta bool) {
		t.Helper()
		w.must(w.stamped(!acme))
		check.Equal(t, w.served("acme", "gpt-4"), acme, "acme is served")
		check.Equal(t, w.served("beta", "gpt-4"), beta, "beta is served")
	}
	switchTo(gpt, AccessDisabled, 2)
	serves(false, false)
	w.set(gpt, limiter.PerMinute("rpm", 500)) // does not enable it
	serves(false, false)
	switchTo(acme, AccessEnabled, 1)
	serves(true, false)
	switchTo(Scope{"acme", "gpt-4"}, AccessDisabled, 1)
	serves(false, false)
	switchTo(gpt, AccessInherited, 2)
	serves(false, true)
	switchTo(acme, AccessInherited, 1)
	switchTo(Scope{"acme", "gpt-4"}, AccessInherited, 1)
	serves(true, true)
	check.Equal(t, len(collect(t, w.ns.Configs(ctx, acme))), 0, "left")
	check.Slices(t, w.config(gpt).Limits, []limiter.Limit{limiter.PerMinute("rpm", 500)}, "limits")
	w.must(countEvents(w, gpt, "limits_set", 3))
	w.must(countEvents(w, acme, "limits_set", 4))
	for i, want := range []any{nil, true} {
		check.Equal(t, w.events(gpt)[2*i].Details["disabled"], want, "event")
	}
	w.hasNoOrphans()
}

// What Python clients have stored besides is kept: limits that cannot be read, and a bypass,
// which is shown, and ends when something else is stored.
func TestDisableKeepsWhatOthersStore(t *testing.T) {
	w := newWorld(t)
	gpt := Scope{Resource: "gpt-4"}
	key := layout.ResourceConfigKey(w.ns.id, "gpt-4")
	w.set(gpt, rpm10)
	it := w.db.Item(key)
	it["disabled"], it["l_rpm_cp"], it["more"] = item.S("bypass"), item.S("many"), item.N(7)
	w.must(check.Err(w.db.Write(t.Context(), item.Put{Item: it})))
	w.must(w.access(gpt, AccessBypassed))
	for _, a := range []Access{AccessDisabled, AccessEnabled, AccessInherited} {
		_, err := w.ns.SetAccess(t.Context(), gpt, a)
		w.must(errors.Join(err, w.access(gpt, a)))
	}
	delete(it, "disabled")
	it["config_version"] = item.N(4) // it was changed three times
	check.Deep(t, w.db.Item(key), it, "left")
}

// What a scope says of access is part of what is stored there, also where it has no limits; what
// the scopes say together is in force. A manifest that is applied leaves it alone.
func TestAccessIsListed(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{Resource: "gpt-4"}, rpm10)
	for at, a := range map[Scope]Access{
		{Resource: "gpt-4"}: AccessDisabled, {Entity: "acme"}: AccessEnabled,
		{Entity: "beta", Resource: "gpt-4"}: AccessDisabled,
	} {
		w.must(check.Err(w.ns.SetAccess(t.Context(), at, a)))
		check.Equal(t, w.config(at).Access, a, "%s", at)
	}
	var got []string
	for c, err := range w.ns.Configs(t.Context(), Scope{}) {
		w.must(err)
		got = append(got, fmt.Sprintf("%s %s %d", c.Scope, c.Access, len(c.Limits)))
	}
	check.Slices(t, got, []string{"*/gpt-4 disabled 1", "acme/* enabled 0", "beta/gpt-4 disabled 0"}, "listed")
	for at, want := range map[Scope]Access{{"acme", "gpt-4"}: AccessEnabled, {"beta", "gpt-4"}: AccessDisabled,
		{"other", "gpt-4"}: AccessDisabled, {"other", "free"}: AccessInherited} {
		r, err := w.ns.Resolve(t.Context(), at.Entity, at.Resource)
		w.must(err)
		check.Equal(t, r.Access, want, "%s", at)
	}
	w.apply(Manifest{Namespace: "prod", Scopes: []Config{scope("", "gpt-4", tpm500)}})
	c := w.config(Scope{Resource: "gpt-4"})
	check.Equal(t, c.Access, AccessDisabled, "after a manifest")
	check.Equal(t, c.Limits[0], tpm500, "after a manifest")
}

// A bucket that goes while it is told has been told.
func TestBucketGoesWhileItIsStamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.set(Scope{}, rpm10)
		w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
		key := w.bucket("acme", "gpt-4", 0).Key()
		w.db.SetHook(func(op memdynamo.Op) (bool, error) {
			if op.Name == memdynamo.UpdateItem && op.Writes[0].Target() == key {
				w.db.Delete(key)
			}
			return true, nil
		})
		begin := time.Now()
		n, err := w.ns.SetAccess(t.Context(), Scope{Resource: "gpt-4"}, AccessDisabled)
		w.must(err)
		if n.Buckets != 1 || w.db.Item(key) != nil || !time.Now().After(begin) {
			t.Errorf("%+v after %s, left %v", n, time.Since(begin), w.db.Item(key))
		}
	})
}

// One that comes back meanwhile, as a client makes it that knows nothing yet, is told too.
func TestBucketComesBackWhileItIsStamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.set(Scope{}, rpm10)
		w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
		key := w.bucket("acme", "gpt-4", 0).Key()
		it, went := w.db.Item(key), false
		w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
			if op.Name == memdynamo.UpdateItem && op.Writes[0].Target() == key && !went {
				went = true
				w.db.Delete(key)
			} else if op.Name == memdynamo.BatchGetItem && w.db.Item(key) == nil {
				w.db.Store(it)
			}
			return true, nil
		})
		w.must(check.Err(w.ns.SetAccess(t.Context(), Scope{Resource: "gpt-4"}, AccessDisabled)))
		w.db.SetHook(nil)
		w.must(w.stamped(true))
	})
}

// says returns what a scope says besides limits, also where these cannot be read.
func (w *world) says(at Scope) string {
	w.Helper()
	c, err := w.ns.Config(w.Context(), at)
	if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrConfig) {
		w.must(err)
	}
	return fmt.Sprint(c.Access, " ", c.Cascade)
}

// switches has an operator say something of a scope.
func (w *world) switches(at Scope, a Access) {
	w.Helper()
	w.must(check.Err(w.ns.SetAccess(w.Context(), at, a)))
}

// eventsAt returns the events about a scope, the newest first.
func (w *world) eventsAt(at Scope) []Event {
	w.Helper()
	if at.Entity != "" {
		at.Resource = ""
	}
	return w.events(at)
}

// What a manifest says of a scope besides its limits is stored and obeyed, and taken back when it is
// no longer declared. What an operator has stored stays.
func TestAccessIsDeclared(t *testing.T) {
	pair, entity, resource := Scope{"acme", "gpt-4"}, Scope{Entity: "acme"}, Scope{Resource: "gpt-4"}
	for _, at := range []Scope{pair, entity, resource} {
		for _, limits := range []bool{false, true} {
			w := newWorld(t)
			w.set(Scope{}, rpm10)
			m := Manifest{Namespace: "prod"}
			if limits {
				m.set(scope(at.Entity, at.Resource, rpm20))
			}
			with := func(a Access, c Cascade) Manifest {
				says := Config{Scope: at, Access: a, Cascade: c}
				if limits {
					says.Limits = []limiter.Limit{rpm20}
				}
				return Manifest{Namespace: "prod", Scopes: []Config{says}}
			}
			acquire := func(want error) {
				t.Helper()
				_, err := acquire(w.limiter(), limiter.Costs{"rpm": 11})
				if !errors.Is(err, want) || (want == nil) != (err == nil) {
					t.Errorf("%s, limits %v: acquire: %v, want %v", at, limits, err, want)
				}
			}
			w.apply(with(AccessDisabled, CascadeOn))
			acquire(limiter.ErrDisabled)
			check.Equal(t, w.says(at), "disabled on", "%s says", at)
			d := w.eventsAt(at)[0].Details
			if d["disabled"] != true || d["cascade"] != true || (d["limits"] != nil) != limits {
				t.Errorf("the event has %v", d)
			}
			w.apply(with(AccessBypassed, CascadeOff))
			acquire(nil)
			check.Equal(t, w.says(at), "bypassed off", "%s says", at)
			w.apply(m)
			check.Equal(t, w.says(at), "inherited inherited", "%s says when it is no longer declared", at)
			if it := w.db.Item(w.ns.config(at).Key()); (it != nil) != limits || it["declared"] != nil {
				t.Errorf("left %v", it)
			}
			w.switches(at, AccessDisabled)
			w.apply(m)
			w.apply(Manifest{Namespace: "prod"})
			check.Equal(t, w.says(at), "disabled inherited", "an operator has switched %s off, and it says", at)
			w.apply(with(AccessDisabled, CascadeOn)) // now it is the manifest's
			w.switches(at, AccessBypassed)           // and an operator's again
			w.apply(m)
			check.Equal(t, w.says(at), "bypassed inherited", "an operator has bypassed %s, and it says", at)
			w.changesNothing(m)
			w.hasNoOrphans()
		}
	}
}

// Buckets that exist learn what a manifest says of their scope, as Python clients read it there.
func TestBucketsLearnWhatIsDeclared(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "acme", Parent: "org"})
	w.split("acme", "gpt-4", 1)
	stamps := func() string {
		var out []string
		for k := range 2 {
			it := w.db.Item(layout.BucketKey(w.ns.id, "acme", "gpt-4", k))
			until := "0"
			if n, ok := it["bypass"].(*types.AttributeValueMemberN); ok {
				until = n.Value
			}
			out = append(out, fmt.Sprint(it["disabled"] != nil, " ", until, " ", w.bucket("acme", "gpt-4", k).Cascade))
		}
		check.Equal(t, out[0], out[1], "the shards have %q", out)
		return out[0]
	}
	at := Scope{Resource: "gpt-4"}
	for _, c := range []struct {
		a    Access
		c    Cascade
		want string
	}{
		{AccessDisabled, CascadeOn, "true 0 true"},
		{AccessBypassed, CascadeOff, fmt.Sprint("false ", w.now.Load()+60_000, " false")},
		{AccessEnabled, CascadeOn, "false 0 true"},
	} {
		w.apply(Manifest{Namespace: "prod", Scopes: []Config{{Scope: at, Access: c.a, Cascade: c.c}}})
		check.Equal(t, stamps(), c.want, "%v, %v: stamps", c.a, c.c)
	}
	w.apply(Manifest{Namespace: "prod"})
	check.Equal(t, stamps(), "false 0 false", "no longer declared: stamps")
}

// A policy is stored in the form of Python 0.17, decides before the entity itself, and is recorded once.
func TestCascadesAreStored(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	w.create(Entity{ID: "org"})
	w.create(Entity{ID: "acme", Parent: "org", Cascade: true})
	level := func(entity string) int64 { return w.peek(entity, "gpt-4")[0].Levels[0].Remaining }
	at := Scope{Entity: "acme", Resource: "gpt-4"}
	for _, c := range []struct {
		to     Cascade
		stored item.Value
		org    int64
	}{{CascadeInherited, nil, 9}, {CascadeOff, item.Bool(false), 9}, {CascadeOn, item.Bool(true), 8},
		{CascadeInherited, nil, 7}} {
		events := len(w.eventsAt(at))
		for range 2 {
			w.must(check.Err(w.ns.SetCascade(t.Context(), at, c.to)))
		}
		it := w.db.Item(w.ns.config(at).Key())
		check.Deep(t, it["cascade"], c.stored, "%v: stored", c.to)
		if n := len(w.eventsAt(at)) - events; c.org != 9 && n != 1 || n > 1 {
			t.Errorf("%v is recorded %d times", c.to, n)
		}
		w.take("acme", "gpt-4", limiter.Costs{"rpm": 1})
		check.Equal(t, level("org"), c.org, "%v: the parent has left", c.to)
		r, err := w.ns.Resolve(t.Context(), "acme", "gpt-4")
		w.must(err)
		check.Equal(t, r.Cascade, c.to, "resolved")
	}
}

// A bucket is not marked as one that charges a parent, where its entity has none.
func TestACascadePolicyWithoutAParent(t *testing.T) {
	w := newWorld(t)
	w.set(Scope{}, rpm10)
	for _, e := range []Entity{{ID: "org"}, {ID: "acme", Parent: "org"}, {ID: "alone"}} {
		w.create(e)
	}
	for _, id := range []string{"acme", "alone", "unknown"} {
		w.take(id, "gpt-4", limiter.Costs{"rpm": 1})
	}
	w.must(check.Err(w.ns.SetCascade(t.Context(), Scope{Resource: "gpt-4"}, CascadeOn)))
	for id, parent := range map[string]string{"acme": "org", "alone": "", "unknown": ""} {
		b := w.bucket(id, "gpt-4", 0)
		check.Equal(t, b.Cascade, parent != "", "%s: cascade", id)
		check.Equal(t, b.Parent, parent, "%s: parent", id)
	}
}
