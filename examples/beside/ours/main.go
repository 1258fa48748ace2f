// The first limited request as a whole program; see docs/compared.md.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/limiter"
)

func main() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	l, err := limiter.Open(ctx, dynamodb.NewFromConfig(cfg), "zae-limiter", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Allow(ctx, "project:123", limiter.PerSecond("rps", 10)))
}
