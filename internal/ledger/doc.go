// Package ledger has what is kept of the past, as it is stored: usage by hour, day and month, what
// longer windows owe, thresholds of quotas, and the audit trail.
//
// Decoders return errors and never panic. Nothing here performs I/O or reads a clock.
package ledger
