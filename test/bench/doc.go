// Package bench measures the promises of the design: the cost of each path in DynamoDB capacity,
// and the time, memory and size that the client and the functions add. Nothing imports it.
//
// # The cost table
//
// `make cost` runs every path of the cost table against an emulator. It prints the consumed
// capacity, including indexes, next to the budget. The test TestCostsAreAsBudgeted fails if they
// differ on either emulator. A proxy reads the capacity that the emulator reports
// (ReturnConsumedCapacity=INDEXES). One charge that DynamoDB never reports is added by AWS's rule:
// a conditional write that fails costs one write unit per started KB of the existing item, at least
// one. Each line begins with "cost:".
//
// # The benchmarks
//
// `make bench` prints lines that begin with "bench:", after the usual lines of
// the testing package:
//
//	warm acquire      the limiter and the bare UpdateItem it makes (the same
//	                  rendered input, replayed on a twin bucket) take turns on
//	                  one emulator; the limiter's overhead is the median of the
//	                  paired differences. Target: at most 5 %.
//	repeated denial   time per denial by the last image, and the calls it made,
//	                  which must be none.
//	client compute    an acquire whose call is answered at once with a stored
//	                  image: time and allocations of the limiter alone.
//	functions         size of the deployed binaries (target: under 12 MB), time
//	                  from exec to the first next call (target: under 10 ms),
//	                  writes per batch of 100 records, and the peak resident
//	                  memory of a batch of 10,000 (target: under 96 MB).
//
// BenchmarkManyKeys, which make bench leaves out, sends a million keys through one process in
// virtual time and reports memory and units (docs/choosing-limits.md). It takes minutes.
//
// Package test/bench/fleet measures the cost of fleets of processes on one bucket, in virtual time,
// and partly on an emulator. `make bench` prints it as well.
//
// Decoding is compared with the Lambda library's event type in internal/stream; `make bench` runs
// that as well.
//
// Times depend on the machine and its other work, so compare only figures of one run. They are
// printed and never asserted. The tests of this package assert counts, units, sizes and memory. All
// emulators are local: their latency is lower than AWS's, so the limiter's overhead looks larger
// than in production.
package bench
