package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Adjust settles costs on one item, whatever it holds: negative gives back, positive takes more. It
// never creates an item, so a bucket that has expired meanwhile stays full. If the bucket has
// filled up since its refill instant, the next charge would forgive the taken tokens. Use a
// [Charge] by force then, which needs an image.
//
// The write is counted by the meter, which the item must have; one that lacks it is refused, and
// settled by [AdjustUnmetered].
func Adjust(key item.Key, costs []Cost) item.Update {
	u := AdjustUnmetered(key, costs)
	u.Add = appendWCU(u.Add)
	u.If = item.All(u.If, item.Exists(namesOf(bucket.WCU).tokens))
	return u
}

// AdjustUnmetered is [Adjust] for an item without a write meter, as foreign
// clients leave it; adding to one that is not there would store half a limit.
func AdjustUnmetered(key item.Key, costs []Cost) item.Update {
	u := item.Update{Key: key}
	cond := []item.Cond{item.Exists(item.AttrPK)}
	for _, c := range costs {
		if c.Milli != 0 {
			cond = append(cond, formOf(c.Limit).adjust(&u, c)...)
		}
	}
	u.If = item.All(cond...)
	return u
}

var chargeWCU = spend(namesOf(bucket.WCU).tokens, Cost{Limit: bucket.WCULimit(), Milli: bucket.WCUPerWrite})

func appendWCU(add []item.Attr) []item.Attr { return append(add, chargeWCU...) }

// Released are the tokens that a process gives up of an item of which it holds no more.
type Released struct {
	Back       []Cost // negative: given back
	Declared   []Cost // reduces the held tokens declared in the generation, see [Ahead]
	Ended      []Cost // expired unspent
	Generation int64
}

// Release is [Adjust] for given-up tokens. With Declared it holds only in the Generation;
// without it holds in any.
func Release(key item.Key, r Released) item.Update {
	u := Adjust(key, r.Back)
	for _, c := range r.Declared {
		u.Add = append(u.Add, item.Attr{Name: namesOf(c.Limit.Name).held, Value: item.N(c.Milli)})
	}
	for _, c := range r.Ended {
		u.Add = append(u.Add, item.Attr{Name: namesOf(c.Limit.Name).ended, Value: item.N(c.Milli)})
	}
	if len(r.Declared) > 0 {
		u.If = item.All(u.If, item.Compare(AttrGeneration, item.Eq, item.N(r.Generation)))
	}
	return u
}
