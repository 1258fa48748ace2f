package item

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// ValidateTransaction returns an error for a transaction that DynamoDB refuses
// whatever is stored.
func ValidateTransaction(token string, writes []Write) error {
	if token == "" || len(token) > MaxTokenLength {
		return fmt.Errorf("token %q of %d bytes, 1 to %d are accepted", token, len(token), MaxTokenLength)
	}
	if n := len(writes); n < 1 || n > MaxTransactItems {
		return fmt.Errorf("%d writes, 1 to %d are accepted", n, MaxTransactItems)
	}
	seen := make(map[Key]bool, len(writes))
	size := 0
	for _, w := range writes {
		if seen[w.Target()] {
			return fmt.Errorf("two writes to item %q", w.Target())
		}
		seen[w.Target()] = true
		if err := ValidateInTransaction(w); err != nil {
			return err
		}
		size += sent(transactItem("", w))
	}
	if size > MaxTransactSize {
		return fmt.Errorf("transaction of %d bytes, at most %d are accepted", size, MaxTransactSize)
	}
	return nil
}

// ValidateInTransaction is [Validate] for a write that stands in a transaction,
// where an update must change something.
func ValidateInTransaction(w Write) error {
	if u, ok := w.(Update); ok && u.expression(u.aliases()) == nil {
		return errors.New("update without an action in a transaction")
	}
	return Validate(w)
}

// sent returns how many bytes of a transaction's limit one of its writes takes, as
// DynamoDB Local counts: the key or the item, the expressions, and the names and
// values they stand for. What is stored does not count.
func sent(w types.TransactWriteItem) int {
	switch {
	case w.Put != nil:
		p := w.Put
		return Size(p.Item) + sentWith(nil, p.ConditionExpression, p.ExpressionAttributeNames, p.ExpressionAttributeValues)
	case w.Update != nil:
		u := w.Update
		return Size(u.Key) + sentWith(u.UpdateExpression, u.ConditionExpression, u.ExpressionAttributeNames,
			u.ExpressionAttributeValues)
	case w.Delete != nil:
		d := w.Delete
		return Size(d.Key) + sentWith(nil, d.ConditionExpression, d.ExpressionAttributeNames, d.ExpressionAttributeValues)
	}
	c := w.ConditionCheck
	return Size(c.Key) + sentWith(nil, c.ConditionExpression, c.ExpressionAttributeNames, c.ExpressionAttributeValues)
}

func sentWith(update, condition *string, names map[string]string, values Item) (n int) {
	for _, x := range []*string{update, condition} {
		if x != nil {
			n += len(*x)
		}
	}
	for _, name := range names {
		n += len(name)
	}
	for _, v := range values {
		n += valueSize(v)
	}
	return n
}
