// Package buckettest is the second opinion on package bucket: levels in exact
// rationals, worked out the obvious way, and the worst excess of a history over
// all windows of time (design I1). It is slow on purpose and used by tests only.
package buckettest
