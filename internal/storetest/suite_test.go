package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// lie is a way in which a table breaks its promise in one call.
type lie string

const (
	forgets  lie = "answers, and does nothing"
	spoils   lie = "does more"
	misleads lie = "tells another item"
	turns    lie = "swaps done and refused"
	fails    lie = "fails in another way"
	drops    lie = "leaves out an item"
)

// lies are the possible lies about a call, by its kind and how it ends.
var lies = map[string][]lie{
	"Write done": {forgets, spoils, misleads, turns}, "Write refused": {spoils, misleads, turns, fails},
	"Write failed": {spoils, turns, fails}, "Transact done": {forgets, spoils, turns},
	"Transact refused": {spoils, misleads, turns, fails, drops}, "Transact failed": {spoils, turns, fails},
	"Read done": {misleads, drops}, "Read failed": {turns, fails},
	"List done": {forgets, misleads, drops}, "List failed": {turns, fails},
	"Remove done": {forgets, fails}, "Remove failed": {turns, fails},
}

// call is a call of the suite.
type call struct {
	from string // its place in the suite
	ends string // its kind and how it ends: a key of lies
}

// liar is the twin, except that it lies once.
type liar struct {
	*memdynamo.DB
	lie   lie
	at    int // the number of the call that it lies about, from 1
	calls []call
	lied  bool
}

// noted records how an honest call ends.
func (l *liar) noted(err error) error {
	_, refused := errors.AsType[*store.Refused](err)
	_, canceled := errors.AsType[*store.Canceled](err)
	end := " done"
	if refused || canceled {
		end = " refused"
	} else if err != nil {
		end = " failed"
	}
	l.calls[len(l.calls)-1].ends += end
	return err
}

// turn records a call, and reports whether to lie about it.
func (l *liar) turn(what string) bool {
	stack := make([]uintptr, 40)
	frames := runtime.CallersFrames(stack[:runtime.Callers(3, stack)])
	var site []string
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, "/storetest.") && !strings.HasSuffix(f.File, "_test.go") {
			site = append(site, fmt.Sprintf("%s:%d", f.Function[strings.LastIndex(f.Function, ".")+1:], f.Line))
		}
		if !more {
			break
		}
	}
	l.calls = append(l.calls, call{strings.Join(site, " "), what})
	return len(l.calls) == l.at
}

// other returns another item.
func other(k item.Key, it item.Item) item.Item {
	out := maps.Clone(it)
	if out == nil {
		out = k.Item()
	}
	delete(out, "x") // it may leave no room
	out["lie"] = item.N(1)
	return out
}

func (l *liar) put(k item.Key, it item.Item) {
	if l.lied = l.lied || !item.EqualItems(it, l.DB.Item(k)); it == nil {
		l.DB.Delete(k)
	} else {
		l.DB.Store(it)
	}
}

var errLie = &store.Failure{Kind: store.Conflict, Op: "lie", Err: errors.New("lie")}

func (l *liar) Write(ctx context.Context, w item.Write) (item.Item, error) {
	if !l.turn("Write") {
		out, err := l.DB.Write(ctx, w)
		return out, l.noted(err)
	}
	k := w.Target()
	before := l.DB.Item(k)
	out, err := l.DB.Write(ctx, w)
	refused, _ := errors.AsType[*store.Refused](err)
	switch {
	case l.lie == forgets:
		l.put(k, before)
	case l.lie == spoils && (err == nil || before != nil):
		l.put(k, other(k, l.DB.Item(k)))
	case l.lie == misleads && err == nil:
		l.lied = true
		return other(k, out), nil
	case l.lie == misleads && refused != nil:
		l.lied = true
		return nil, &store.Refused{Old: other(k, before)}
	case l.lie == turns && err == nil:
		l.put(k, before)
		l.lied = true
		return nil, &store.Refused{Old: before}
	case l.lie == turns:
		l.lied = true
		return before, nil
	case l.lie == fails:
		l.lied = true
		return nil, errLie
	}
	return out, err
}

func (l *liar) Transact(ctx context.Context, token string, writes []item.Write) error {
	if !l.turn("Transact") {
		return l.noted(l.DB.Transact(ctx, token, writes))
	}
	var before []item.Item
	for _, w := range writes {
		before = append(before, l.DB.Item(w.Target()))
	}
	restore := func() {
		for i, w := range writes {
			l.put(w.Target(), before[i])
		}
	}
	err := l.DB.Transact(ctx, token, writes)
	canceled, _ := errors.AsType[*store.Canceled](err)
	switch {
	case l.lie == forgets:
		restore()
	case l.lie == spoils && len(writes) > 0 && (err == nil || before[0] != nil):
		l.put(writes[0].Target(), other(writes[0].Target(), l.DB.Item(writes[0].Target())))
	case l.lie == misleads && canceled != nil:
		l.lied = true
		for i, r := range canceled.Reasons {
			canceled.Reasons[i] = store.Reason{Refused: r.Refused, Old: other(writes[i].Target(), r.Old)}
		}
	case l.lie == drops && canceled != nil:
		l.lied = true
		canceled.Reasons = canceled.Reasons[1:]
	case l.lie == turns && canceled != nil:
		l.lied = true
		for i, r := range canceled.Reasons {
			canceled.Reasons[i].Refused = !r.Refused
		}
	case l.lie == turns && err == nil:
		restore()
		l.lied = true
		return &store.Canceled{Reasons: make([]store.Reason, len(writes))}
	case l.lie == turns:
		l.lied = true
		return nil
	case l.lie == fails:
		l.lied = true
		return errLie
	}
	return err
}

