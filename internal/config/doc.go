// Package config has what is decided before anybody takes a token, as it is stored: limits at their
// levels, entities, namespaces, registries, and the conditional writes that change them.
//
// Decoders return errors and never panic. Nothing here performs I/O or reads a clock.
package config
