package stream

import (
	"bytes"
	"math"
	"strconv"

	"github.com/zeroae/zae-limiter-go/internal/table"
)

// integer reads a number attribute into n.
func (d *decoder) integer(im *image, n *int64, has *bool, problem string) {
	v, ok := d.whole()
	if !ok || *has {
		im.wrong(problem)
		return
	}
	*n, *has = v, true
}

// whole reads a number attribute that must be whole; it returns 0 if it does not fit 64 bits.
func (d *decoder) whole() (int64, bool) {
	t, ok := d.attr("N")
	if !ok {
		return 0, false
	}
	return parseInt(t)
}

// saturated reads a number attribute that must be whole; a number beyond 64 bits becomes the
// nearest that fits.
func (d *decoder) saturated() (int64, bool) {
	n, long, ok := d.digits()
	switch {
	case long == "":
		return n, ok
	case long[0] == '-':
		return math.MinInt64, true
	}
	return math.MaxInt64, true
}

// counter reads a number attribute that must be whole, of any size.
func (d *decoder) counter() (table.Counter, bool) {
	n, long, ok := d.digits()
	if long == "" {
		return table.CounterOf(n), ok
	}
	return table.ParseCounter(long)
}

// digits reads a number attribute that must be whole; long is set if it does not fit 64 bits.
func (d *decoder) digits() (n int64, long string, ok bool) {
	t, ok := d.attr("N")
	if !ok {
		return 0, "", false
	}
	if n, ok := parseInt(t); ok {
		return n, "", true
	}
	digits := bytes.TrimPrefix(t, []byte("-"))
	if len(digits) == 0 || bytes.ContainsFunc(digits, func(c rune) bool { return c < '0' || c > '9' }) {
		return 0, "", false
	}
	return 0, string(t), true
}

// parseInt parses an optional minus sign and digits. For anything else, or beyond 64 bits, it
// returns 0 and false.
func parseInt(b []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || b[0] == '+' {
		return 0, false
	}
	return n, true
}
