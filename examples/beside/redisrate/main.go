// The first limited request as a whole program; see docs/compared.md.
package main

import (
	"context"
	"fmt"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

func main() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	limiter := redis_rate.NewLimiter(rdb)
	res, err := limiter.Allow(context.Background(), "project:123", redis_rate.PerSecond(10))
	if err != nil {
		panic(err)
	}
	fmt.Println("allowed", res.Allowed, "remaining", res.Remaining, "retry after", res.RetryAfter)
}
