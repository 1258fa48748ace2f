// Package storetest is the conformance suite of [store.Store]: the behaviour that all
// implementations share, the in-memory twin and tables on any engine. Every implementation runs it
// in its tests.
package storetest
