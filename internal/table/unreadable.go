package table

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// ErrUnreadable: an item with the key of a bucket holds what this module cannot read.
var ErrUnreadable = errors.New("limiter: unreadable bucket")

// notPositive is what is wrong with a number of a limit that is 0 or less. A refill
// amount of 0 is what calendar quotas of Python clients have.
func notPositive(it item.Item, prefix, limit, field string, n, most int64) error {
	if reset := prefix + limit + "_rsched"; it[reset] != nil {
		return fmt.Errorf("attribute %q is %d beside %q: a quota that Python clients reset by a calendar, which this "+
			"module does not serve", prefix+limit+"_"+field, n, reset)
	}
	return fmt.Errorf("attribute %q is %d, want 1 to %d", prefix+limit+"_"+field, n, most)
}

// shown renders a value for the message of an error.
func shown(v item.Value) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberS:
		return fmt.Sprintf("the string %.40q", v.Value)
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprint(v.Value)
	case *types.AttributeValueMemberNULL:
		return "null"
	}
	kind := fmt.Sprintf("%T", v)
	return "of type " + kind[strings.LastIndex(kind, "Member")+len("Member"):]
}
