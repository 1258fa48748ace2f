package admin

import (
	"iter"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// decoded yields what decode makes of items, but for those that it does not accept. An error is the last
// thing.
func decoded[T any](
	items iter.Seq2[item.Item, error], decode func(item.Item) (v T, ok bool, err error), op string, args ...any,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for it, err := range items {
			v, ok := *new(T), true
			if err == nil {
				v, ok, err = decode(it)
			}
			if err != nil {
				yield(*new(T), fail(err, op, args...))
				return
			}
			if ok && !yield(v, nil) {
				return
			}
		}
	}
}

// failing yields an error, and nothing else.
func failing[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) { yield(*new(T), err) }
}
