package table

import (
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Adjust settles costs on an item regardless of its levels: negative costs give back, positive ones
// take more. It never creates an item, so a bucket that has expired stays full. If the bucket has
// filled up since its refill instant, the next charge would forgive the tokens taken; then use a
// forced [Charge], which needs an image.
//
// The write counts on the item's meter. An item without a meter refuses it; use [Released].Unmetered
// then.
func Adjust(key item.Key, costs []Cost) item.Update { return Release(key, Released{Back: costs}) }

var chargeWCU = spend(namesOf(bucket.WCU).tokens, Cost{Limit: bucket.WCULimit(), Milli: bucket.WCUPerWrite})

func appendWCU(add []item.Attr) []item.Attr { return append(add, chargeWCU...) }

// Released is the tokens that a process gives up when it stops holding tokens of an item.
type Released struct {
	Back       []Cost // negative: given back
	Declared   []Cost // reduces the held tokens declared in Generation, see [Ahead]
	Ended      []Cost // expired unspent
	Generation int64
	// Unmetered: the item has no write meter, as other clients leave it. Adding to a missing meter would
	// store half a limit.
	Unmetered bool
}

// Release is [Adjust] for released tokens. With Declared, the write holds only in Generation;
// without, in any generation.
func Release(key item.Key, r Released) item.Update {
	u := item.Update{Key: key}
	cond := []item.Cond{item.Exists(item.AttrPK)}
	for _, c := range r.Back {
		if c.Milli != 0 {
			cond = append(cond, formOf(c.Limit).adjust(&u, c)...)
		}
	}
	u.If = item.All(cond...)
	if !r.Unmetered {
		u.Add = appendWCU(u.Add)
		u.If = item.All(u.If, item.Exists(namesOf(bucket.WCU).tokens))
	}
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
