// Package deploy holds no code but tests, with the build tag "deploy": they
// deploy the stack with the real CDK command line tool into MiniStack, an
// emulator of AWS that enforces IAM, and let clients and functions work there
// with the rights that the stack gives them. `make test-deploy` runs them.
//
// What the emulator cannot do is not tested here: alarms on metric
// expressions (one is made a plain one before the deployment), conditions on
// leading keys (package rights looks at those), the rights with which a mapping
// reads the stream, partial batch responses, retries, tumbling windows and
// destinations of mappings.
package deploy
