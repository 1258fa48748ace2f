// Package buckettest is the second opinion on package bucket: levels in exact
// rationals, worked out the obvious way. It is slow on purpose and used by tests only.
package buckettest
