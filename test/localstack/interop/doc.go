// Package interop runs the real Python zae-limiter and this client on one table, and compares how
// each reads the other's writes.
//
// The tests also need Python 3.10 or newer, so they have the build tag "interop": `make
// test-interop` runs them, and installs the pinned releases into .cache/python. Each test is a
// scenario, run on both engines with each release that has the tested feature, on a table of the
// committed template. The Python side is driver.py, a process that follows the scenario and decides
// nothing.
//
// The comment of each test states the behaviour that it covers.
package interop
