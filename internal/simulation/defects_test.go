package simulation

import "github.com/zeroae/zae-limiter-go/internal/item"

// defect is a weakness put back on purpose, to show that the judge sees it.
type defect struct {
	name    string
	write   func(n *network, o *op, w item.Write) item.Write // in place of a write
	outcome func(entity string, err error) error             // in place of an outcome
}
