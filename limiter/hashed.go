package limiter

import (
	"crypto/sha256"
	"encoding/hex"
)

// Hashed returns a name for an entity that is known by a secret, such as an API key. The secret
// itself is never stored. The name is "sha256:" and the first 128 bits of the secret's SHA-256 in
// hexadecimal: 39 bytes that every client accepts. Use it for secrets that nobody can guess.
// Short ones can be found by trying.
func Hashed(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return "sha256:" + hex.EncodeToString(sum[:16])
}
