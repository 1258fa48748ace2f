package otellimit_test

import (
	"context"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/otellimit"
)

// A limiter that is measured and traced by the global providers.
func ExampleNew() {
	_ = func(ctx context.Context, db limiter.DynamoDB) (*limiter.Limiter, error) {
		obs, err := otellimit.New(otellimit.Options{})
		if err != nil {
			return nil, err
		}
		return limiter.Open(ctx, db, "zae-limiter", &limiter.Options{Observe: obs.Observe})
	}
}
