// Package serve holds no code but tests of `zae-limiter serve` as a process, on a stand-in: the clients on its
// page, its OpenAPI document, a thousand connections, and the units of its page. With the build tag "envoy"
// they send HTTP through a released Envoy that asks it: `make test-envoy` installs Envoy into .cache/serve.
package serve
