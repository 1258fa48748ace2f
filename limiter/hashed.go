package limiter

import (
	"crypto/sha256"
	"encoding/hex"
)

// Hashed returns a name for an entity that is known by a secret, an API key say,
// so that the secret itself is never stored: "sha256:" and the first 128 bits of
// its SHA-256 in hexadecimal, 39 bytes that every client accepts as a name. It is
// for secrets that nobody can guess: short ones can be found by trying.
func Hashed(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return "sha256:" + hex.EncodeToString(sum[:16])
}
