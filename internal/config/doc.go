// Package config is the environment of the functions: the names of the
// variables, which the infrastructure sets by the same constants, and their
// reading. All problems with an environment are reported together, each with the
// variable, its value and what is accepted.
package config
