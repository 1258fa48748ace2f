package itemtest

import "github.com/zeroae/zae-limiter-go/internal/item"

// WriteUnits returns the write units of a plain write that turns one item into another
// (nil: none): one for every started kilobyte of the larger, at least one.
func WriteUnits(before, after item.Item) int {
	return max(1, (max(item.Size(before), item.Size(after))+1023)/1024)
}
