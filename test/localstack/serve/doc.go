// Package serve holds no code but tests of `zae-limiter serve` as a process, on an emulator: its OpenAPI document
// and a thousand connections. With the build tag "envoy" they run the clients on its page, read the units there,
// and send HTTP through a released Envoy that asks it: `make test-envoy` installs Envoy into .cache/serve. That
// needs Python, Node and systemd.
package serve
