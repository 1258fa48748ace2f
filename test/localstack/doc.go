// Package localstack is the local emulator kit: it emulates AWS well enough, on one machine and
// without Docker, to run the built functions and the client end to end.
//
// Each part is a package. From the product they import only the specification of the table and the
// reader of its stream:
//
//	engine      starts dynoxide or DynamoDB Local, or takes the server at the SDK's endpoint variables
//	tablespec   reads the functions of the synthesized template, and their event source mappings
//	runtimeapi  speaks the Lambda Runtime API to the built binaries, restarts them, kills them on request
//	eventsource acts as an event source mapping: polls the stream, filters, batches, retries, bisects
//	fault       an HTTP proxy before the engine that throttles, refuses, applies-then-fails, delays and counts
//	s3          an S3 emulator in this process
//	ttl         deletes expired items the way DynamoDB's time-to-live service does
//	browser     a headless browser that opens pages for tests
//	rights      a program's calls of DynamoDB against the managed policies
//	stack       all of them together, from the committed template, for demo and end-to-end tests
//
// Run `make emulators` (npm ci in this folder) once; Go installs the rest.
// compose.yaml is for containers instead, and is used by no test.
package localstack
