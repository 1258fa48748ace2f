package table

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Access is what a level of the configuration says of requests besides their limits. Of
// entity, entity on all resources, and resource the first level decides that says anything,
// of each by itself. The level may have no limits.
type Access struct {
	Switch Switch
	// Cascade is whether what is taken is charged to the parent too, whatever the entity's
	// own metadata say; nil leaves it to the next level, and in the end to them.
	Cascade *bool
}

// Switch says whether requests go by their limits.
type Switch int

const (
	// Undecided leaves it to the next level.
	Undecided Switch = iota
	// SwitchedOff: nothing is granted.
	SwitchedOff
	// SwitchedOn: requests go by their limits, whatever the next levels say.
	SwitchedOn
	// Bypassed: everything is granted, and nothing is taken for it.
	Bypassed
)

const (
	attrDisabled = "disabled"
	bypass       = "bypass"
)

// AccessOf reads what the item of a configuration says. It never fails: what has another
// form than clients write counts as they count it, as on and as no cascade.
func AccessOf(it item.Item) (a Access) {
	switch v := it[attrDisabled].(type) {
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
	if v, ok := it[attrCascade]; ok {
		b, is := v.(*types.AttributeValueMemberBOOL)
		cascades := is && b.Value
		a.Cascade = &cascades
	}
	return a
}
