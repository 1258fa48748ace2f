package archive

import (
	"strings"
	"testing"
)

// Part of a key are letters, digits, hyphens and underscores; all else is an underscore.
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

func TestEventInOneLine(t *testing.T) {
	e := Event{NamespaceID: "ns", EventID: "id", Action: "limits_set", EntityID: "acme", Day: Day{2026, 3, 1},
		Sequence: "7"}
	const want = "ns/id limits_set acme day=2026-03-01 seq=7"
	if got := e.String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
