package inforce

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/decide"
	"github.com/zeroae/zae-limiter-go/internal/desk"
	"github.com/zeroae/zae-limiter-go/internal/namespace"
	"github.com/zeroae/zae-limiter-go/internal/validate"
)

var errBad, errGone = errors.New("bad"), errors.New("gone")

func perMinute(name string, n int64) bucket.Limit {
	return validate.Limit[string]{Name: name, Capacity: n, Refill: n, Period: time.Minute}.Stored()
}

// newDesks returns desks without a table.
func newDesks() *desk.Desks { return desk.New(nil, desk.Options{Size: 100, Notes: Notes}) }

// anyRecords returns random records: some levels have none, some are unreadable, and some have
// limits.
func anyRecords(r *rand.Rand, now, oldest int64) (recs [records]cached) {
	yes, no := true, false
	for i := range recs {
		if r.IntN(12) == 0 {
			continue // never read
		}
		c := cached{found: r.IntN(4) > 0, at: now - r.Int64N(oldest) + 50}
		switch {
		case i == recNamespace:
			if c.found && r.IntN(8) == 0 {
				c.gone = errGone
			}
		case i == recMeta:
			c.entity.Cascade, c.entity.Parent = r.IntN(2) == 0, []string{"", "org"}[r.IntN(2)]
		default:
			if r.IntN(3) == 0 {
				c.config.Limits = []bucket.Limit{perMinute("rpm", int64(i+1))}
			}
			c.config.Access.Switch = []config.Switch{config.Undecided, config.Undecided, config.Undecided, config.SwitchedOff,
				config.Bypassed, config.SwitchedOn}[r.IntN(6)]
			c.config.Access.Cascade = []*bool{nil, nil, &yes, &no}[r.IntN(4)]
			c.config.OnUnavailable = []string{"", "allow", "block"}[r.IntN(3)]
		}
		if i != recNamespace && r.IntN(8) == 0 {
			c.bad = fmt.Errorf("%w: %d", errBad, i)
		}
		recs[i] = c
	}
	return recs
}

// The most specific record with a setting decides, for limits, switches and cascades separately. If
// that record is unreadable, the result is an error.
func TestTheMostSpecificRecordDecides(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	outcomes := map[string]int{}
	for n := range 20_000 {
		recs := anyRecords(r, 1_000_000, 5000)
		var own []bucket.Limit
		if r.IntN(3) == 0 {
			own = []bucket.Limit{perMinute("own", 7)}
		}
		got, err := combine(recs, own)
		want, wantErr := Config{}, error(nil)
		meta := recs[recMeta]
		on, cascade := config.Undecided, meta.entity.Cascade
		for _, i := range []int{recResource, recEntityDefault, recEntity} { // the last one wins
			if a := recs[i].config.Access; a.Switch != config.Undecided {
				on = a.Switch
			}
			if a := recs[i].config.Access; a.Cascade != nil {
				cascade = *a.Cascade
			}
		}
		want.Exists, want.Parent = meta.found, meta.entity.Parent
		want.Cascade, want.Bypass = cascade && meta.entity.Parent != "", on == config.Bypassed
		want.Limits = own
		switch {
		case !recs[recNamespace].found:
			wantErr = namespace.ErrMissing
		case recs[recNamespace].gone != nil:
			wantErr = errGone
		case meta.bad != nil:
			wantErr = meta.bad
		case on == config.SwitchedOff:
			wantErr = ErrDisabled
		case own == nil && !want.Bypass:
			wantErr = errNoLimits
			for i := range recMeta {
				want.Read = max(want.Read, recs[i].at)
				if wantErr = recs[i].bad; wantErr != nil {
					break
				}
				if want.Limits = recs[i].config.Limits; want.Limits != nil {
					want.Lasts = i == recEntity
					break
				}
				wantErr = errNoLimits
			}
		}
		if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
			t.Fatalf("run %d: %v, want %v", n, err, wantErr)
		}
		outcomes[fmt.Sprint(wantErr == nil, want.Bypass, want.Cascade)]++
		want.Policy = recs[recSystem].config.OnUnavailable
		check.MustEqual(t, got.Policy, want.Policy, "run %d: policy", n)
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("run %d: %+v, want %+v", n, got, want)
		}
	}
	if len(outcomes) < 5 {
		t.Errorf("%v: the random records show little", outcomes)
	}
}

// A record is read again when its time is over. The time is at most a few seconds if no level has
// limits, or if the record is unreadable. An unreadable record that decides is read again at once.
func TestExpiredRecordsAreReadAgain(t *testing.T) {
	const now = 1_000_000
	r := rand.New(rand.NewPCG(6, 2))
	n := decide.Name{Entity: "acme", Resource: "gpt-4"}
	keys := keysOf(n)
	for run := range 10_000 {
		ttl := []int64{5000, 2000, -1}[r.IntN(3)]
		recs, given := anyRecords(r, now, 10_000), r.IntN(2) == 0
		c := New(newDesks(), ttl)
		limited, until := given, int64(bucket.Never)
		for i, k := range keys {
			if recs[i].at != 0 {
				c.cache.Add(k, recs[i])
			} else {
				recs[i] = cached{}
			}
			limited = limited || recs[i].config.Limits != nil
		}
		var want []int
		decided := given // by limits of a more specific level
		for i, rec := range recs {
			lives := ttl
			if !limited && i < recMeta || rec.bad != nil {
				lives = min(ttl, NoLimitsFor)
			}
			if rec.bad != nil && (i == recMeta || !decided) {
				lives = 0
			}
			decided = decided || rec.config.Limits != nil
			if rec.at == 0 || rec.at > now || now >= rec.at+lives {
				want = append(want, i)
			}
			until = min(until, rec.at+lives)
		}
		got, missing, end, _ := c.cached(keys, given, now)
		if !slices.Equal(missing, want) || fmt.Sprint(got) != fmt.Sprint(recs) || len(want) == 0 && end != until {
			t.Fatalf("run %d: %v are read again by %d, want %v by %d, of %+v", run, missing, end, want, until, recs)
		}
	}
}

