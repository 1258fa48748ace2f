package memdynamo

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// errInvalid means that internal/item cannot have rendered the request.
var errInvalid = errors.New("not valid")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errInvalid, fmt.Sprintf(format, args...))
}

// parseWrite returns the write of a request, which is like a part of a transaction. The error is
// errInvalid.
func parseWrite(t types.TransactWriteItem) (w item.Write, err error) {
	in := new(parser)
	switch u, p, d, c := t.Update, t.Put, t.Delete, t.ConditionCheck; {
	case u != nil:
		in.names, in.values = u.ExpressionAttributeNames, u.ExpressionAttributeValues
		change := item.Update{Key: item.KeyOf(u.Key), If: in.condition(u.ConditionExpression)}
		in.update(&change, aws.ToString(u.UpdateExpression))
		w = change
	case p != nil:
		in.names, in.values = p.ExpressionAttributeNames, p.ExpressionAttributeValues
		w = item.Put{Item: p.Item, If: in.condition(p.ConditionExpression)}
	case d != nil:
		in.names, in.values = d.ExpressionAttributeNames, d.ExpressionAttributeValues
		w = item.Delete{Key: item.KeyOf(d.Key), If: in.condition(d.ConditionExpression)}
	case c != nil:
		in.names, in.values = c.ExpressionAttributeNames, c.ExpressionAttributeValues
		w = item.Check{Key: item.KeyOf(c.Key), If: in.condition(c.ConditionExpression)}
	default:
		return nil, invalid("a transaction with nothing in one of its places")
	}
	return w, in.err
}

// parseQuery returns the query of a request. The error is errInvalid if item.Query cannot have
// rendered it.
func parseQuery(in *dynamodb.QueryInput) (item.Query, error) {
	q := item.Query{Index: aws.ToString(in.IndexName), Consistent: aws.ToBool(in.ConsistentRead),
		Limit: int(aws.ToInt32(in.Limit)), After: in.ExclusiveStartKey,
		Descending: in.ScanIndexForward != nil && !*in.ScanIndexForward}
	text := func(alias string) string {
		if v, ok := in.ExpressionAttributeValues[alias].(*types.AttributeValueMemberS); ok {
			return v.Value
		}
		return ""
	}
	q.PK, q.Prefix, q.From, q.To = text(":p"), text(":b"), text(":f"), text(":t")
	if want := q.Input(""); *want.KeyConditionExpression != aws.ToString(in.KeyConditionExpression) {
		return q, invalid("expression %q is not understood", aws.ToString(in.KeyConditionExpression))
	}
	return q, nil
}

// parser parses the expressions that internal/item renders.
type parser struct {
	names  map[string]string
	values item.Item

	words []string // the remaining words
	odd   bool     // the expression cannot be parsed
	err   error    // of the first such expression
}

// words splits an expression into names, values, operators, parentheses and commas.
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

// took reads a word if it is the next one, and reports whether it was.
func (p *parser) took(word string) bool {
	if len(p.words) == 0 || p.words[0] != word {
		return false
	}
	p.words = p.words[1:]
	return true
}

// need marks the expression as unparsable unless ok is true.
func (p *parser) need(ok bool) { p.odd = p.odd || !ok }

func (p *parser) want(word string) { p.need(p.took(word)) }

func (p *parser) name() string {
	name, ok := p.names[p.next()]
	p.need(ok)
	return name
}

func (p *parser) value() item.Value {
	v, ok := p.values[p.next()]
	p.need(ok)
	return v
}

// read parses a whole expression.
func (p *parser) read(expression string, parse func()) {
	p.words = words(expression)
	if parse(); p.err == nil && (p.odd || len(p.words) > 0) {
		p.err = invalid("expression %q is not understood", expression)
	}
}

// condition parses a condition; nil for none.
func (p *parser) condition(expression *string) (c item.Cond) {
	if aws.ToString(expression) != "" {
		p.read(*expression, func() { c = p.any() })
	}
	return c
}

func (p *parser) any() item.Cond { return p.joined("OR", p.all, item.Any) }

func (p *parser) all() item.Cond { return p.joined("AND", p.term, item.All) }

// joined parses conditions separated by a word.
func (p *parser) joined(word string, next func() item.Cond, join func(...item.Cond) item.Cond) item.Cond {
	out := []item.Cond{next()}
	for p.took(word) {
		out = append(out, next())
	}
	if len(out) == 1 {
		return out[0]
	}
	return join(out...)
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
	}
	p.need(false)
	return nil
}

func (p *parser) argument() string {
	p.want("(")
	name := p.name()
	p.want(")")
	return name
}

// update parses the changes of an update.
func (p *parser) update(u *item.Update, expression string) {
	p.read(expression, func() {
		for len(p.words) > 0 {
			verb := p.next()
			for p.action(u, verb); p.took(","); {
				p.action(u, verb)
			}
		}
	})
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
		p.need(false)
	}
}
