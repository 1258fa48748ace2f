package table

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// remember adds the remainders of a state to an update.
func remember(u *item.Update, after bucket.State) {
	if rr := remainders(after); rr != nil {
		u.Set = append(u.Set, item.Attr{Name: AttrRemainders, Value: rr})
	} else {
		u.Remove = append(u.Remove, AttrRemainders)
	}
}

// remainders returns the remainder map of a state, nil when all are zero.
func remainders(s bucket.State) item.Value {
	var r item.Item
	for _, sl := range s.Slots {
		if sl.Rest != 0 {
			if r == nil {
				r = item.Item{}
			}
			r[sl.Name] = item.N(sl.Rest)
		}
	}
	e := ends(s)
	if r == nil && e == nil {
		return nil
	}
	rr := item.Item{layout.AttrRF: item.N(s.RF)}
	if r != nil {
		rr[RemaindersOf] = item.Map(r)
	}
	if e != nil {
		rr[EndsOf] = item.Map(e)
	}
	return item.Map(rr)
}

func (b *Shard) decodeRemainders(v item.Value) error {
	rr, ok := v.(*types.AttributeValueMemberM)
	if !ok {
		return nil
	}
	if rf, ok, err := item.Int(rr.Value, layout.AttrRF); err != nil || !ok || rf != b.State.RF || b.State.NoClock {
		return err
	}
	if err := b.decodeEnds(rr.Value[EndsOf]); err != nil {
		return err
	}
	rests, ok := rr.Value[RemaindersOf].(*types.AttributeValueMemberM)
	if !ok {
		return nil
	}
	for i := range b.State.Slots {
		sl := &b.State.Slots[i]
		n, ok, err := item.Int(rests.Value, sl.Name)
		if err != nil {
			return err
		}
		if ok && n >= 0 && n < sl.Period {
			sl.Rest = n
		}
	}
	return nil
}
