package config

import (
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

// Switch says whether requests are limited.
type Switch int

const (
	// Undecided leaves it to the next level.
	Undecided Switch = iota
	// SwitchedOff grants nothing.
	SwitchedOff
	// SwitchedOn limits requests, whatever the next levels say.
	SwitchedOn
	// Bypassed grants everything, and takes nothing for it.
	Bypassed
)

// AttrDisabled is the attribute of a configuration that says whether requests are served.
const AttrDisabled = "disabled" // and the word for that they are not

// WordBypass is what AttrDisabled says instead of a bool where everything is granted, and the stamp of a bucket.
const WordBypass = "bypass"

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

// accessAttrs are the attributes of an Access.
var accessAttrs = []string{layout.AttrCascade, AttrDisabled}

// Equal reports whether two levels say the same.
func (a Access) Equal(b Access) bool { return item.EqualItems(a.item(), b.item()) }

// item is what the level says as it is stored: nothing of what it leaves undecided.
func (a Access) item() item.Item {
	it := item.Item{}
	if a.Cascade != nil {
		it[layout.AttrCascade] = item.Bool(*a.Cascade)
	}
	switch a.Switch {
	case SwitchedOff, SwitchedOn:
		it[AttrDisabled] = item.Bool(a.Switch == SwitchedOff)
	case Bypassed:
		it[AttrDisabled] = item.S(WordBypass)
	}
	return it
}

// Declared is what of the Access of a level a manifest has declared. So the next manifest can take
// back that, and nothing that an operator has stored.
type Declared struct{ Switch, Cascade bool }

// attrDeclared is a set of the attributes that a manifest has declared.
const attrDeclared = "declared"

func (d Declared) item() item.Item {
	var attrs []string
	if d.Cascade {
		attrs = append(attrs, layout.AttrCascade)
	}
	if d.Switch {
		attrs = append(attrs, AttrDisabled)
	}
	if attrs == nil {
		return nil
	}
	return item.Item{attrDeclared: item.List(attrs)}
}

// DeclaredIn reads what a manifest has declared in the item of a configuration. Anything but a list
// of attributes declares nothing.
func DeclaredIn(it item.Item) Declared {
	r := item.Reader{It: it}
	attrs := r.Texts(attrDeclared)
	return Declared{slices.Contains(attrs, AttrDisabled), slices.Contains(attrs, layout.AttrCascade)}
}

// Decide has the level say something else of access. What of it has changed is no manifest's any more.
func (c *Config) Decide(to Access) {
	was := c.Access
	c.Declared.Switch = c.Declared.Switch && was.Switch == to.Switch
	c.Declared.Cascade = c.Declared.Cascade && was.Equal(Access{Switch: was.Switch, Cascade: to.Cascade})
	c.Access = to
}

// MaxBypass is how long a stamp of a bypass may be believed, in milliseconds: Python clients write
// theirs for so long, and then ask the configuration again.
const MaxBypass = 60_000

// Stamp returns the write that puts the configuration's switch on a bucket shard, for clients which do
// not read the configuration with each request. Ours do not read it off the bucket. A bypass is believed until
// an instant, at most MaxBypass after the configuration was read.
func Stamp(bucket item.Key, s Switch, until int64) item.Update {
	u := item.Update{Key: bucket, If: item.Exists(item.AttrPK)}
	switch s {
	case SwitchedOff:
		u.Set = []item.Attr{{Name: AttrDisabled, Value: item.Bool(true)}}
		u.Remove = []string{WordBypass}
	case Bypassed:
		u.Set = []item.Attr{{Name: WordBypass, Value: item.N(until)}}
		u.Remove = []string{AttrDisabled}
	default:
		u.Remove = []string{AttrDisabled, WordBypass}
	}
	return u
}

// AccessSet are the details of the audit event of a level that says something else than before: what
// has changed, null where it is left to the next level.
func AccessSet(was, to Access) item.Item {
	d := item.Item{}
	before, after := was.item(), to.item()
	for _, attr := range accessAttrs {
		switch v, was := after[attr], before[attr]; {
		case v == nil && was != nil:
			d[attr] = item.Null()
		case v != nil && !item.EqualItems(item.Item{attr: was}, item.Item{attr: v}):
			d[attr] = v
		}
	}
	return d
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
		if v.Value == WordBypass {
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
