// Package rights tells what a program asks of DynamoDB, from the calls that
// the fault proxy sees, and what the managed policies of the committed template
// allow. Its tests hold the two against each other: a policy allows all that a
// program of its kind does, nothing that none of them does, and one for a
// namespace nothing of another.
package rights
