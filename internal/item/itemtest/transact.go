package itemtest

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// ValidateTransaction returns an error for a transaction that DynamoDB refuses
// whatever is stored.
func ValidateTransaction(token string, writes []item.Write) error {
	if token == "" || len(token) > item.MaxTokenLength {
		return fmt.Errorf("token %q of %d bytes, 1 to %d are accepted", token, len(token), item.MaxTokenLength)
	}
	if n := len(writes); n < 1 || n > item.MaxTransactItems {
		return fmt.Errorf("%d writes, 1 to %d are accepted", n, item.MaxTransactItems)
	}
	seen := make(map[item.Key]bool, len(writes))
	size := 0
	for _, w := range writes {
		if seen[w.Target()] {
			return fmt.Errorf("two writes to item %q", w.Target())
		}
		seen[w.Target()] = true
		if err := ValidateInTransaction(w); err != nil {
			return err
		}
	}
	for _, w := range item.TransactInput("", token, writes).TransactItems {
		size += sent(w)
	}
	if size > item.MaxTransactSize {
		return fmt.Errorf("transaction of %d bytes, at most %d are accepted", size, item.MaxTransactSize)
	}
	return nil
}

// ValidateInTransaction is [item.Validate] for a write that stands in a transaction,
// where an update must change something.
func ValidateInTransaction(w item.Write) error {
	if u, ok := w.(item.Update); ok && u.Input("").UpdateExpression == nil {
		return errors.New("update without an action in a transaction")
	}
	return item.Validate(w)
}

// sent returns how many bytes one write takes of a transaction's limit. It counts as DynamoDB Local
// does: the key or the item, the expressions, their names and values. The stored item does not
// count.
func sent(w types.TransactWriteItem) int {
	switch {
	case w.Put != nil:
		p := w.Put
		return sentWith(p.Item, nil, p.ConditionExpression, p.ExpressionAttributeNames, p.ExpressionAttributeValues)
	case w.Update != nil:
		u := w.Update
		return sentWith(u.Key, u.UpdateExpression, u.ConditionExpression, u.ExpressionAttributeNames,
			u.ExpressionAttributeValues)
	case w.Delete != nil:
		d := w.Delete
		return sentWith(d.Key, nil, d.ConditionExpression, d.ExpressionAttributeNames, d.ExpressionAttributeValues)
	}
	c := w.ConditionCheck
	return sentWith(c.Key, nil, c.ConditionExpression, c.ExpressionAttributeNames, c.ExpressionAttributeValues)
}

func sentWith(it item.Item, update, condition *string, names map[string]string, values item.Item) int {
	n := item.Size(it) + item.Size(values) + len(aws.ToString(update)) + len(aws.ToString(condition))
	for alias := range values {
		n -= len(alias)
	}
	for _, name := range names {
		n += len(name)
	}
	return n
}
