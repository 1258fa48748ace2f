package item

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// Size returns the size of an item in bytes as DynamoDB bills it (developer guide, "DynamoDB item
// sizes and formats"): the UTF-8 bytes of every attribute name plus the size of its value. The
// guide gives the size of numbers only approximately; here it is as measured on DynamoDB Local.
func Size(it Item) int {
	n := 0
	for name, v := range it {
		n += len(name) + valueSize(v)
	}
	return n
}

func valueSize(v Value) int {
	const container, element = 3, 1
	n := 0
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return numberSize(v.Value)
	case *types.AttributeValueMemberBOOL, *types.AttributeValueMemberNULL:
		return 1
	case *types.AttributeValueMemberSS:
		for _, s := range v.Value {
			n += len(s)
		}
	case *types.AttributeValueMemberNS:
		for _, s := range v.Value {
			n += numberSize(s)
		}
	case *types.AttributeValueMemberBS:
		for _, b := range v.Value {
			n += len(b)
		}
	case *types.AttributeValueMemberL:
		n = container
		for _, e := range v.Value {
			n += element + valueSize(e)
		}
	case *types.AttributeValueMemberM:
		n = container
		for name, e := range v.Value {
			n += element + len(name) + valueSize(e)
		}
	}
	return n
}

// numberSize returns one byte for each pair of significant digits, one more, and one for a minus
// sign. Pairs are counted from the decimal point: 120 has the pairs 01 and 20.
func numberSize(s string) int {
	d, err := parseDecimal(s)
	if err != nil {
		return len(s)
	}
	n := (len(d.digits)+d.exp&1+1)/2 + 1
	if d.neg {
		n++
	}
	return n
}
