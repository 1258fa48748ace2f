// Package dbtest is the conformance suite of [store.Store]: what every
// implementation must do alike, the in-memory twin and a table on any engine.
// An implementation that does not run it does not exist.
package dbtest
