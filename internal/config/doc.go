// Package config has the stored form of all that an operator decides: limits at their levels, entities,
// namespaces, registries, and the conditional writes that change them.
//
// Decoders return errors and never panic. Nothing here performs I/O or reads a clock.
package config
