package namespace

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/item"
)

const (
	// Schema is the version of the item formats that this module writes. Clients refuse a table
	// with another major version.
	Schema = "0.9.0"
	// Client is the Python release with which this module shares tables. Tables that require a
	// newer release are untested.
	Client = "0.17.0"
	// gated is the first Python release that reads the aggregator's release from the version
	// record, before it stores attributes that an older one would spoil.
	gated = "0.15.0"
)

// CheckVersion reads the version record, nil for none, and reports whether the table can be shared.
// Its schema must have the same major version, and it must not demand clients newer than [Client].
// The error is an ErrVersion.
func CheckVersion(it item.Item) (config.Version, error) {
	if it == nil {
		return config.Version{}, nil
	}
	v, err := config.DecodeVersion(it)
	if err != nil {
		return v, fmt.Errorf("%w: %w", ErrVersion, err)
	}
	schema, ok := parse(v.Schema)
	if ours, _ := parse(Schema); !ok || schema[0] != ours[0] {
		return v, fmt.Errorf("%w: schema_version is %q, want major version %d", ErrVersion, v.Schema, ours[0])
	}
	if v.ClientMin == "" {
		return v, nil
	}
	least, ok := parse(v.ClientMin)
	if ours, _ := parse(Client); !ok || compare(least, ours) > 0 {
		return v, fmt.Errorf("%w: client_min_version is %q, want at most %s", ErrVersion, v.ClientMin, Client)
	}
	return v, nil
}

// outdated reports whether a release of Python's aggregator is before gated. Clients of such
// releases never read the entry; only newer ones do, and they would replace the aggregator with
// their own code.
func outdated(lambda string) bool {
	v, ok := parse(lambda)
	first, _ := parse(gated)
	return ok && compare(v, first) < 0
}

type version [3]int

// parse reads "1.2.3", with an optional "v" before and an optional suffix after it.
func parse(s string) (v version, ok bool) {
	s, _, _ = strings.Cut(strings.TrimPrefix(s, "v"), "-")
	s, _, _ = strings.Cut(s, "+")
	parts := strings.Split(s, ".")
	if len(parts) > len(v) {
		return v, false
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

func compare(a, b version) int {
	return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]), cmp.Compare(a[2], b[2]))
}
