package store

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
)

// NewToken returns a fresh client request token for a transaction: 32 hexadecimal
// digits.
func NewToken() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// NewNamespaceID returns a fresh namespace id: 64 random bits as 11 characters of
// URL-safe base64, never beginning with a dash, which command lines would take
// for an option.
func NewNamespaceID() string {
	for {
		var b [8]byte
		rand.Read(b[:])
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}
