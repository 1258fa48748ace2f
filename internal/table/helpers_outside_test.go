package table_test

import "github.com/zeroae/zae-limiter-go/internal/table"

// These are the helpers of helpers_test.go.
var create, addAt, applied, decode, imageOf = table.MadeAt, table.AddAt, table.Applied, table.Decoded, table.ImageOf
