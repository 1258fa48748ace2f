package store

import (
	"crypto/rand"
	"encoding/hex"
)

// NewToken returns a fresh client request token for a transaction: 32 hexadecimal
// digits.
func NewToken() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
