// Package storetest is the conformance suite of [store.Store]: what every
// implementation must do alike, the in-memory twin and a table on any engine.
// Every implementation runs it in its tests.
package storetest
