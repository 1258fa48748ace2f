// Package function has what the Lambda functions share while they run. It reads their configuration
// from the environment, runs the jobs of a batch, and makes the partial batch response and the
// summary for the log line and the metric line. Starting the process is in
// functions/internal/start, because that needs the Lambda library, which importers of this package
// must not depend on.
//
// The infrastructure sets the variables and names the metrics by the constants here. All problems
// of an environment are reported together, each with the variable, its value and the accepted
// values. Only Reporter performs I/O: it logs, and writes the metric line.
package function
