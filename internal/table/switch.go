package table

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// Switch says whether a level of the configuration has switched requests off. Of entity,
// entity on all resources, and resource the first level decides that says anything.
type Switch int

const (
	// Undecided leaves it to the next level.
	Undecided Switch = iota
	// SwitchedOff: nothing is granted.
	SwitchedOff
	// SwitchedOn: requests go by their limits, whatever the next levels say.
	SwitchedOn
)

const attrDisabled = "disabled"

// killSwitch reads the switch of a configuration. What is no boolean, as a bypass that
// ours does not serve, goes by the limits.
func (r *reader) killSwitch() Switch {
	v, ok := r.value(attrDisabled)
	if !ok {
		return Undecided
	}
	if off, is := v.(*types.AttributeValueMemberBOOL); is && off.Value {
		return SwitchedOff
	}
	return SwitchedOn
}
