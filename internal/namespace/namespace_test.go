package namespace

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

func TestCompatibleVersionsAreShared(t *testing.T) {
	for _, tt := range []struct {
		schema, least string
		ok            bool
	}{
		{"0.9.0", "0.0.0", true}, {"0.10.0", "0.17.0", true}, {"0.8", "", true}, {"v0.9.0", "0.16.9-rc1", true},
		{"1.0.0", "0.0.0", false}, {"1", "", false}, {"", "", false}, {"0.9.0.1", "", false}, {"0.x", "", false},
		{"0.9.0", "0.17.1", false}, {"0.9.0", "1.0.0", false}, {"0.9.0", "0.18", false}, {"0.9.0", "soon", false},
		{"0.9.0", "-1", false}, {"0.9.0", "0.17.-1", false}, {"0.9.0", "0.17.0+build", true},
	} {
		_, err := CheckVersion(config.Version{Schema: tt.schema, ClientMin: tt.least}.Item())
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrVersion) {
			t.Errorf("schema %q, least client %q: %v", tt.schema, tt.least, err)
		}
	}
	for want, v := range map[string]config.Version{
		`limiter: incompatible table: schema_version is "1.2.0", want major version 0`: {Schema: "1.2.0"},
		`limiter: incompatible table: client_min_version is "0.18.0", want at most 0.17.0`: {Schema: "0.9.0",
			ClientMin: "0.18.0"},
	} {
		if _, err := CheckVersion(v.Item()); err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	_, err := CheckVersion(item.Item{"PK": item.S("other"), "SK": item.S("other")})
	if !errors.Is(err, ErrVersion) || !strings.HasPrefix(err.Error(), ErrVersion.Error()+": ") ||
		strings.Contains(err.Error(), "want major version") {
		t.Errorf("a record of another kind: %v", err)
	}
	check.NoError(t, check.Err(CheckVersion(nil)), "no record")
}

// A table that cannot be shared is left as it is, also when its version record
// appears between the look-up and the registration.
func TestIncompatibleTablesAreNotWrittenTo(t *testing.T) {
	db := memdynamo.New(nil)
	db.Store(config.Version{Schema: "1.0.0", ClientMin: "0.0.0"}.Item())
	if err := Register(t.Context(), db, "prod", time.Now()); !errors.Is(err, ErrVersion) || db.Len() != 1 {
		t.Errorf("error is %v with %d items", err, db.Len())
	}
	check.Is(t, check.Err(Find(t.Context(), db, "prod", time.Now())), ErrVersion, "error")
}

// An aggregator of Python before 0.15 is taken out of the version record when a namespace is looked up,
// also one that is not there. A newer one stays, and what cannot be read, for their clients ask for it
// before they store top-ups, soft limits and more. Nothing else is written.
func TestFindTakesOldReleasesOut(t *testing.T) {
	for release, out := range map[string]bool{"0.10.3": true, "v0.9.1": true, "0.14.9": true, "0.15.0": false,
		"0.16.2": false, "0.17.0": false, "0.18.0": false, "0.17.0rc1": false, "0.14.1.dev9+g1": false, "x": false,
		"": false} {
		for _, name := range []string{"prod", "other"} {
			db := memdynamo.New(nil)
			check.Must(t, Register(t.Context(), db, "prod", time.Unix(0, 0)))
			was := config.Version{Schema: "0.9.0", Lambda: release, ClientMin: "0.0.0", UpdatedAt: "then",
				UpdatedBy: "client:x"}
			db.Store(was.Item())
			for i := range 2 {
				db.ResetStats()
				if _, err := Find(t.Context(), db, name, time.Unix(9, 0)); (err == nil) != (name == "prod") {
					t.Errorf("%s: %v", name, err)
				}
				want, writes := was, 0
				if out {
					want = config.Version{Schema: "0.9.0", ClientMin: "0.0.0", UpdatedAt: "1970-01-01T00:00:09Z"}
					writes = 1 - i
				}
				v, err := config.DecodeVersion(db.Item(layout.VersionKey()))
				if err != nil || v != want || db.Stats().Updates != writes {
					t.Errorf("%q, %s: %+v by %d writes, %v, want %+v", release, name, v, db.Stats().Updates, err, want)
				}
			}
		}
	}
}

// A namespace that was registered by anybody a moment ago is found, with all that is stored of it.
func TestFindSeesWhatWasRegistered(t *testing.T) {
	db := memdynamo.New(nil)
	check.Must(t, Register(t.Context(), db, "prod", time.Unix(0, 0)))
	db.SetHook(func(op memdynamo.Op) (bool, error) {
		if !op.Consistent {
			t.Errorf("%s may miss a recent write", op.Name)
		}
		return true, nil
	})
	ns, err := Find(t.Context(), db, "prod", time.Unix(9, 0))
	want := config.Namespace{ID: ns.ID, Name: "prod", Status: "active", CreatedAt: "1970-01-01T00:00:00Z"}
	if err != nil || ns != want || len(ns.ID) != 11 {
		t.Errorf("found %+v, %v, want %+v", ns, err, want)
	}
}

