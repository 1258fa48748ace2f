// Package rights compares a program's calls of DynamoDB, as the fault proxy sees them, with the
// managed policies of the committed template. A policy allows every call that a program of its kind
// makes and no call that none of them makes, and a namespace's policy no call on another namespace.
package rights
