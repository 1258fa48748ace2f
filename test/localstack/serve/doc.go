// Package serve contains only tests of `zae-limiter serve` as a process, on an emulator: its
// OpenAPI document and a thousand connections. With the build tag "envoy" they run the clients of
// its page, check the units on it, and send HTTP through a released Envoy that queries it: `make
// test-envoy` installs Envoy into .cache/serve. That needs Python, Node and systemd.
package serve
