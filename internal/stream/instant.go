package stream

import (
	"bytes"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// maxEnabled is the last second with ten digits, in the year 2286.
const maxEnabled = 9_999_999_999

// enabled returns when a stream was enabled, epoch seconds, from its ARN, which ends in
// /stream/2024-01-01T00:00:00.000. It is 0 for other ARNs, such as an emulator's.
func enabled(arn string) int64 {
	i := strings.LastIndex(arn, "/stream/")
	if i < 0 {
		return 0
	}
	t, err := time.Parse("2006-01-02T15:04:05", arn[i+len("/stream/"):])
	if s := t.Unix(); err == nil && s >= 0 && s <= maxEnabled {
		return s
	}
	return 0
}

// MaxMillis is the last millisecond of the year 9999.
const MaxMillis = 253402300799_999

// millis converts a JSON number of epoch seconds to milliseconds, rounding
// down. It is exact: no floating point. ok is false outside 1 to MaxMillis.
func millis(num []byte) (ms int64, ok bool) {
	if i := bytes.IndexAny(num, "eE"); i >= 0 {
		if e, err := strconv.Atoi(string(num[i+1:])); err != nil || e > 10_000 || e < -10_000 {
			return 0, false // it would take long
		}
	}
	r, ok := new(big.Rat).SetString(string(num))
	if !ok {
		return 0, false
	}
	r.Mul(r, big.NewRat(1000, 1))
	n := new(big.Int).Quo(r.Num(), r.Denom())
	return n.Int64(), n.IsInt64() && n.Int64() >= 1 && n.Int64() <= MaxMillis
}
