package archive

import (
	"strings"
	"testing"
)

// Parts of a key have letters, digits, hyphens and underscores. Other characters become
// underscores.
func TestKeyParts(t *testing.T) {
	long := strings.Repeat("x", maxKeyPart)
	for text, want := range map[string]string{
		"azAZ09-_": "azAZ09-_", "`{@[/:": "______", "a b/c.d": "a_b_c_d", "ü€": "__", "": "", long: long, long + "y": long,
	} {
		if got := keyPart(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