func (l *liar) Read(ctx context.Context, consistent bool, keys ...item.Key) ([]item.Item, error) {
	if !l.turn("Read") {
		out, err := l.DB.Read(ctx, consistent, keys...)
		return out, l.noted(err)
	}
	out, err := l.DB.Read(ctx, consistent, keys...)
	switch {
	case l.lie == misleads && len(out) > 0:
		l.lied = true
		if out[0] == nil {
			out[0] = keys[0].Item()
		} else {
			out[0] = nil
		}
	case l.lie == drops && len(out) > 0:
		l.lied = true
		out = out[:len(out)-1]
	case l.lie == turns && err != nil:
		l.lied = true
		return make([]item.Item, len(keys)), nil
	case l.lie == fails:
		l.lied = true
		return nil, errLie
	}
	return out, err
}

func (l *liar) List(ctx context.Context, q item.Query) (item.Page, error) {
	if !l.turn("List") {
		page, err := l.DB.List(ctx, q)
		return page, l.noted(err)
	}
	page, err := l.DB.List(ctx, q)
	switch {
	case l.lie == misleads && err == nil:
		l.lied = true
		page.Items = append([]item.Item{{"lie": item.N(1)}}, page.Items[min(1, len(page.Items)):]...)
	case l.lie == drops && len(page.Items) > 0:
		l.lied = true
		page.Items = page.Items[1:]
	case l.lie == forgets && page.Next != nil:
		l.lied = true
		page.Next = nil
	case l.lie == turns && err != nil:
		l.lied = true
		return item.Page{}, nil
	case l.lie == fails:
		l.lied = true
		return item.Page{}, errLie
	}
	return page, err
}

func (l *liar) Remove(ctx context.Context, keys ...item.Key) error {
	if !l.turn("Remove") {
		return l.noted(l.DB.Remove(ctx, keys...))
	}
	var before []item.Item
	for _, k := range keys {
		before = append(before, l.DB.Item(k))
	}
	err := l.DB.Remove(ctx, keys...)
	switch {
	case l.lie == forgets:
		for i, k := range keys {
			l.put(k, before[i])
		}
	case l.lie == turns && err != nil:
		l.lied = true
		return nil
	case l.lie == fails:
		l.lied = true
		return errLie
	}
	return err
}

// passes runs a test, and reports whether it passes.
func passes(run func(*testing.T)) bool {
	all := func(string, string) (bool, error) { return true, nil }
	return testing.RunTests(all, []testing.InternalTest{{Name: "inner", F: run}})
}

// play runs a group on a table, and reports whether the table passes.
func play(g group, l *liar) bool {
	return passes(func(t *testing.T) {
		l.DB = memdynamo.New(nil)
		l.calls, l.lied = nil, false
		g.run(t, l)
	})
}

// quietly hides the output of failing inner tests.
func quietly(t *testing.T) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	check.Must(t, err)
	stdout := os.Stdout
	os.Stdout = null
	t.Cleanup(func() {
		os.Stdout = stdout
		null.Close()
	})
	// A failure within would count as one of this program: no later test would run.
	check.Must(t, flag.Set("test.failfast", "false"))
}

// needless reports whether a lie does no harm: about the old item, after a write that does not
// depend on it.
func needless(c call, how lie) bool {
	return how == misleads && strings.Contains(c.from, " expect:")
}

// The twin passes. With one lie of any kind about any call, it does not.
func TestEveryLieIsNoticed(t *testing.T) {
	quietly(t)
	for _, g := range Deviations(nil).groups() {
		honest, last := &liar{}, map[call]int{}
		if !play(g, honest) {
			t.Fatalf("%s: the twin does not pass", g.name)
		}
		for i, c := range honest.calls {
			last[c] = i + 1
		}
		for c, at := range last {
			for _, how := range lies[c.ends] {
				l := &liar{lie: how, at: at}
				if play(g, l) && l.lied && !needless(c, how) {
					t.Errorf("%s, call %d, %s from %s: not noticed: the table %s", g.name, at, c.ends, c.from, how)
				}
			}
		}
		t.Logf("%s: %d calls, %d different ones", g.name, len(honest.calls), len(last))
	}
}

// A known deviation is allowed, and required: otherwise it must be removed from the list.
func TestDeviationsAreAllowedAndRequired(t *testing.T) {
	quietly(t)
	known := Deviations{"known": "it is old"}
	for _, c := range []struct {
		name   string
		err    error
		passes bool
	}{
		{"other", nil, false}, {"other", &store.Failure{Kind: store.Setup}, true},
		{"other", &store.Failure{Kind: store.Unavailable}, true}, {"other", &store.Failure{Kind: store.Unknown}, false},
		{"known", nil, true}, {"known", &store.Failure{Kind: store.Setup}, false},
		{"known", &store.Failure{Kind: store.Unavailable}, false}, {"known", &store.Failure{Kind: store.Unknown}, true},
	} {
		told := false
		check.Equal(t, passes(func(t *testing.T) { told = known.wantInvalid(t, c.name, c.err) }), c.passes,
			"%s that ends with %v: it passes", c.name, c.err)
		check.Equal(t, told, c.name == "known", "%s is known", c.name)
	}
}

// Run tests every group, each on its own table.
func TestRunTestsEveryGroup(t *testing.T) {
	quietly(t)
	opened := map[string]bool{}
	if !passes(func(t *testing.T) {
		Run(t, nil, func(t *testing.T) store.Lister {
			_, group, _ := strings.Cut(t.Name(), "/")
			opened[group] = true
			return memdynamo.New(nil)
		})
	}) {
		t.Error("the twin does not pass")
	}
	want := []string{"Conditions", "Contexts", "Invalid", "InvalidTransactions", "Life", "Queries", "Reads",
		"Transactions", "Writes"}
	check.Slices(t, slices.Sorted(maps.Keys(opened)), want, "groups")
}
