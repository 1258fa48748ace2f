package admin

import (
	"context"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// count takes scopes out of the counts that are no longer stored, or were not after all.
func (a *application) count(ctx context.Context, after []item.Write) {
	if len(after) == 0 {
		return
	}
	if err := a.n.transact(ctx, merged(after)...); err != nil {
		a.miscounted = fail(err, "count what is stored")
		a.stop(a.miscounted)
	}
}

// tidy takes resources out of the counts that are counted no more.
func (a *application) tidy(ctx context.Context, orders []order) {
	forgotten := map[string]bool{}
	for _, o := range orders {
		s := a.p.Steps[o.step]
		if o.after == nil || forgotten[s.want.Resource] {
			continue
		}
		forgotten[s.want.Resource] = true
		a.n.tidy(ctx, s.Scope, stored{item: s.item}, s.want)
	}
}

// merged returns one update for each registry.
func merged(updates []item.Write) []item.Write {
	byKey := map[item.Key]item.Update{}
	for _, w := range updates {
		u := w.(item.Update)
		into, ok := byKey[u.Key]
		if !ok {
			byKey[u.Key] = u
			continue
		}
		into.Add = sums(into.Add, u.Add)
		into.Del = sums(into.Del, u.Del)
		byKey[u.Key] = into
	}
	var out []item.Write
	for _, u := range byKey {
		out = append(out, u)
	}
	return out
}

// sums adds the attributes of more to all: numbers and sets of strings, as an update does.
func sums(all, more []item.Attr) []item.Attr {
	at := item.Item{}
	for _, a := range slices.Concat(all, more) {
		next, _, err := item.Update{Key: item.Key{PK: "x", SK: "x"}, Add: []item.Attr{a}}.Apply(at)
		if err != nil {
			panic("bug: " + err.Error())
		}
		at = next
	}
	var out []item.Attr
	for _, name := range slices.Sorted(maps.Keys(at)) {
		out = append(out, item.Attr{Name: name, Value: at[name]})
	}
	return out
}
