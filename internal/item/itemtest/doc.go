// Package itemtest has what the twin of a table and the tests need of items, and no
// program: JSON for goldens and streams, what a query finds, which transactions
// DynamoDB refuses, and what a write costs.
package itemtest