// No answer is told as that; a record that cannot be read, or is not there, by what is wrong.
func TestMissingNamespacesNameTheirCause(t *testing.T) {
	db := memdynamo.New(nil)
	const missing = `limiter: no such namespace: "prod" is not registered`
	if _, err := Find(t.Context(), db, "prod", time.Now()); !errors.Is(err, ErrMissing) || err.Error() != missing {
		t.Errorf("%v, want %s", err, missing)
	}
	const unreadable = `limiter: incompatible table: `
	for _, id := range []string{"a/b", "_"} {
		db.Store(config.Namespace{ID: id, Name: "prod"}.Forward())
		if _, err := Find(t.Context(), db, "prod", time.Now()); !errors.Is(err, ErrVersion) ||
			!strings.HasPrefix(err.Error(), unreadable) || !strings.Contains(err.Error(), strconv.Quote(id)) {
			t.Errorf("%v", err)
		}
	}
	for _, silent := range []memdynamo.OpName{memdynamo.BatchGetItem, memdynamo.PutItem, memdynamo.TransactWriteItems} {
		db.SetHook(func(op memdynamo.Op) (bool, error) {
			if op.Name == silent {
				return false, memdynamo.Fail(store.Throttled)
			}
			return true, nil
		})
		err := Register(t.Context(), db, "other", time.Now())
		if silent == memdynamo.BatchGetItem {
			_, err = Find(t.Context(), db, "other", time.Now())
		}
		if f, ok := errors.AsType[*store.Failure](err); !ok || f.Kind != store.Throttled {
			t.Errorf("%s without an answer: %v", silent, err)
		}
	}
}

// Only a namespace that is registered under its id, and not deleted, is active.
func TestActiveNamespaces(t *testing.T) {
	ns := config.Namespace{ID: "abc", Name: "prod"}
	deleted, purging, odd := ns, ns, ns
	deleted.Status, purging.Status, odd.ID = config.NamespaceDeleted, config.NamespacePurging, "a/b"
	check.NoError(t, Active(ns.Reverse()))
	for want, it := range map[string]item.Item{
		"limiter: no such namespace: its id is not registered any more": nil,
		`limiter: no such namespace: "prod" is deleted`:                 deleted.Reverse(),
		`limiter: no such namespace: "prod" is purging`:                 purging.Reverse(),
	} {
		if err := Active(it); !errors.Is(err, ErrMissing) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := Active(odd.Reverse()); !errors.Is(err, ErrMissing) ||
		!strings.HasPrefix(err.Error(), ErrMissing.Error()+": ") || !strings.Contains(err.Error(), `"a/b"`) {
		t.Error(err)
	}
}

// A new version record names the release of Python that our aggregator is as good as: its clients store
// all that they have, and none pushes its code (rule 11). One that is there is not touched.
func TestTheVersionRecordIsStampedOnce(t *testing.T) {
	db := memdynamo.New(nil)
	for range 2 {
		check.Must(t, Register(t.Context(), db, "prod", time.Unix(0, 0)))
	}
	want := config.Version{Schema: "0.9.0", Lambda: "0.17.0", ClientMin: "0.0.0",
		UpdatedAt: "1970-01-01T00:00:00Z"}.Item()
	if got := db.Item(layout.VersionKey()); !item.EqualItems(got, want) {
		t.Errorf("version record %s", itemtest.JSON(got))
	}
	check.Equal(t, db.Len(), 3, "items, want the version and the namespace both ways")
	foreign := config.Version{Schema: "0.10.0", Lambda: "0.17.0", ClientMin: "0.0.0"}.Item()
	db.Store(foreign)
	if err := Register(t.Context(), db, "other", time.Unix(0, 0)); err != nil ||
		!item.EqualItems(db.Item(layout.VersionKey()), foreign) {
		t.Errorf("error %v, version record %s", err, itemtest.JSON(db.Item(layout.VersionKey())))
	}
}

func TestNamespaceNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"default": true, "a b/c": true, "é": true, strings.Repeat("n", 256): true,
		"": false, "_": false, "a\nb": false, "\xff": false, strings.Repeat("n", 257): false,
	} {
		err := CheckName(name)
		check.Equal(t, err == nil, ok, "%q: %v", name, err)
	}
}

func TestIdsNeverBeginWithADash(t *testing.T) {
	seen := map[string]bool{}
	for range 5000 {
		id := newID()
		if len(id) != 11 || id[0] == '-' || seen[id] || strings.Contains(id, "/") {
			t.Fatalf("id %q", id)
		}
		seen[id] = true
	}
}
