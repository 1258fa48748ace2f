// Package storetest is the conformance suite of [store.Store]: the common behaviour of every
// implementation, the in-memory twin and a table on any engine. Every implementation runs it in its
// tests.
package storetest
