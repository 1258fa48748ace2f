package twin

import (
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// parser reads the expressions that internal/item renders.
type parser struct {
	names  map[string]string
	values object

	words []string // what is left to be read
	err   error
}

// words cuts an expression: names, values, operators, and each parenthesis and comma
// by itself.
func words(expression string) []string {
	spaced := strings.NewReplacer("(", " ( ", ")", " ) ", ",", " , ").Replace(expression)
	return strings.Fields(spaced)
}

// next returns the next word, empty at the end.
func (p *parser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	word := p.words[0]
	p.words = p.words[1:]
	return word
}

// took reads a word if it is the next one.
func (p *parser) took(word string) bool {
	if len(p.words) == 0 || p.words[0] != word {
		return false
	}
	p.words = p.words[1:]
	return true
}

func (p *parser) want(word string) {
	if !p.took(word) {
		p.fail("want %q before %q", word, strings.Join(p.words, " "))
	}
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = invalid(format, args...)
	}
	p.words = nil
}

func (p *parser) name() string {
	alias := p.next()
	name, ok := p.names[alias]
	if !ok {
		p.fail("name %q is not defined", alias)
	}
	return name
}

func (p *parser) value() item.Value {
	alias := p.next()
	v, ok := p.values[alias]
	if !ok {
		p.fail("value %q is not defined", alias)
	}
	return v
}

// condition reads a condition; none is nil.
func (p *parser) condition(expression string) (item.Cond, error) {
	if expression == "" {
		return nil, nil
	}
	p.words = words(expression)
	c := p.any()
	if len(p.words) > 0 {
		p.fail("condition goes on with %q", strings.Join(p.words, " "))
	}
	return c, p.err
}

func (p *parser) any() item.Cond {
	out := []item.Cond{p.all()}
	for p.took("OR") {
		out = append(out, p.all())
	}
	if len(out) == 1 {
		return out[0]
	}
	return item.Any(out...)
}

func (p *parser) all() item.Cond {
	out := []item.Cond{p.term()}
	for p.took("AND") {
		out = append(out, p.term())
	}
	if len(out) == 1 {
		return out[0]
	}
	return item.All(out...)
}

func (p *parser) term() item.Cond {
	switch {
	case p.took("("):
		c := p.any()
		p.want(")")
		return c
	case p.took("attribute_exists"):
		return item.Exists(p.argument())
	case p.took("attribute_not_exists"):
		return item.Absent(p.argument())
	}
	name := p.name()
	if p.took("BETWEEN") {
		low := p.value()
		p.want("AND")
		return item.Between(name, low, p.value())
	}
	switch op := item.Op(p.next()); op {
	case item.Eq, item.Lt, item.Le, item.Gt, item.Ge:
		return item.Compare(name, op, p.value())
	default:
		p.fail("operator %q is not known", op)
		return nil
	}
}

func (p *parser) argument() string {
	p.want("(")
	name := p.name()
	p.want(")")
	return name
}

// update reads what an update changes.
func (p *parser) update(u item.Update, expression string) (item.Update, error) {
	p.words = words(expression)
	for len(p.words) > 0 {
		verb := p.next()
		for {
			p.action(&u, verb)
			if !p.took(",") {
				break
			}
		}
	}
	return u, p.err
}

func (p *parser) action(u *item.Update, verb string) {
	name := p.name()
	switch verb {
	case "SET":
		p.want("=")
		if p.took("if_not_exists") {
			p.want("(")
			p.name()
			p.want(",")
			u.SetIfAbsent = append(u.SetIfAbsent, item.Attr{Name: name, Value: p.value()})
			p.want(")")
			return
		}
		if v := p.value(); p.took("-") {
			u.SetLess = append(u.SetLess, item.Less{Name: name, Value: v, Minus: p.name()})
		} else {
			u.Set = append(u.Set, item.Attr{Name: name, Value: v})
		}
	case "ADD":
		u.Add = append(u.Add, item.Attr{Name: name, Value: p.value()})
	case "DELETE":
		u.Del = append(u.Del, item.Attr{Name: name, Value: p.value()})
	case "REMOVE":
		u.Remove = append(u.Remove, name)
	default:
		p.fail("action %q is not known", verb)
	}
}
