// Package function is what the Lambda functions have in common while they run. It reads their
// configuration from the environment and runs the jobs of a batch. It makes the partial batch
// response, and the summary for the log line and the metric line. How a process starts is in
// functions/internal/start: it needs the Lambda library, which importers of this package must
// not get.
//
// The infrastructure sets the variables and names the metrics by the constants here. All
// problems with an environment are reported together, each with the variable, its value
// and the accepted ones. Only Reporter performs I/O: it logs, and writes the metric line.
package function
