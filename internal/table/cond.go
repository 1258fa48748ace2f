package table

import "strings"

// Cond is a condition on the stored item. Conditions are plain values: they
// render to a condition expression and hold, or do not, for an item in memory.
type Cond interface {
	render(*names) string
	// Holds tells whether the condition is true of the item; nil is no item.
	Holds(Item) bool
}

// Op is a comparison operator of the DynamoDB expression language.
type Op string

// The operators in use.
const (
	Eq Op = "="
	Lt Op = "<"
	Le Op = "<="
	Gt Op = ">"
	Ge Op = ">="
)

type (
	existsCond  struct{ attr string }
	absentCond  struct{ attr string }
	compareCond struct {
		attr string
		op   Op
		v    Value
	}
	betweenCond struct {
		attr   string
		lo, hi Value
	}
	allCond []Cond
	anyCond []Cond
)

// Exists holds when the item has the attribute.
func Exists(attr string) Cond { return existsCond{attr} }

// Absent holds when the item lacks the attribute, or there is no item.
func Absent(attr string) Cond { return absentCond{attr} }

// Compare holds when the attribute is there, has the type of v and compares so.
func Compare(attr string, op Op, v Value) Cond { return compareCond{attr, op, v} }

// Between holds when lo <= attribute <= hi, both bounds included.
func Between(attr string, lo, hi Value) Cond { return betweenCond{attr, lo, hi} }

// All holds when every condition does; All() always holds.
func All(c ...Cond) Cond { return allCond(c) }

// Any holds when at least one condition does.
func Any(c ...Cond) Cond { return anyCond(c) }

func (c existsCond) Holds(it Item) bool { _, ok := it[c.attr]; return ok }
func (c absentCond) Holds(it Item) bool { _, ok := it[c.attr]; return !ok }

func (c compareCond) Holds(it Item) bool {
	v, ok := it[c.attr]
	if !ok {
		return false
	}
	if c.op == Eq {
		return Equal(v, c.v)
	}
	o, ok := compare(v, c.v)
	if !ok {
		return false
	}
	switch c.op {
	case Lt:
		return o < 0
	case Le:
		return o <= 0
	case Gt:
		return o > 0
	case Ge:
		return o >= 0
	}
	return false
}

func (c betweenCond) Holds(it Item) bool {
	return compareCond{c.attr, Ge, c.lo}.Holds(it) && compareCond{c.attr, Le, c.hi}.Holds(it)
}

func (c allCond) Holds(it Item) bool {
	for _, x := range c {
		if !x.Holds(it) {
			return false
		}
	}
	return true
}

func (c anyCond) Holds(it Item) bool {
	for _, x := range c {
		if x.Holds(it) {
			return true
		}
	}
	return false
}

func (c existsCond) render(n *names) string { return "attribute_exists(" + n.name(c.attr) + ")" }
func (c absentCond) render(n *names) string { return "attribute_not_exists(" + n.name(c.attr) + ")" }

func (c compareCond) render(n *names) string {
	return n.name(c.attr) + " " + string(c.op) + " " + n.value(c.v)
}

func (c betweenCond) render(n *names) string {
	return n.name(c.attr) + " BETWEEN " + n.value(c.lo) + " AND " + n.value(c.hi)
}

func (c allCond) render(n *names) string { return join(n, c, " AND ") }

func (c anyCond) render(n *names) string {
	if len(c) == 1 {
		return c[0].render(n)
	}
	return "(" + join(n, c, " OR ") + ")"
}

func join(n *names, cs []Cond, sep string) string {
	var b strings.Builder
	for _, c := range cs {
		s := c.render(n)
		if s == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(sep)
		}
		b.WriteString(s)
	}
	return b.String()
}
