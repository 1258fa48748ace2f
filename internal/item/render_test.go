package item

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// said returns an expression with the names and values in place of their aliases.
func said(t *testing.T, text *string, names map[string]string, values Item) string {
	t.Helper()
	if text == nil {
		return ""
	}
	if *text == "" {
		t.Error("an empty expression, which DynamoDB refuses")
	}
	var pairs []string
	for _, alias := range slices.Backward(slices.Sorted(maps.Keys(names))) { // #10 before #1
		pairs = append(pairs, alias, names[alias])
	}
	for _, alias := range slices.Backward(slices.Sorted(maps.Keys(values))) {
		pairs = append(pairs, alias, "<"+textOf(values[alias])+">")
	}
	return strings.NewReplacer(pairs...).Replace(*text)
}

// A number is sent once, however often a request uses it. Texts are sent each time, and so is a
// number that is also used as a text.
func TestEachNumberIsSentOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		u    Update
		want []string
	}{
		{"one", Update{Set: []Attr{{"a", N(1)}}}, []string{"1"}},
		{"in all places", Update{Set: []Attr{{"a", N(1)}}, SetLess: []Less{{"b", N(1), "c"}}, Add: []Attr{{"d", N(1)}},
			If: All(Compare("a", Le, N(1)), Between("e", N(1), N(2)))}, []string{"1", "2"}},
		{"another sign", Update{Set: []Attr{{"a", N(1)}, {"b", N(-1)}}}, []string{"1", "-1"}},
		{"a text", Update{Set: []Attr{{"a", N(1)}, {"b", S("1")}, {"c", S("1")}}}, []string{"1", "1", "1"}},
	} {
		c.u.Key = Key{"p", "s"}
		in := c.u.Input("table")
		got := []string{}
		for i := range len(in.ExpressionAttributeValues) {
			got = append(got, textOf(in.ExpressionAttributeValues[":"+strconv.Itoa(i)]))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q sends %q, want %q", c.name, *in.UpdateExpression, got, c.want)
		}
	}
}

// Each action and each condition is rendered in DynamoDB's syntax, alone and in a transaction.
func TestActionsAndConditionsRender(t *testing.T) {
	key := Key{"p", "s"}
	for _, c := range []struct {
		name               string
		u                  Update
		changes, condition string
	}{
		{"nothing", Update{}, "", ""},
		{"set", Update{Set: []Attr{{"a", N(1)}, {"b", N(2)}}}, "SET a = <1>, b = <2>", ""},
		{"less", Update{SetLess: []Less{{"a", N(1), "c"}}}, "SET a = <1> - c", ""},
		{"unless it exists", Update{SetIfAbsent: []Attr{{"a", N(1)}}}, "SET a = if_not_exists(a, <1>)", ""},
		{"add, delete, remove", Update{Add: []Attr{{"a", N(1)}, {"b", N(-2)}}, Del: []Attr{{"c", SS("x")}},
			Remove: []string{"d", "e"}},
			"ADD a <1>, b <-2> DELETE c <x,> REMOVE d, e", ""},
		{"all together", Update{Set: []Attr{{"a", N(1)}}, SetLess: []Less{{"b", N(2), "c"}},
			SetIfAbsent: []Attr{{"d", N(3)}},
			Add:         []Attr{{"c", N(4)}}, Remove: []string{"e"}, If: Exists("a")},
			"SET a = <1>, b = <2> - c, d = if_not_exists(d, <3>) ADD c <4> REMOVE e", "attribute_exists(a)"},
		{"comparisons", Update{If: All(Compare("a", Eq, N(1)), Compare("b", Le, N(2)), Compare("a", Gt, S("x")))}, "",
			"a = <1> AND b <= <2> AND a > <x>"},
		{"absence", Update{If: All(Absent("a"), All(), Between("b", N(1), N(2)))}, "",
			"attribute_not_exists(a) AND b BETWEEN <1> AND <2>"},
		{"alternatives", Update{If: All(Any(Absent("a"), Compare("a", Lt, N(1))), Any(Compare("b", Ge, N(2))))}, "",
			"(attribute_not_exists(a) OR a < <1>) AND b >= <2>"},
		{"all of nothing", Update{If: All()}, "", ""},
	} {
		c.u.Key = key
		in := c.u.Input("table")
		changes := said(t, in.UpdateExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues)
		condition := said(t, in.ConditionExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues)
		if changes != c.changes || condition != c.condition {
			t.Errorf("%s: %q if %q, want %q if %q", c.name, changes, condition, c.changes, c.condition)
		}
		if *in.TableName != "table" || !EqualItems(in.Key, key.Item()) || in.ReturnValues != types.ReturnValueAllNew ||
			in.ReturnValuesOnConditionCheckFailure != types.ReturnValuesOnConditionCheckFailureAllOld {
			t.Errorf("%s: %+v", c.name, in)
		}
		if in.ExpressionAttributeNames != nil && len(in.ExpressionAttributeNames) == 0 ||
			in.ExpressionAttributeValues != nil && len(in.ExpressionAttributeValues) == 0 {
			t.Errorf("%s: empty maps, which DynamoDB refuses", c.name)
		}
		u := transacted(t, c.u).Update
		changes = said(t, u.UpdateExpression, u.ExpressionAttributeNames, u.ExpressionAttributeValues)
		condition = said(t, u.ConditionExpression, u.ExpressionAttributeNames, u.ExpressionAttributeValues)
		if changes != c.changes || condition != c.condition || *u.TableName != "table" || !EqualItems(u.Key, key.Item()) ||
			u.ReturnValuesOnConditionCheckFailure != types.ReturnValuesOnConditionCheckFailureAllOld {
			t.Errorf("%s in a transaction: %q if %q, %+v", c.name, changes, condition, u)
		}
	}
}

