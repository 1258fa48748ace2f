package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Adjust settles costs on one item, whatever it holds: negative gives back,
// positive takes more. It never creates an item, so a bucket that has expired
// meanwhile stays what it is: full. Taking more from a bucket that has filled up
// since its refill instant would be forgiven by the next charge; use a [Charge]
// by force for that, which needs an image.
//
// The write is counted by the meter, which the item must have; one that lacks it
// is refused, and settled by [AdjustUnmetered].
func Adjust(key item.Key, costs []Cost) item.Update {
	u := AdjustUnmetered(key, costs)
	u.Add = appendWCU(u.Add)
	u.If = item.All(u.If, item.Exists(attrLimit(bucket.WCU, fieldTokens)))
	return u
}

// AdjustUnmetered is [Adjust] for an item without a write meter, as foreign
// clients leave it; adding to one that is not there would store half a limit.
func AdjustUnmetered(key item.Key, costs []Cost) item.Update {
	u := item.Update{Key: key}
	cond := []item.Cond{item.Exists(item.AttrPK)}
	for _, c := range costs {
		if c.Milli == 0 {
			continue
		}
		if c.Limit.Lends() { // taking more is for a charge
			if c.Milli < 0 {
				cond = append(cond, c.countsYet()...)
				u.Add = append(u.Add, item.Attr{Name: takenAttr(c.Limit.Name, c.Limit.Epoch(c.End)), Value: item.N(c.Milli)})
			}
			continue
		}
		tk := attrLimit(c.Limit.Name, fieldTokens)
		cond = append(append(cond, item.Exists(tk)), c.within()...)
		u.Add = append(u.Add, spend(tk, c)...)
	}
	u.If = item.All(cond...)
	return u
}

// within holds while the item is in the period in which the tokens of a quota were taken
// that are given back.
func (c Cost) within() []item.Cond {
	switch n := c.Limit.FirstUse(); {
	case c.Milli > 0 || c.End == 0:
		return nil
	case n > 0:
		start := item.N(c.End - n) // both: another shard may have begun a period that is not applied
		return []item.Cond{
			item.Compare(quotaAttr(c.Limit.Name, fieldApplied), item.Eq, start),
			item.Compare(quotaAttr(c.Limit.Name, fieldStart), item.Eq, start),
		}
	}
	rn := quotaAttr(c.Limit.Name, fieldResets)
	whole := item.Absent(rn)
	if c.Resets > 0 {
		whole = item.Compare(rn, item.Eq, item.N(c.Resets))
	}
	return []item.Cond{item.Compare(attrRF, item.Lt, item.N(c.End)), whole}
}

// spend moves a cost from the level to the counter.
func spend(tk string, c Cost) []item.Attr {
	return []item.Attr{
		{Name: tk, Value: item.N(-c.Milli)},
		{Name: attrLimit(c.Limit.Name, fieldUsed), Value: item.N(c.Milli)},
	}
}

var chargeWCU = spend(attrLimit(bucket.WCU, fieldTokens), Cost{Limit: bucket.WCULimit(), Milli: bucket.WCUPerWrite})

func appendWCU(add []item.Attr) []item.Attr { return append(add, chargeWCU...) }
