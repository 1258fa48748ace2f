package stream

import (
	"math"
	"strings"
	"time"
)

// maxEnabled is the last second of ten digits, in the year 2286.
const maxEnabled = 9_999_999_999

// enabled returns when a stream was enabled, epoch seconds: its ARN ends in
// /stream/2024-01-01T00:00:00.000. It is 0 for other ARNs: emulators make up
// names of their own.
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

// maxMillis is the last millisecond of the year 9999.
const maxMillis = 253402300799_999

// millis converts a JSON number of epoch seconds to milliseconds, rounding
// down. It is exact: no floating point. ok is false outside 1 to maxMillis.
func millis(num []byte) (ms int64, ok bool) {
	exp, fraction := 3, false
	for i, c := range num {
		switch {
		case c == '.':
			fraction = true
		case c == 'e' || c == 'E':
			e, ok := smallInt(num[i+1:])
			if !ok {
				return 0, false
			}
			return scale(ms, exp+e)
		case c == '-':
			return 0, false
		case ms >= math.MaxInt64/100: // digits beyond that cannot matter within range
			if !fraction {
				exp++
			}
		default:
			ms = ms*10 + int64(c-'0')
			if fraction {
				exp--
			}
		}
	}
	return scale(ms, exp)
}

func scale(m int64, exp int) (int64, bool) {
	for ; exp > 0 && m != 0; exp-- {
		if m > maxMillis {
			return 0, false
		}
		m *= 10
	}
	for ; exp < 0 && m != 0; exp++ {
		m /= 10
	}
	return m, m >= 1 && m <= maxMillis
}

// smallInt reads an exponent of a JSON number.
func smallInt(b []byte) (int, bool) {
	sign := 1
	if b[0] == '-' || b[0] == '+' {
		if b[0] == '-' {
			sign = -1
		}
		b = b[1:]
	}
	n := 0
	for _, c := range b {
		if n = n*10 + int(c-'0'); n > 10_000 {
			return 0, false
		}
	}
	return sign * n, true
}
