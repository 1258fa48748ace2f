package limiter

import "github.com/zeroae/zae-limiter-go/internal/namespace"

// What is wrong with the table rather than with a call. No policy turns these
// errors into a lease: asking again does not help, somebody has to act.
var (
	// ErrNamespace: the namespace is not registered, or was deleted. A running
	// Limiter notices that within Options.ConfigTTL and takes nothing any more.
	ErrNamespace = namespace.ErrMissing
	// ErrVersion: the table's version record excludes this package: its schema
	// has another major version, or it demands newer clients. Or the record of
	// the namespace cannot be read.
	ErrVersion = namespace.ErrVersion
)
