package admin

import (
	"iter"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// sequence yields what list hands on, for as long as that is wanted. The error of list is the last thing.
func sequence[T any](list func(yield func(T) bool) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := list(func(v T) bool { return yield(v, nil) }); err != nil {
			yield(*new(T), err)
		}
	}
}

// decoded yields what decode makes of items, but for those that it does not accept. An error is the last
// thing.
func decoded[T any](
	items iter.Seq2[item.Item, error], decode func(item.Item) (v T, ok bool, err error), op string, args ...any,
) iter.Seq2[T, error] {
	return sequence(func(yield func(T) bool) error {
		for it, err := range items {
			var v T
			ok := false
			if err == nil {
				v, ok, err = decode(it)
			}
			if err != nil {
				return fail(err, op, args...)
			}
			if ok && !yield(v) {
				break
			}
		}
		return nil
	})
}

// failing yields an error, and nothing else.
func failing[T any](err error) iter.Seq2[T, error] {
	return sequence(func(func(T) bool) error { return err })
}