// transacted returns a write as part of a transaction.
func transacted(t *testing.T, w Write) types.TransactWriteItem {
	t.Helper()
	in := TransactInput("table", "token", []Write{w})
	if *in.ClientRequestToken != "token" || len(in.TransactItems) != 1 {
		t.Fatalf("%+v", in)
	}
	return in.TransactItems[0]
}

// A put, a delete and a check have the item or the key, the table and the condition, and request
// the old item.
func TestOtherWritesRenderCompletely(t *testing.T) {
	key, it := Key{"p", "s"}, Item{"PK": S("p"), "SK": S("s"), "a": N(1)}
	const allOld = types.ReturnValuesOnConditionCheckFailureAllOld
	for cond, want := range map[Cond]string{nil: "", Compare("a", Eq, N(7)): "a = <7>"} {
		put, del := Put{it, cond}.Input("table"), Delete{key, cond}.Input("table")
		of := transacted(t, Put{it, cond}).Put
		out := transacted(t, Delete{key, cond}).Delete
		check := transacted(t, Check{key, cond}).ConditionCheck
		for i, got := range []struct {
			table, condition *string
			names            map[string]string
			values, what     Item
			old              types.ReturnValuesOnConditionCheckFailure
		}{
			{put.TableName, put.ConditionExpression, put.ExpressionAttributeNames, put.ExpressionAttributeValues, put.Item,
				put.ReturnValuesOnConditionCheckFailure},
			{of.TableName, of.ConditionExpression, of.ExpressionAttributeNames, of.ExpressionAttributeValues, of.Item,
				of.ReturnValuesOnConditionCheckFailure},
			{del.TableName, del.ConditionExpression, del.ExpressionAttributeNames, del.ExpressionAttributeValues, del.Key,
				del.ReturnValuesOnConditionCheckFailure},
			{out.TableName, out.ConditionExpression, out.ExpressionAttributeNames, out.ExpressionAttributeValues, out.Key,
				out.ReturnValuesOnConditionCheckFailure},
			{check.TableName, check.ConditionExpression, check.ExpressionAttributeNames,
				check.ExpressionAttributeValues, check.Key,
				check.ReturnValuesOnConditionCheckFailure},
		} {
			what := key.Item()
			if i < 2 {
				what = it
			}
			if said(t, got.condition, got.names, got.values) != want || *got.table != "table" || !EqualItems(got.what, what) ||
				got.old != allOld || (got.names == nil) != (want == "") || (got.values == nil) != (want == "") {
				t.Errorf("write %d if %q: %+v", i, want, got)
			}
		}
	}
}

// If there are more attributes and values than prepared aliases, each gets one nevertheless.
func TestManyAliases(t *testing.T) {
	u := Update{Key: Key{"p", "s"}}
	var want []string
	for i := range 100 {
		u.Set = append(u.Set, Attr{fmt.Sprintf("a%02d", i), N(int64(1000 + i))})
		want = append(want, fmt.Sprintf("a%02d = <%d>", i, 1000+i))
	}
	in := u.Input("table")
	if got := said(t, in.UpdateExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues); got !=
		"SET "+strings.Join(want, ", ") {
		t.Errorf("rendered as %s", got)
	}
}

// A request that no expression has room for takes no search for aliases: a hostile item has
// thousands of attributes.
func TestAliasesOfImpossibleRequestsAreNotShared(t *testing.T) {
	for n, want := range map[int]int{maxShared: maxShared, maxShared + 1: maxShared + 2} {
		u := Update{Key: Key{"p", "s"}}
		for i := range n {
			u.Remove = append(u.Remove, fmt.Sprint("a", i))
		}
		u.If = Exists(u.Remove[n-1])
		check.Equal(t, len(u.Input("table").ExpressionAttributeNames), want, "of %d attributes", n)
	}
}

// A rendered request does not change while others are rendered in the same memory.
func TestRequestsShareNoMemory(t *testing.T) {
	render := func(i int64) *dynamodb.UpdateItemInput {
		return Update{Key: Key{"p", "s"}, Set: []Attr{{"a", N(i)}}, If: Compare("b", Le, N(-i))}.Input("table")
	}
	first := render(1)
	render(2)
	if got := said(t, first.UpdateExpression, first.ExpressionAttributeNames,
		first.ExpressionAttributeValues); got != "SET a = <1>" {
		t.Errorf("the first request has %s", got)
	}
}

// Each alias stands for the attribute at its place, whatever was rendered before: lists that would
// be equal if joined are distinguished, and so are more lists than are kept.
func TestAliasesStandForTheirAttribute(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"", "a", "b", "ab", "ba", "b_rpm_tk", "b_rpm_tc", "\x01a", "\x00"}
	for range 20 * maxAliasings {
		list, want := make([]string, r.IntN(5)), map[string]string(nil)
		for i := range list {
			list[i] = words[r.IntN(len(words))]
			if want == nil {
				want = map[string]string{}
			}
			want["#"+strconv.Itoa(i)] = list[i]
		}
		if got := aliased(list); !maps.Equal(got, want) || (got == nil) != (want == nil) {
			t.Fatalf("%q: %q, want %q", list, got, want)
		}
	}
	if n := len(*aliasings.Load()); n > maxAliasings {
		t.Errorf("%d lists are kept, want at most %d", n, maxAliasings)
	}
}

// A kept list is not made again.
func TestAliasesOfOneBucketAreShared(t *testing.T) {
	aliasings.Store(nil)
	list := []string{"b_rpm_tk", "b_rpm_tc", "rf"}
	aliased(list)
	aliased(list[:2])
	if n := testing.AllocsPerRun(100, func() { aliased(list); aliased(list[:2]) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
