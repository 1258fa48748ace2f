// The first limited request as a whole program; see docs/compared.md.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
)

func main() {
	store, err := memorystore.New(&memorystore.Config{Tokens: 10, Interval: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	_, remaining, reset, ok, err := store.Take(context.Background(), "project:123")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("allowed", ok, "remaining", remaining, "reset", time.Unix(0, int64(reset)))
}
