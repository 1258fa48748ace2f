package envoylimit

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func field(num protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), value))
}

// A request has the strings of the wire, whatever their bytes are, and the numbers next to them.
func FuzzUnmarshal(f *testing.F) {
	f.Add("edge", "user", "ann")
	f.Add("edge", "user", "ann\xff")
	f.Add("\xfe", "", "ÿ\xed\xa0\x80\ufffd")
	f.Fuzz(func(t *testing.T, domain, key, value string) {
		const seven = "\x08\x07" // field 1
		d := field(1, field(1, key)+field(2, value)) + field(3, seven)
		in, err := unmarshal([]byte(field(1, domain) + field(2, d) + "\x18\x07" + field(2, field(1, "")) + field(99, value)))
		if err != nil || len(in.Descriptors) != 2 || len(in.Descriptors[0].Entries) != 1 {
			t.Fatalf("%v, %v", in, err)
		}
		if e := in.Descriptors[0].Entries[0]; in.Domain != domain || e.Key != key || e.Value != value {
			t.Errorf("%q %q %q, want %q %q %q", in.Domain, e.Key, e.Value, domain, key, value)
		}
		if in.HitsAddend != 7 || in.Descriptors[0].HitsAddend.GetValue() != 7 {
			t.Errorf("hits %d and %d", in.HitsAddend, in.Descriptors[0].HitsAddend.GetValue())
		}
		if in, err := unmarshal([]byte(field(2, d+"\x0a\x05"+value[:min(4, len(value))]))); err == nil {
			t.Errorf("%v of a malformed message", in)
		}
	})
}
