// Package twin serves the table in memory (internal/memdb) the way DynamoDB answers,
// for processes that are played with for hours of virtual time and millions of
// calls: an engine takes ten times as long. It is held to the conformance suite as
// the engines are, and to their capacity units.
//
// It knows the expressions that internal/item renders and no others, and one table:
// the name in a request is not looked at.
package twin
