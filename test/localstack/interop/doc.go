// Package interop runs the real Python zae-limiter and this client on one table
// and compares what each makes of the other's writes.
//
// The tests need Python 3.10 or newer beside what the others need, so they are
// behind the build tag "interop": run them with `make test-interop`, which
// installs the pinned releases into .cache/python. Each test is a scenario,
// played on both engines, on a table of the committed template. The Python side
// is driver.py, a process that does what the scenario says and decides nothing.
package interop