// While the table does not answer, the last reads decide. If the namespace's record was evicted,
// the namespace exists as it was opened. Limits that were never read are unknown.
func TestLastReadConfigurationDecidesInAnOutage(t *testing.T) {
	n := decide.Name{Entity: "acme", Resource: "gpt-4"}
	keys := keysOf(n)
	own := &Own{Limits: []bucket.Limit{perMinute("rpm", 10)}}
	for name, c := range map[string]struct {
		change func(recs *[records]cached)
		own    *Own
		err    error
	}{
		"all":          {func(*[records]cached) {}, nil, nil},
		"no namespace": {func(recs *[records]cached) { recs[recNamespace] = cached{} }, nil, nil},
		"it was gone":  {func(recs *[records]cached) { recs[recNamespace].gone = errGone }, nil, errGone},
		"the namespace did not exist": {func(recs *[records]cached) { recs[recNamespace].found = false }, nil,
			namespace.ErrMissing},
		"no metadata":                {func(recs *[records]cached) { recs[recMeta] = cached{} }, nil, nil},
		"one level":                  {func(recs *[records]cached) { recs[recEntity] = cached{} }, nil, errNoLimits},
		"one level, not needed":      {func(recs *[records]cached) { recs[recEntity] = cached{} }, own, nil},
		"the level with limits":      {func(recs *[records]cached) { recs[recSystem] = cached{} }, nil, errNoLimits},
		"only limits of the request": {func(recs *[records]cached) { *recs = [records]cached{} }, own, nil},
	} {
		var recs [records]cached
		for i := range recs {
			recs[i] = cached{found: true, at: 5}
		}
		recs[recSystem].config.Limits = []bucket.Limit{perMinute("tpm", 1000)}
		recs[recSystem].config.OnUnavailable = "allow"
		c.change(&recs)
		cfgs := New(newDesks(), 1)
		for i, k := range keys {
			if recs[i].at != 0 {
				cfgs.cache.Add(k, recs[i])
			}
		}
		got, err := cfgs.Resolve(t.Context(), n, c.own, 1_000_000, false)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
		check.Equal(t, got.Policy, recs[recSystem].config.OnUnavailable, "%s: policy", name)
		want := recs[recSystem].config.Limits
		if c.own != nil {
			want = own.Limits
		}
		if err == nil && !slices.Equal(got.Limits, want) {
			t.Errorf("%s: %v, want %v", name, got.Limits, want)
		}
	}
}

// After a read that hung, old configuration serves for a second. Setting the clock back ends that.
func TestOldConfigurationServesForASecond(t *testing.T) {
	const hung = 1_000_000
	c := New(newDesks(), 1)
	if c.quiet(5) {
		t.Error("no read hung")
	}
	c.hungAt = hung
	for now, want := range map[int64]bool{
		hung - 1: false, hung: true, hung + quietFor - 1: true, hung + quietFor: false,
	} {
		check.Equal(t, c.quiet(now), want, "after %d ms", now-hung)
	}
}

// Configuration taken from the cache before it was dropped is not kept. Neither is configuration
// that has expired, or that belongs to other limits of requests.
func TestDroppedConfigurationIsNotKept(t *testing.T) {
	n := decide.Name{Entity: "acme", Resource: "gpt-4"}
	one, other := &Own{}, &Own{}
	for name, c := range map[string]struct {
		kept  kept
		keeps bool
	}{
		"stored":    {kept{from: 5, until: 10, forgotten: 1}, true},
		"brought":   {kept{own: one, from: 5, until: 10, forgotten: 1}, true},
		"dropped":   {kept{from: 5, until: 10}, false},
		"over":      {kept{from: 5, until: 5, forgotten: 1}, false},
		"never was": {kept{from: 5, until: 4, forgotten: 1}, false},
	} {
		cfgs := New(newDesks(), 1)
		cfgs.Forget()
		k := cfgs.desks.Of(n)
		c.kept.cfg.Limits = []bucket.Limit{perMinute("rpm", 10)}
		keptAt(k).Store(&c.kept)
		for now, in := range map[int64]bool{4: false, 5: true, 9: true, 10: false} {
			for _, own := range []*Own{nil, one, other} {
				cfg, ok := cfgs.Ready(k, own, now)
				if ok != (c.keeps && in && own == c.kept.own) || ok && !slices.Equal(cfg.Limits, c.kept.cfg.Limits) {
					t.Errorf("%s: ready at %d: %v, %v", name, now, ok, cfg.Limits)
				}
			}
		}
		if _, ok := cfgs.Ready(nil, nil, 5); ok {
			t.Error("ready without a desk")
		}
	}
}
