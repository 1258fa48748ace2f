package streams

import (
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// errNever marks a write that DynamoDB refuses whatever is stored.
var errNever = errors.New("can never be written")

// checked returns an error for writes that need not be sent: a foreign bucket
// has no bound on the number of limits, an expression has.
func checked(writes ...item.Write) error {
	for _, w := range writes {
		if err := item.Validate(w); err != nil {
			return errors.Join(errNever, err)
		}
	}
	return nil
}
