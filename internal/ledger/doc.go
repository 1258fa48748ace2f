// Package ledger has the stored forms of the past: usage by hour, day and month, owed sums of
// longer windows, thresholds of quotas, and the audit trail.
//
// Decoders return errors and never panic. Nothing here performs I/O or reads a clock.
package ledger
