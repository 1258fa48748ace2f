// Package itemtest has functions on items for the twin of a table and the tests, not for programs:
// JSON for goldens and streams, the one form of equal items, the results of a query, the transactions
// that DynamoDB refuses, the cost of a write, and a write that must hold.
package itemtest
