package stream

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/table"
)

// quota stores an attribute of quotas, a number or a string.
func (d *decoder) quota(im *image, name []byte) {
	attr := d.intern(name)
	if !d.s.open('{') {
		d.s.skip()
		return
	}
	var v item.Value
	for first := true; d.s.more('}', &first); {
		kind := string(d.s.key())
		switch {
		case d.s.peek() != '"' || v != nil:
			d.s.skip()
		case kind == "S":
			v = item.S(string(d.s.text()))
		case kind == "N":
			v = &types.AttributeValueMemberN{Value: string(d.s.text())}
		default:
			d.s.skip()
		}
	}
	im.keep(attr, v)
}

// keep stores an attribute of quotas.
func (im *image) keep(attr string, v item.Value) {
	if im.quota == nil {
		im.quota = item.Item{}
	}
	if im.quota[attr] == nil && v != nil {
		im.quota[attr] = v
	}
}

// ends reads the ends of quota periods, a map of limits to numbers.
func (d *decoder) ends(im *image) {
	m := item.Item{}
	d.members(&im.rr, func(name []byte) {
		limit := d.intern(name)
		if n, ok := d.whole(); ok {
			m[limit] = item.N(n)
		}
	})
	im.keep(table.AttrRemainders, item.Map(m))
}
