package itemtest

import (
	"encoding/json"
	"testing"
)

// Strings are written as encoding/json writes them, character by character.
func TestQuotedIsAsJSONHasIt(t *testing.T) {
	for r := range rune(0x2100) {
		want, _ := json.Marshal("a" + string(r))
		if got := quoted("a" + string(r)); got != string(want) {
			t.Errorf("%q is written as %s, want %s", r, got, want)
		}
	}
}
