// Package item is the algebra of items, for any table: values and keys, equality and order as in
// DynamoDB, conditions, and conditional writes. It defines no records, and no attributes except
// keys.
//
// Writes are values. A [Write] renders to the DynamoDB API's input types with every attribute name
// aliased. It also applies to an item in memory, with the same result, so a twin of the table can
// execute exactly the same write. Nothing here performs I/O or reads a clock.
package item
