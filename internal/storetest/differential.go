package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/store"
)

// Compare performs count random calls on two stores, and requires the same outcome of each, and the
// same items at the end. The seed determines the calls; the keys are new each time. The only
// deviation allowed in known is [MixedTransaction].
func Compare(t *testing.T, known Deviations, seed uint64, count int, a, b store.Store) {
	t.Helper()
	r := &random{Rand: rand.New(rand.NewPCG(seed, 0)), known: known}
	for range 4 {
		r.keys = append(r.keys, newKey())
	}
	outcomes := map[string]int{}
	for i := range count {
		what, same := r.step(t, a, b, outcomes)
		if !same {
			t.Fatalf("seed %d, call %d: %s", seed, i, what)
		}
	}
	for _, k := range r.keys {
		wantItem(t, fmt.Sprintf("seed %d: item at the end", seed), read(t, a, k), read(t, b, k))
	}
	t.Logf("seed %d: %v", seed, outcomes)
	for _, o := range []string{"done", "refused", "unavailable"} {
		if outcomes[o] == 0 {
			t.Errorf("seed %d: none of %d calls was %s, the comparison says little", seed, count, o)
		}
	}
}

// MixedTransaction is a transaction with a refused write and one of the wrong type: DynamoDB
// reports both, and the outcome is the refusal.
const MixedTransaction = "random: refusal beside a type error"

// step performs one call on both stores.
func (r *random) step(t *testing.T, a, b store.Store, outcomes map[string]int) (what string, same bool) {
	var writes []item.Write
	var it1, it2 item.Item
	var err1, err2 error
	deviates := false
	if r.IntN(4) == 0 {
		writes = r.transaction()
		token := newToken()
		err1, err2 = a.Transact(t.Context(), token, writes), b.Transact(t.Context(), token, writes)
		_, deviates = r.known[MixedTransaction]
	} else {
		writes = []item.Write{r.write(r.keys[r.IntN(len(r.keys))])}
		it1, err1 = a.Write(t.Context(), writes[0])
		it2, err2 = b.Write(t.Context(), writes[0])
	}
	one, two := ended(it1, err1), ended(it2, err2)
	outcomes[one.kind]++
	if deviates && one.kind == "refused" && two.kind == "unavailable" {
		outcomes["deviating"]++
		return "", true
	}
	return fmt.Sprintf("%s\nends differently:\n%v, %v\n%v, %v", describe(writes), err1, one, err2, two), one == two
}

func describe(writes []item.Write) (s string) {
	for _, w := range writes {
		in := item.TransactInput("t", "t", []item.Write{w}).TransactItems[0]
		s += fmt.Sprintf("%T on %q ", w, w.Target())
		switch {
		case in.Update != nil:
			s += aws.ToString(in.Update.UpdateExpression) + " IF " + aws.ToString(in.Update.ConditionExpression) +
				fmt.Sprint(in.Update.ExpressionAttributeNames) + string(itemtest.JSON(in.Update.ExpressionAttributeValues))
		case in.Put != nil:
			s += string(itemtest.JSON(in.Put.Item)) + " IF " + aws.ToString(in.Put.ConditionExpression)
		}
	}
	return s
}

// outcome is how a call ended, and the items in its answer.
type outcome struct{ kind, items string }

func ended(it item.Item, err error) (o outcome) {
	shown := func(it item.Item) string { return string(itemtest.JSON(itemtest.Canonical(it))) }
	switch k := store.KindOf(err); {
	case err == nil:
		return outcome{"done", shown(it)}
	case k == store.Setup: // the SDK may refuse a write for one store that the other store finds invalid
		return outcome{kind: store.Unavailable.String()}
	case k != 0:
		return outcome{kind: k.String()}
	}
	o.kind = "refused"
	if refused, ok := errors.AsType[*store.Refused](err); ok {
		o.items = shown(refused.Old)
	}
	if canceled, ok := errors.AsType[*store.Canceled](err); ok {
		for _, r := range canceled.Reasons {
			o.items += fmt.Sprint(r.Refused, shown(r.Old))
		}
	}
	return o
}

// random draws writes on a few keys and attributes, so that they collide.
type random struct {
	*rand.Rand
	keys  []item.Key
	known Deviations
}

var randomAttrs = []string{"a", "b-c", "d.e", "size", "rf", "b_x_tk"}

