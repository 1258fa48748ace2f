// Package item is the algebra of items, for any table: values and keys, equality and order as
// DynamoDB has them, conditions, and conditional writes. It knows no record and no attribute but
// the keys.
//
// Writes are values. A [Write] renders to the DynamoDB API's input types with every attribute name
// aliased. It applies to an item in memory with the same meaning, so a twin of the table can
// execute exactly the same write. Nothing here performs I/O or reads a clock.
package item
