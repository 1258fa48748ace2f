package item

import (
	"bytes"
	"encoding/binary"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// names collects the aliases of one request. Every attribute name is aliased, because limit names
// may contain '-' and '.', and DynamoDB reserves hundreds of words.
type names struct {
	values []Value  // value of alias i
	order  []string // attribute of alias i
	text   bytes.Buffer
}

// newNames returns empty names.
func newNames() *names { return usedNames.Get().(*names) }

// usedNames holds names for reuse.
var usedNames = sync.Pool{New: func() any { return new(names) }}

// nameAliases and valueAliases are precomputed, because every request needs the first ones.
var nameAliases, valueAliases = func() (n, v [64]string) {
	for i := range n {
		n[i], v[i] = "#"+strconv.Itoa(i), ":"+strconv.Itoa(i)
	}
	return n, v
}()

func aliasOf(known *[64]string, prefix string, i int) string {
	if i < len(known) {
		return known[i]
	}
	return prefix + strconv.Itoa(i)
}

// maxShared is how many names or values do not fit into one expression. So many aliases are looked
// for before a new one is given, whatever a hostile item asks for.
const maxShared = 1024

func (n *names) name(attr string) string {
	for i, have := range n.order[:min(len(n.order), maxShared)] {
		if have == attr {
			return aliasOf(&nameAliases, "#", i)
		}
	}
	n.order = append(n.order, attr)
	return aliasOf(&nameAliases, "#", len(n.order)-1)
}

// value returns the alias of a value. Equal numbers share one alias: a charge of two limits sends
// 14 values instead of 23.
func (n *names) value(v Value) string {
	if number, ok := v.(*types.AttributeValueMemberN); ok {
		for i, have := range n.values[:min(len(n.values), maxShared)] {
			if same, ok := have.(*types.AttributeValueMemberN); ok && same.Value == number.Value {
				return aliasOf(&valueAliases, ":", i)
			}
		}
	}
	n.values = append(n.values, v)
	return aliasOf(&valueAliases, ":", len(n.values)-1)
}

// done returns the maps for the API, with nil for empty ones. The names must not be used
// afterwards.
func (n *names) done() (attrs map[string]string, values Item) {
	if attrs = aliased(n.order); len(n.values) > 0 {
		values = make(Item, len(n.values))
	}
	for i, v := range n.values {
		values[aliasOf(&valueAliases, ":", i)] = v
	}
	clear(n.values)
	n.values, n.order = n.values[:0], n.order[:0]
	usedNames.Put(n)
	return attrs, values
}

// aliased returns the aliases of attributes: "#0" for the first. The map is shared and must not be
// changed: the writes on a bucket name the same attributes in the same order. So the maps of the
// first lists are cached. Their number is bounded because names may come from any client.
func aliased(list []string) map[string]string {
	if len(list) == 0 {
		return nil
	}
	var room [512]byte
	key := room[:0]
	for _, attr := range list {
		key = append(binary.AppendUvarint(key, uint64(len(attr))), attr...)
	}
	if known := aliasings.Load(); known != nil {
		if attrs := (*known)[string(key)]; attrs != nil {
			return attrs
		}
	}
	attrs := make(map[string]string, len(list))
	for i, attr := range list {
		attrs[aliasOf(&nameAliases, "#", i)] = attr
	}
	keep(string(key), attrs)
	return attrs
}

// aliasings are the cached maps of aliases, by list of attributes.
var aliasings atomic.Pointer[map[string]map[string]string]

const maxAliasings = 256

// keep caches the map of a list, unless the cache is full, or another goroutine changes it at the
// same time.
func keep(key string, attrs map[string]string) {
	known, next := aliasings.Load(), map[string]map[string]string{key: attrs}
	if known != nil {
		if len(*known) >= maxAliasings {
			return
		}
		maps.Copy(next, *known)
	}
	aliasings.CompareAndSwap(known, &next)
}

// condition returns the text of a condition, empty for none.
func (n *names) condition(c Cond) string {
	if c == nil {
		return ""
	}
	n.text.Reset()
	c.render(n)
	return n.text.String()
}

// orNil returns nil for an empty text, as the API expects.
func orNil(text *string) *string {
	if *text == "" {
		return nil
	}
	return text
}

// expression returns the text of the changes, empty for none.
func (u Update) expression(n *names) string {
	b := &n.text
	b.Reset()
	list := func(verb string, count int, each func(i int)) {
		if count == 0 {
			return
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(verb)
		for i := range count {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteByte(' ')
			each(i)
		}
	}
	list("SET", len(u.Set)+len(u.SetLess)+len(u.SetIfAbsent), func(i int) {
		if i < len(u.Set) {
			b.WriteString(n.name(u.Set[i].Name))
			b.WriteString(" = ")
			b.WriteString(n.value(u.Set[i].Value))
			return
		}
		if i -= len(u.Set); i < len(u.SetLess) {
			l := u.SetLess[i]
			b.WriteString(n.name(l.Name))
			b.WriteString(" = ")
			b.WriteString(n.value(l.Value))
			b.WriteString(" - ")
			b.WriteString(n.name(l.Minus))
			return
		}
		a := u.SetIfAbsent[i-len(u.SetLess)]
		alias := n.name(a.Name)
		b.WriteString(alias + " = if_not_exists(" + alias + ", " + n.value(a.Value) + ")")
	})
	pair := func(list []Attr) func(int) {
		return func(i int) {
			b.WriteString(n.name(list[i].Name))
			b.WriteByte(' ')
			b.WriteString(n.value(list[i].Value))
		}
	}
	list("ADD", len(u.Add), pair(u.Add))
	list("DELETE", len(u.Del), pair(u.Del))
	list("REMOVE", len(u.Remove), func(i int) { b.WriteString(n.name(u.Remove[i])) })
	return b.String()
}

// Input renders the update for the named table. It requests the whole item in the response: after
// the write, or before it if the condition fails.
func (u Update) Input(tableName string) *dynamodb.UpdateItemInput {
	n := newNames()
	out := &struct {
		in                        dynamodb.UpdateItemInput
		table, changes, condition string
	}{table: tableName, changes: u.expression(n), condition: n.condition(u.If)}
	out.in = dynamodb.UpdateItemInput{
		TableName:                           &out.table,
		Key:                                 u.Key.Item(),
		UpdateExpression:                    orNil(&out.changes),
		ConditionExpression:                 orNil(&out.condition),
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	out.in.ExpressionAttributeNames, out.in.ExpressionAttributeValues = n.done()
	return &out.in
}

// Input renders the put for the named table.
func (p Put) Input(tableName string) *dynamodb.PutItemInput {
	in := &dynamodb.PutItemInput{
		TableName:                           &tableName,
		Item:                                p.Item,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = onlyCondition(p.If)
	return in
}

// Input renders the delete for the named table.
func (d Delete) Input(tableName string) *dynamodb.DeleteItemInput {
	in := &dynamodb.DeleteItemInput{
		TableName:                           &tableName,
		Key:                                 d.Key.Item(),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = onlyCondition(d.If)
	return in
}

// TransactInput renders writes as one transaction. With the same token, sending it again within ten
// minutes is harmless (AWS API reference, TransactWriteItems); the token must have 1 to 36
// characters.
func TransactInput(tableName, token string, writes []Write) *dynamodb.TransactWriteItemsInput {
	in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String(token)}
	for _, w := range writes {
		in.TransactItems = append(in.TransactItems, transactItem(tableName, w))
	}
	return in
}

func transactItem(tableName string, w Write) types.TransactWriteItem {
	const allOld = types.ReturnValuesOnConditionCheckFailureAllOld
	switch w := w.(type) {
	case Update:
		n := newNames()
		changes, condition := w.expression(n), n.condition(w.If)
		u := &types.Update{
			TableName: &tableName, Key: w.Key.Item(),
			UpdateExpression: orNil(&changes), ConditionExpression: orNil(&condition),
			ReturnValuesOnConditionCheckFailure: allOld,
		}
		u.ExpressionAttributeNames, u.ExpressionAttributeValues = n.done()
		return types.TransactWriteItem{Update: u}
	case Put:
		p := &types.Put{TableName: &tableName, Item: w.Item, ReturnValuesOnConditionCheckFailure: allOld}
		p.ConditionExpression, p.ExpressionAttributeNames, p.ExpressionAttributeValues = onlyCondition(w.If)
		return types.TransactWriteItem{Put: p}
	case Delete:
		d := &types.Delete{TableName: &tableName, Key: w.Key.Item(), ReturnValuesOnConditionCheckFailure: allOld}
		d.ConditionExpression, d.ExpressionAttributeNames, d.ExpressionAttributeValues = onlyCondition(w.If)
		return types.TransactWriteItem{Delete: d}
	case Check:
		c := &types.ConditionCheck{TableName: &tableName, Key: w.Key.Item(), ReturnValuesOnConditionCheckFailure: allOld}
		c.ConditionExpression, c.ExpressionAttributeNames, c.ExpressionAttributeValues = onlyCondition(w.If)
		return types.TransactWriteItem{ConditionCheck: c}
	}
	panic("bug: unknown type of write")
}

// onlyCondition renders a write whose only expression is its condition.
func onlyCondition(c Cond) (condition *string, names map[string]string, values Item) {
	n := newNames()
	text := n.condition(c)
	names, values = n.done()
	return orNil(&text), names, values
}
