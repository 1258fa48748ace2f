package item

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// decimal is an exact DynamoDB number: digits times ten to the power of exp.
// digits has neither leading nor trailing zeros; empty digits are zero.
type decimal struct {
	neg    bool
	digits string
	exp    int
}

// The range of DynamoDB numbers (developer guide, "Number").
const (
	maxDigits    = 38
	maxMagnitude = 125
	minMagnitude = -130
	maxNumeral   = 256 // longer numerals have no use, and are refused
)

var (
	errNumeral = errors.New("no decimal number")
	errDigits  = fmt.Errorf("more than %d significant digits", maxDigits)
	errRange   = fmt.Errorf("magnitude outside 1E%d to 9.99E+%d", minMagnitude, maxMagnitude)
)

// parseDecimal parses a numeral like DynamoDB.
func parseDecimal(s string) (decimal, error) {
	var d decimal
	if len(s) > maxNumeral {
		return d, errNumeral
	}
	mantissa, exponent, hasExp := strings.Cut(strings.ReplaceAll(s, "E", "e"), "e")
	if rest, ok := strings.CutPrefix(mantissa, "-"); ok {
		d.neg, mantissa = true, rest
	} else {
		mantissa = strings.TrimPrefix(mantissa, "+")
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	d.digits = whole + frac
	if d.digits == "" || strings.Trim(d.digits, "0123456789") != "" {
		return d, errNumeral
	}
	d.exp = -len(frac)
	if hasExp {
		n, err := strconv.Atoi(exponent)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return d, errNumeral
		}
		d.exp += max(-1000, min(n, 1000)) // no DynamoDB number is so large or small
	}
	return d.trimmed()
}

// trimmed drops insignificant zeros and checks the range.
func (d decimal) trimmed() (decimal, error) {
	d.digits = strings.TrimLeft(d.digits, "0")
	if d.digits == "" {
		return decimal{}, nil
	}
	long := len(d.digits)
	d.digits = strings.TrimRight(d.digits, "0")
	d.exp += long - len(d.digits)
	if len(d.digits) > maxDigits {
		return d, errDigits
	}
	if m := d.exp + len(d.digits) - 1; m > maxMagnitude || m < minMagnitude {
		return d, errRange
	}
	return d, nil
}

// String returns the number in plain digits, like DynamoDB.
func (d decimal) String() string {
	if d.digits == "" {
		return "0"
	}
	s := d.digits
	switch point := len(s) + d.exp; {
	case d.exp >= 0:
		s += strings.Repeat("0", d.exp)
	case point > 0:
		s = s[:point] + "." + s[point:]
	default:
		s = "0." + strings.Repeat("0", -point) + s
	}
	if d.neg {
		s = "-" + s
	}
	return s
}

// scaled returns d / 10^exp as an integer; exp must not exceed d.exp.
func (d decimal) scaled(exp int) *big.Int {
	z, ok := new(big.Int).SetString("0"+d.digits, 10)
	if !ok {
		panic("bug: digits of a decimal")
	}
	if d.digits != "" {
		z.Mul(z, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.exp-exp)), nil))
	}
	if d.neg {
		z.Neg(z)
	}
	return z
}

func (d decimal) cmp(e decimal) int {
	exp := min(d.exp, e.exp)
	return d.scaled(exp).Cmp(e.scaled(exp))
}

func (d decimal) add(e decimal) (decimal, error) {
	exp := min(d.exp, e.exp)
	z := d.scaled(exp)
	z.Add(z, e.scaled(exp))
	sum := decimal{neg: z.Sign() < 0, exp: exp}
	sum.digits = z.Abs(z).String()
	return sum.trimmed()
}

// number returns the exact value of a number attribute.
func number(v Value) (decimal, bool) {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok || n == nil {
		return decimal{}, false
	}
	d, err := parseDecimal(n.Value)
	return d, err == nil
}

// Plus returns a number value plus n, exactly; v must be a number.
func Plus(v Value, n int64) Value {
	out, ok := sum(v, N(n))
	if !ok {
		panic("bug: no number to add to, or none that can be stored")
	}
	return out
}

// Saturated returns a whole number, or the nearest number of 64 bits; ok is false if the value is
// not a whole number.
func Saturated(v Value) (n int64, ok bool) {
	whole, ok := Whole(v)
	if !ok {
		return 0, false
	}
	return Nearest(whole), true
}

// Whole returns a whole number of any size; ok is false if the value is not one.
func Whole(v Value) (n *big.Int, ok bool) {
	d, ok := number(v)
	if !ok || d.exp < 0 {
		return nil, false
	}
	return d.scaled(0), true
}

// LowBits returns the low 64 bits of a whole number.
func LowBits(n *big.Int) int64 {
	return int64(new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64)).Uint64())
}

// Nearest returns n, or the nearest number of 64 bits.
func Nearest(n *big.Int) int64 {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.Sign() < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}
