// Package deploy holds no code but tests, with the build tag "deploy". They deploy the stack with
// the real CDK command line tool into MiniStack, an emulator of AWS that enforces IAM. Clients
// and functions work there with the rights that the stack gives them. `make test-deploy` runs
// them.
//
// The emulator cannot do some things, which are not tested here. It has no alarms on metric
// expressions: one is made a plain one before the deployment. It has no conditions on leading
// keys: package rights looks at those. It does not check the rights with which a mapping reads
// the stream. It has no partial batch responses, retries, tumbling windows and destinations of
// mappings.
package deploy
