// Package envoy holds no code but tests, with the build tag "envoy". They send HTTP through a released
// Envoy that asks `zae-limiter serve`, on a stand-in. `make test-envoy` installs Envoy into .cache/envoy and
// runs them.
package envoy
