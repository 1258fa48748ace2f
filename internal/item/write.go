package item

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Write is one conditional write of one item: an [Update], [Put], [Delete] or
// [Check].
type Write interface {
	// Target returns the key of the item.
	Target() Key
	// Apply returns the item after the write (nil if it is deleted), and whether the condition
	// held; if not, after is before. It never modifies before. An error means that DynamoDB would
	// refuse the write as invalid regardless of the stored item.
	Apply(before Item) (after Item, held bool, err error)
}

// Attr is an attribute name with a value.
type Attr struct {
	Name  string
	Value Value
}

// Less sets the attribute Name to the number Value minus the value that the attribute Minus has
// before the update.
type Less struct {
	Name  string
	Value Value
	Minus string
}

// Update changes attributes of an item, creating it if there is none and the condition allows that.
// Each attribute may be changed by one action only.
type Update struct {
	Key         Key
	Set         []Attr   // attribute = value
	SetLess     []Less   // attribute = value - another attribute, which must exist
	SetIfAbsent []Attr   // attribute = value unless it exists
	Add         []Attr   // number: attribute += value (absent counts as 0); string set: union
	Del         []Attr   // string set: difference
	Remove      []string // attribute is removed
	If          Cond     // nil: always
}

// Put replaces a whole item, key included.
type Put struct {
	Item Item
	If   Cond
}

// Delete removes an item. Removing an absent item succeeds, unless If fails.
type Delete struct {
	Key Key
	If  Cond
}

// Check writes nothing. In a transaction, it stops the other writes if If fails.
type Check struct {
	Key Key
	If  Cond
}

// Target implements [Write].
func (u Update) Target() Key { return u.Key }

// Target implements [Write].
func (p Put) Target() Key { return KeyOf(p.Item) }

// Target implements [Write].
func (d Delete) Target() Key { return d.Key }

// Target implements [Write].
func (c Check) Target() Key { return c.Key }

func holds(c Cond, it Item) bool { return c == nil || c.Holds(it) }

// Apply implements [Write].
func (u Update) Apply(before Item) (Item, bool, error) {
	if err := Validate(u); err != nil {
		return before, false, err
	}
	if !holds(u.If, before) {
		return before, false, nil
	}
	after := maps.Clone(before)
	if after == nil {
		after = u.Key.Item()
	}
	for _, a := range u.Set {
		after[a.Name] = a.Value
	}
	for _, l := range u.SetLess {
		v, err := difference(l, before[l.Minus])
		if err != nil {
			return before, false, err
		}
		after[l.Name] = v
	}
	for _, a := range u.SetIfAbsent {
		if _, ok := after[a.Name]; !ok {
			after[a.Name] = a.Value
		}
	}
	for _, a := range u.Add {
		v, err := added(after[a.Name], a)
		if err != nil {
			return before, false, err
		}
		after[a.Name] = v
	}
	for _, a := range u.Del {
		if err := deleteFromSet(after, a); err != nil {
			return before, false, err
		}
	}
	for _, a := range u.Remove {
		delete(after, a)
	}
	if n := Size(after); n > MaxItemSize {
		return before, false, fmt.Errorf("item of %d bytes after the update, at most %d are accepted", n, MaxItemSize)
	}
	return after, true, nil
}

func difference(l Less, minus Value) (Value, error) {
	n, ok := minus.(*types.AttributeValueMemberN)
	if !ok {
		return nil, fmt.Errorf("attribute %q, to subtract, is no number of the item", l.Minus)
	}
	negated, negative := strings.CutPrefix(n.Value, "-")
	if !negative {
		negated = "-" + negated
	}
	v, ok := sum(l.Value, &types.AttributeValueMemberN{Value: negated})
	if !ok {
		return nil, fmt.Errorf("attribute %q: the difference is none that can be stored", l.Name)
	}
	return v, nil
}

// added adds a number or a string set, as Validate requires.
func added(old Value, a Attr) (Value, error) {
	add, isSet := a.Value.(*types.AttributeValueMemberSS)
	switch have, ok := old.(*types.AttributeValueMemberSS); {
	case isSet && ok:
		all := slices.Sorted(slices.Values(slices.Concat(add.Value, have.Value)))
		return SS(slices.Compact(all)...), nil
	case isSet && old != nil:
		return nil, fmt.Errorf("attribute %q is no string set, ADD needs one", a.Name)
	case old == nil:
		return a.Value, nil
	}
	s, ok := sum(old, a.Value)
	if !ok {
		return nil, fmt.Errorf("attribute %q is no number, or the sum is none that can be stored", a.Name)
	}
	return s, nil
}

// deleteFromSet deletes a string set, as Validate requires.
func deleteFromSet(it Item, a Attr) error {
	del := a.Value.(*types.AttributeValueMemberSS)
	old, ok := it[a.Name]
	if !ok {
		return nil
	}
	have, ok := old.(*types.AttributeValueMemberSS)
	if !ok {
		return fmt.Errorf("attribute %q is no string set, DELETE needs one", a.Name)
	}
	left := slices.DeleteFunc(slices.Clone(have.Value), func(s string) bool { return slices.Contains(del.Value, s) })
	if len(left) == 0 {
		delete(it, a.Name)
		return nil
	}
	it[a.Name] = SS(left...)
	return nil
}

// Apply implements [Write].
func (p Put) Apply(before Item) (Item, bool, error) {
	if err := Validate(p); err != nil {
		return before, false, err
	}
	if !holds(p.If, before) {
		return before, false, nil
	}
	return maps.Clone(p.Item), true, nil
}

// Apply implements [Write].
func (d Delete) Apply(before Item) (Item, bool, error) {
	if err := Validate(d); err != nil {
		return before, false, err
	}
	if !holds(d.If, before) {
		return before, false, nil
	}
	return nil, true, nil
}

// Apply implements [Write].
func (c Check) Apply(before Item) (Item, bool, error) {
	if err := Validate(c); err != nil {
		return before, false, err
	}
	return before, holds(c.If, before), nil
}
