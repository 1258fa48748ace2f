package config

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

const sampleNow = 1_700_000_000_000

var sampleLimits = []bucket.Limit{
	{Name: "rpm", Capacity: 100_000, Amount: 100_000, Period: 60_000},
	{Name: "tpm", Capacity: 20_000_000, Amount: 10_000_000, Period: 60_000},
}

func num(s string) item.Value { return &types.AttributeValueMemberN{Value: s} }
