// Package rights compares a program's DynamoDB calls, as recorded by the fault proxy, with the
// managed policies of the committed template. A policy allows every call that programs of its kind
// make and no other call, and a namespace's policy allows no call on another namespace.
package rights
