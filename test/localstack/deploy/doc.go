// Package deploy contains only tests, with the build tag "deploy". They deploy the stack with the
// real CDK command-line tool into MiniStack, an emulator of AWS that enforces IAM. There, clients
// and functions run with the rights that the stack gives them. `make test-deploy` runs them.
//
// The emulator has limitations, so some things are not tested here. It has no alarms on metric
// expressions: one is replaced by a plain alarm before the deployment. It has no conditions on
// leading keys: package rights tests those. It does not check the rights with which a mapping reads
// the stream. Its mappings have no partial batch responses, retries, tumbling windows or
// destinations.
package deploy
