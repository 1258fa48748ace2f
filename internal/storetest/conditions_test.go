package storetest

import (
	"context"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// misreading is the twin, except that it misreads some words or values of an update.
type misreading struct {
	*memdynamo.Client
	words func(string) string
	value func(item.Value) item.Value
}

func (m misreading) UpdateItem(
	ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options),
) (*dynamodb.UpdateItemOutput, error) {
	read := *in
	if m.words != nil {
		for _, e := range []**string{&read.UpdateExpression, &read.ConditionExpression} {
			if *e != nil {
				*e = aws.String(m.words(**e))
			}
			if *e != nil && **e == "" {
				*e = nil
			}
		}
	}
	if m.value != nil {
		read.ExpressionAttributeValues = maps.Clone(in.ExpressionAttributeValues)
		for alias, v := range in.ExpressionAttributeValues {
			read.ExpressionAttributeValues[alias] = m.value(v)
		}
	}
	return m.Client.UpdateItem(ctx, &read, opts...)
}

// A table that misreads a word or a value does not pass.
func TestMisreadTablesAreNoticed(t *testing.T) {
	quietly(t)
	swap := func(pairs ...string) func(string) string { return strings.NewReplacer(pairs...).Replace }
	match := func(pattern, with string) func(string) string {
		return func(s string) string { return regexp.MustCompile(pattern).ReplaceAllString(s, with) }
	}
	number := func(of func(string) string) func(item.Value) item.Value {
		return func(v item.Value) item.Value {
			if n, ok := v.(*types.AttributeValueMemberN); ok {
				return &types.AttributeValueMemberN{Value: of(n.Value)}
			}
			return v
		}
	}
	for name, table := range map[string]misreading{
		"nothing": {},
		"<=":      {words: swap(" <= ", " < ")}, "<": {words: swap(" < ", " <= ")},
		">=": {words: swap(" >= ", " > ")}, ">": {words: swap(" > ", " >= ")},
		"< and >":   {words: swap(" < ", " > ", " > ", " < ")},
		"= as <=":   {words: match(`(#\d+) = (:\d+)( AND| OR|\)|$)`, "$1 <= $2$3")},
		"= as >=":   {words: match(`(#\d+) = (:\d+)( AND| OR|\)|$)`, "$1 >= $2$3")},
		"existence": {words: swap("attribute_exists", "attribute_not_exists")},
		"absence":   {words: swap("attribute_not_exists", "attribute_exists")},
		"and":       {words: match(`\) AND `, ") OR ")}, "or": {words: swap(" OR ", " AND ")},
		"between, open below": {words: match(`(#\d+) BETWEEN (:\d+) AND (:\d+)`, "$1 > $2 AND $1 <= $3")},
		"between, open above": {words: match(`(#\d+) BETWEEN (:\d+) AND (:\d+)`, "$1 >= $2 AND $1 < $3")},
		"set if absent":       {words: match(`if_not_exists\(#\d+, (:\d+)\)`, "$1")},
		"set less":            {words: match(`(:\d+) - #\d+`, "$1")},
		"remove":              {words: match(`REMOVE #\d+(, #\d+)*`, "")},
		"delete":              {words: match(`DELETE #\d+ :\d+(, #\d+ :\d+)*`, "")},
		"no conditions":       {words: match(`^(\(|#|attribute_).*`, "")},
		"floats": {value: number(func(n string) string {
			f, err := strconv.ParseFloat(n, 64)
			if err != nil {
				return n
			}
			return strconv.FormatFloat(f, 'g', 17, 64)
		})},
		"whole numbers": {value: number(func(n string) string { whole, _, _ := strings.Cut(n, "."); return whole })},
		"small letters": {value: func(v item.Value) item.Value {
			if s, ok := v.(*types.AttributeValueMemberS); ok {
				return item.S(strings.ToLower(s.Value))
			}
			return v
		}},
	} {
		noticed := false
		for _, g := range Deviations(nil).groups()[:2] { // writes and conditions
			noticed = !passes(func(t *testing.T) {
				table.Client = memdynamo.New(nil).Client()
				g.run(t, store.NewListing(table, "limits"))
			}) || noticed
		}
		check.Equal(t, noticed, name != "nothing", "a table that misreads %s: it is noticed", name)
	}
}
