// Package memdynamo is the in-memory twin of the table: a [store.Store] on a map.
//
// It executes the same [item.Write] values that are rendered for DynamoDB, with the same outcomes,
// images and refusals. The conformance suite (internal/storetest), which also runs against real
// engines, verifies that. It keeps the records of DynamoDB Streams as a list of [Change]. A [Hook]
// decides for each call whether it is performed and whether its answer arrives.
//
// It is for tests. Its indexes are always consistent, and so are its reads unless [DB.Lags] is set.
// It keeps everything in memory, and changes until they are drained.
package memdynamo
