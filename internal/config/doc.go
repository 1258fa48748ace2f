// Package config has the stored form of everything that an operator decides: limits at their
// levels, entities, namespaces and registries, and the conditional writes that change them.
//
// Decoders return errors and never panic. Nothing here performs I/O or reads a clock.
package config
