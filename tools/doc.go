// Package tools holds no code: its go.mod pins the tools of `make lint`, apart
// from what users of the library get to see.
package tools
