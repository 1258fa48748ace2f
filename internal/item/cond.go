package item

// Cond is a condition on the stored item. Conditions are plain values: each renders to a condition
// expression, and can be evaluated for an item in memory.
type Cond interface {
	render(*names)
	// Holds reports whether the condition is true of the item; nil means no item.
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
	storedCond struct {
		attr   string
		absent bool
	}
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
func Exists(attr string) Cond { return storedCond{attr, false} }

// Absent holds when the item lacks the attribute, or there is no item.
func Absent(attr string) Cond { return storedCond{attr, true} }

// Compare holds when the attribute exists, has the type of v and compares to it accordingly.
func Compare(attr string, op Op, v Value) Cond { return &compareCond{attr, op, v} }

// AsIn holds while an attribute has the same value as in an item, or is absent in both.
func AsIn(it Item, attr string) Cond {
	if v := it[attr]; v != nil {
		return Compare(attr, Eq, v)
	}
	return Absent(attr)
}

// Between holds when lo <= attribute <= hi, both bounds included.
func Between(attr string, lo, hi Value) Cond { return betweenCond{attr, lo, hi} }

// All holds when every condition does; All() always holds.
func All(c ...Cond) Cond { return allCond(c) }

// Any holds when at least one condition does.
func Any(c ...Cond) Cond { return anyCond(c) }

func (c storedCond) Holds(it Item) bool { _, ok := it[c.attr]; return ok != c.absent }

func (c *compareCond) Holds(it Item) bool {
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
	return Compare(c.attr, Ge, c.lo).Holds(it) && Compare(c.attr, Le, c.hi).Holds(it)
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

func (c storedCond) render(n *names) {
	function := "attribute_exists("
	if c.absent {
		function = "attribute_not_exists("
	}
	n.text.WriteString(function)
	n.text.WriteString(n.name(c.attr))
	n.text.WriteByte(')')
}

func (c *compareCond) render(n *names) {
	n.text.WriteString(n.name(c.attr))
	n.text.WriteByte(' ')
	n.text.WriteString(string(c.op))
	n.text.WriteByte(' ')
	n.text.WriteString(n.value(c.v))
}

func (c betweenCond) render(n *names) {
	n.text.WriteString(n.name(c.attr))
	n.text.WriteString(" BETWEEN ")
	n.text.WriteString(n.value(c.lo))
	n.text.WriteString(" AND ")
	n.text.WriteString(n.value(c.hi))
}

func (c allCond) render(n *names) { join(n, c, " AND ") }

func (c anyCond) render(n *names) {
	if len(c) == 1 {
		c[0].render(n)
		return
	}
	n.text.WriteByte('(')
	join(n, c, " OR ")
	n.text.WriteByte(')')
}

func join(n *names, cs []Cond, sep string) {
	first := n.text.Len()
	for _, c := range cs {
		if all, ok := c.(allCond); ok && len(all) == 0 {
			continue // always holds, and has no text
		}
		if n.text.Len() > first {
			n.text.WriteString(sep)
		}
		c.render(n)
	}
}
