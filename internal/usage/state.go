package usage

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
)

// State is passed from one batch to the next while a tumbling window is open. It is a list of
// planned writes. If it is lost, nothing is lost, because the next record of a bucket shows all
// uncounted consumption.
type State struct {
	Parts []Part // not yet counted, in the form that Extend returns
}

// stateMember is the only member of the state's JSON object in Lambda.
const stateMember = "zae"

// owedVersion is the first byte of a packed list of [Owed].
const owedVersion = 2

var errState = errors.New("not a state of this aggregator")

// Oldest returns when the oldest uncounted record was created, epoch milliseconds, or 0 if all are
// counted.
func (s *State) Oldest() int64 {
	oldest := int64(0)
	for i := range s.Parts {
		if o := s.Parts[i].Oldest; oldest == 0 || o < oldest {
			oldest = o
		}
	}
	return oldest
}

// JSON returns the state as a JSON object. Instants are stored in whole seconds, and of clocks only
// whether they are in the window.
func (s *State) JSON() []byte {
	w := packer{names: map[string]uint64{}}
	w.first(s.Parts)
	for i := range s.Parts {
		w.part(&s.Parts[i])
	}
	out := make([]byte, 0, base64.RawStdEncoding.EncodedLen(len(w.b))+16)
	out = append(out, `{"`+stateMember+`":"`...)
	out = base64.RawStdEncoding.AppendEncode(out, w.b)
	return append(out, `"}`...)
}

// ParseState parses the result of JSON. Anything else is an error and gives an empty state; an
// empty text is not an error.
func ParseState(text []byte) (State, error) {
	packed, err := packedState(text)
	if packed == nil || err != nil {
		return State{}, err
	}
	b := make([]byte, base64.RawStdEncoding.DecodedLen(len(packed)))
	n, err := base64.RawStdEncoding.Decode(b, packed)
	if err != nil {
		return State{}, errors.Join(errState, err)
	}
	r := unpacker{b: b[:n]}
	parts := r.parts()
	if r.bad || len(r.b) > 0 {
		return State{}, errState
	}
	return State{Parts: parts}, nil
}

// packedState returns the member of the state, or nothing in the first batch of a window. A state
// in the form that JSON returns is not parsed as JSON, because it has up to 700 KB, with every
// batch.
func packedState(text []byte) ([]byte, error) {
	const begin, end = `{"` + stateMember + `":"`, `"}`
	if inner, ok := bytes.CutPrefix(text, []byte(begin)); ok {
		if packed, ok := bytes.CutSuffix(inner, []byte(end)); ok && !bytes.ContainsAny(packed, "\"\\") {
			return packed, nil
		}
	}
	var members map[string]string
	if len(text) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, errors.Join(errState, err)
	}
	packed, ok := members[stateMember]
	if !ok && len(members) == 0 {
		return nil, nil
	}
	return []byte(packed), nil
}

// PackOwed encodes a list of owed sums; [UnpackOwed] is the inverse.
func PackOwed(owed []Owed) []byte {
	w := packer{b: []byte{owedVersion}}
	w.uint(uint64(len(owed)))
	for _, o := range owed {
		w.key(o.Namespace, o.Resource, o.Entity)
		w.int(o.Start/1000 - w.base)
		w.base = o.Start / 1000
	}
	return w.b
}

// UnpackOwed decodes the result of PackOwed; next is the second finest kind of window. Anything
// else is an error and gives an empty list.
func UnpackOwed(b []byte, next Window) ([]Owed, error) {
	r := unpacker{b: b}
	if r.byte() != owedVersion {
		return nil, errState
	}
	var out []Owed
	for range r.count() {
		var o Owed
		o.Namespace, o.Resource, o.Entity = r.key()
		o.Start = r.millis(r.base)
		r.base = o.Start / 1000
		o.Start = next.Start(o.Start)
		out = append(out, o)
	}
	if r.bad || len(r.b) > 0 {
		return nil, errState
	}
	return out, nil
}
