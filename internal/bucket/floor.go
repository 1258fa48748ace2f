package bucket

import (
	"strconv"
	"strings"
)

// A floor is the part of a capacity, in percent, that requests of a class leave for others.
// The floors of a limit are part of its stored configuration, as classes in order of name with
// their floors: "batch=40,free=60". No bucket knows of them: each request brings its own.

// MaxFloors is how many classes one limit names at most.
const MaxFloors = 8

// maxFloor is the highest floor: some of the capacity is to be had by every class.
const maxFloor = 99

// IsClass reports whether s is a name of 1 to 32 letters, digits, '_', '.' and '-'.
func IsClass(s string) bool {
	odd := func(c rune) bool {
		return !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '.' || c == '-')
	}
	return len(s) > 0 && len(s) <= 32 && strings.IndexFunc(s, odd) < 0
}

// AreFloors reports whether s is a valid value of Limit.Floors.
func AreFloors(s string) bool {
	before, n := "", 0
	for s != "" {
		part, rest, more := strings.Cut(s, ",")
		class, percent, ok := cutFloor(part)
		if !ok || class <= before || more && rest == "" || strconv.FormatInt(percent, 10) != part[len(class)+1:] {
			return false
		}
		before, s = class, rest
		n++
	}
	return n <= MaxFloors
}

// Floor returns the floor of a class, in percent. A class that the limit does not name has its
// highest floor: a name that is misspelt, or not stored yet, takes nothing from those that are
// to be first. A request that names no class has none.
func (l Limit) Floor(class string) (percent int64) {
	if class == "" {
		return 0
	}
	for rest := l.Floors; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, ",")
		name, n, _ := cutFloor(part)
		if name == class {
			return n
		}
		percent = max(percent, n)
	}
	return percent
}

// Bare returns the limit as buckets have it: without the fields that only configurations have.
func (l Limit) Bare() Limit {
	l.Floors, l.Ahead = "", 0
	return l
}

// cutFloor reads "batch=40".
func cutFloor(part string) (class string, percent int64, ok bool) {
	class, number, ok := strings.Cut(part, "=")
	percent, err := strconv.ParseInt(number, 10, 8)
	return class, percent, ok && err == nil && IsClass(class) && percent >= 0 && percent <= maxFloor
}

// WholeAbove returns how many whole tokens a level has above a floor, both in millitokens: none
// below the floor, and a negative number for a debt.
func WholeAbove(milli, floor int64) int64 {
	if milli > 0 {
		milli = max(0, SubSat(milli, floor))
	}
	return WholeTokens(milli)
}
