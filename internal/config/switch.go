package config

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Access is a level's settings for requests besides limits. The levels are entity, entity on all
// resources, and resource. Switch and Cascade are each decided by the first level that sets it,
// even if the level has no limits.
type Access struct {
	Switch Switch
	// Cascade is whether the parent is charged too, overriding the entity's metadata. nil leaves it
	// to the next level, and finally to the metadata.
	Cascade *bool
}

// Switch determines whether requests are limited.
type Switch int

const (
	// Undecided leaves the decision to the next level.
	Undecided Switch = iota
	// SwitchedOff grants nothing.
	SwitchedOff
	// SwitchedOn limits requests, regardless of the next levels.
	SwitchedOn
	// Bypassed grants everything and charges nothing.
	Bypassed
)

// AttrDisabled is the attribute of a configuration that determines whether requests are served.
const AttrDisabled = "disabled" // also the word for disabled

// WordBypass is the value of AttrDisabled, instead of a bool, if everything is granted, and the
// mark on a bucket.
const WordBypass = "bypass"

// Combined returns the combined settings of several levels, the most specific first.
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

// Equal reports whether two levels have the same settings.
func (a Access) Equal(b Access) bool { return item.EqualItems(a.item(), b.item()) }

// item returns the settings in stored form, without undecided ones.
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

// Declared records which parts of a level's Access a manifest has declared. The next manifest can
// then remove those, and nothing that an operator has stored.
type Declared struct{ Switch, Cascade bool }

// attrDeclared is the set of attributes that a manifest has declared.
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

// DeclaredIn returns which settings a manifest has declared in a configuration item. Anything but a
// list of attributes declares nothing.
func DeclaredIn(it item.Item) Declared {
	r := item.Reader{It: it}
	attrs := r.Texts(attrDeclared)
	return Declared{slices.Contains(attrs, AttrDisabled), slices.Contains(attrs, layout.AttrCascade)}
}

// Decide changes the level's Access. Changed settings are no longer declared by a manifest.
func (c *Config) Decide(to Access) {
	was := c.Access
	c.Declared.Switch = c.Declared.Switch && was.Switch == to.Switch
	c.Declared.Cascade = c.Declared.Cascade && was.Equal(Access{Switch: was.Switch, Cascade: to.Cascade})
	c.Access = to
}

// MaxBypass is how long a bypass mark is valid, in milliseconds: Python clients write theirs for
// that long, and then read the configuration again.
const MaxBypass = 60_000

// Stamp returns the write that marks a bucket shard with the configuration's switch, for clients
// that do not read the configuration for each request. Our client does not read the mark. A bypass
// is valid until an instant, at most MaxBypass after the configuration was read.
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

// AccessSet returns the audit details of a changed Access: the settings that have changed, null for
// those left to the next level.
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

// AccessOf decodes the settings in a configuration item. It never fails: values in an unexpected
// form are treated as other clients treat them, as on and as no cascade.
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