func (r *random) attr() string { return randomAttrs[r.IntN(len(randomAttrs))] }

func (r *random) value() item.Value {
	switch r.IntN(16) {
	case 0:
		return item.S([]string{"", "x", "y", "é"}[r.IntN(4)])
	case 1:
		return item.Bool(r.IntN(2) == 0)
	case 2:
		return item.Null()
	case 3:
		return item.SS([][]string{{"x"}, {"x", "y"}, {"y", "z"}}[r.IntN(3)]...)
	case 4:
		return item.Map(item.Item{r.attr(): r.number(), "m": item.Map(item.Item{})})
	case 5:
		return &types.AttributeValueMemberL{Value: []item.Value{r.number(), item.Null()}}
	case 6:
		return &types.AttributeValueMemberB{Value: []byte{byte(r.IntN(256))}}
	}
	return r.number()
}

func (r *random) number() item.Value {
	switch r.IntN(12) {
	case 0:
		return num([]string{"0.1", "-1.25e-7", "1e20", "-9223372036854775808", "9223372036854775807", tall,
			"1.0"}[r.IntN(7)])
	case 1:
		return item.N(r.Int64N(1<<53) - 1<<52)
	}
	return item.N(r.Int64N(7) - 3)
}

func (r *random) ordered() item.Value {
	if r.IntN(6) == 0 {
		return item.S([]string{"", "x", "y"}[r.IntN(3)])
	}
	return r.number()
}

func (r *random) cond(depth int) item.Cond {
	switch r.IntN(9) {
	case 0:
		return item.Exists(r.attr())
	case 1:
		return item.Absent(r.attr())
	case 2:
		return item.Compare(r.attr(), item.Eq, r.value())
	case 3, 4:
		return item.Compare(r.attr(), []item.Op{item.Lt, item.Le, item.Gt, item.Ge}[r.IntN(4)], r.ordered())
	case 5:
		lo := r.Int64N(9) - 5
		return item.Between(r.attr(), item.N(lo), item.N(lo+r.Int64N(4)))
	}
	if depth > 1 {
		return yes
	}
	list := []item.Cond{r.cond(depth + 1), r.cond(depth + 1), r.cond(depth + 1)}[:1+r.IntN(3)]
	if r.IntN(3) > 0 {
		return item.Any(list...)
	}
	return item.All(list...)
}

func (r *random) maybeCond() item.Cond {
	if r.IntN(3) == 0 {
		return nil
	}
	return r.cond(0)
}

func (r *random) write(k item.Key) item.Write {
	switch r.IntN(10) {
	case 0:
		return item.Put{Item: stored(k, item.Attr{Name: r.attr(), Value: r.value()}), If: r.maybeCond()}
	case 1:
		return item.Delete{Key: k, If: r.maybeCond()}
	}
	u := item.Update{Key: k, If: r.maybeCond()}
	for _, i := range r.Perm(len(randomAttrs))[:r.IntN(4)] {
		name := randomAttrs[i]
		switch r.IntN(8) {
		case 0:
			u.Set = append(u.Set, item.Attr{Name: name, Value: r.value()})
		case 1:
			u.SetIfAbsent = append(u.SetIfAbsent, item.Attr{Name: name, Value: r.value()})
		case 2:
			u.Remove = append(u.Remove, name)
		case 3:
			u.Del = append(u.Del, item.Attr{Name: name, Value: item.SS([]string{"x", "y"}[r.IntN(2)])})
		case 7:
			u.SetLess = append(u.SetLess, item.Less{Name: name, Value: r.number(), Minus: r.attr()})
		case 4:
			u.Add = append(u.Add, item.Attr{Name: name, Value: item.SS([]string{"x", "z"}[r.IntN(2)])})
		default:
			u.Add = append(u.Add, item.Attr{Name: name, Value: r.number()})
		}
	}
	return u
}

func (r *random) transaction() []item.Write {
	var out []item.Write
	for _, i := range r.Perm(len(r.keys))[:1+r.IntN(len(r.keys)-1)] {
		w := r.write(r.keys[i])
		if r.IntN(5) == 0 {
			w = item.Check{Key: r.keys[i], If: r.cond(0)}
		}
		if u, ok := w.(item.Update); ok && itemtest.ValidateInTransaction(u) != nil {
			w = item.Update{Key: u.Key, Add: one("n", item.N(1)), If: u.If}
		}
		out = append(out, w)
	}
	return out
}
