package config

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Access is what a level of the configuration says about requests besides their limits. The levels
// are entity, entity on all resources, and resource. Switch and Cascade are decided each by itself,
// by the first level that says anything. The level may have no limits.
type Access struct {
	Switch Switch
	// Cascade is whether the parent is charged too, whatever the entity's own metadata say. nil leaves
	// it to the next level, and in the end to the metadata.
	Cascade *bool
}

// Switch says whether requests go by their limits.
type Switch int

const (
	// Undecided leaves it to the next level.
	Undecided Switch = iota
	// SwitchedOff grants nothing.
	SwitchedOff
	// SwitchedOn lets requests go by their limits, whatever the next levels say.
	SwitchedOn
	// Bypassed grants everything, and takes nothing for it.
	Bypassed
)

// AttrDisabled is the attribute of a configuration that says whether requests are served.
const AttrDisabled = "disabled" // and the word for that they are not

const bypass = "bypass"

// Combined is what the levels of a configuration say together, the most specific first.
func Combined(levels ...Access) (a Access) {
	for _, level := range levels {
		if a.Switch == Undecided {
			a.Switch = level.Switch
		}
		if a.Cascade == nil {
			a.Cascade = level.Cascade
		}
	}
	return a
}

// SwitchTo returns the write that stores whether requests go by their limits, not Bypassed,
// over what is there (nil: nothing) under a condition; nil if that is stored already. What
// else is stored stays. An item in which nothing is left is deleted.
func (c Config) SwitchTo(to Switch, stored item.Item, cond item.Cond) item.Write {
	if AccessOf(stored).Switch == to {
		return nil
	}
	bare := Config{Namespace: c.Namespace, Entity: c.Entity, Resource: c.Resource}.Item()
	u := item.Update{Key: c.Key(), If: cond}
	if to == Undecided {
		for attr := range stored {
			if _, own := bare[attr]; !own && attr != AttrDisabled {
				u.Remove = []string{AttrDisabled}
				return u
			}
		}
		return item.Delete{Key: c.Key(), If: cond}
	}
	u.Set = []item.Attr{{Name: AttrDisabled, Value: item.Bool(to == SwitchedOff)}}
	for _, attr := range slices.Sorted(maps.Keys(bare)) {
		if attr != item.AttrPK && attr != item.AttrSK {
			u.SetIfAbsent = append(u.SetIfAbsent, item.Attr{Name: attr, Value: bare[attr]})
		}
	}
	return u
}

// Stamp returns the write that tells clients which do not read the configuration with each
// request what it says of a bucket. Ours do not read it off the bucket. The stamp of a bypass
// is theirs, as it has an end.
func Stamp(ns, entity, resource string, shard int, s Switch) item.Update {
	u := item.Update{Key: layout.BucketKey(ns, entity, resource, shard), If: item.Exists(item.AttrPK)}
	if s == SwitchedOff {
		u.Set = []item.Attr{{Name: AttrDisabled, Value: item.Bool(true)}}
	} else {
		u.Remove = []string{AttrDisabled}
	}
	if s != Bypassed {
		u.Remove = append(u.Remove, bypass)
	}
	return u
}

// SwitchSet are the details of the audit event of a switch.
func SwitchSet(s Switch) item.Item {
	v := item.Null()
	if s != Undecided {
		v = item.Bool(s == SwitchedOff)
	}
	return item.Item{AttrDisabled: v}
}

// AccessOf reads what the item of a configuration says. It never fails: what has another
// form than clients write counts as they count it, as on and as no cascade.
func AccessOf(it item.Item) (a Access) {
	switch v := it[AttrDisabled].(type) {
	case nil:
	case *types.AttributeValueMemberBOOL:
		a.Switch = SwitchedOn
		if v.Value {
			a.Switch = SwitchedOff
		}
	case *types.AttributeValueMemberS:
		a.Switch = SwitchedOn
		if v.Value == bypass {
			a.Switch = Bypassed
		}
	default:
		a.Switch = SwitchedOn
	}
	if v, ok := it[layout.AttrCascade]; ok {
		b, is := v.(*types.AttributeValueMemberBOOL)
		cascades := is && b.Value
		a.Cascade = &cascades
	}
	return a
}
