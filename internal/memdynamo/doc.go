// Package memdynamo is the in-memory twin of the table: a [store.Store] on a map.
//
// It executes the same [item.Write] values that are rendered for DynamoDB, with the same outcomes,
// images and refusals. The conformance suite (internal/storetest), which runs against real engines
// too, makes sure of it. It keeps the records of DynamoDB Streams as a list of [Change], and a
// [Hook] decides per call whether it is carried out and whether its answer arrives.
//
// It is for tests. Its indexes are always consistent, and its reads unless [DB.Lags] says so; it
// keeps everything in memory and forgets changes only when they are drained.
package memdynamo
