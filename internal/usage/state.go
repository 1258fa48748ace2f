package usage

import (
	"encoding/base64"
	"encoding/json"
	"errors"
)

// State is what is carried from one batch to the next while a tumbling window is
// open. It is a list of what to write: losing it loses nothing, because the next
// record of a bucket shows what was not counted.
type State struct {
	Parts []Part // what is not counted yet, as Extend returns it
}

// stateMember is the one member of the state as Lambda carries it.
const stateMember = "zae"

// stateVersion is the first byte of the state. A state of another version counts
// as lost.
const stateVersion = 1

var errState = errors.New("state is none of ours")

// Oldest returns when the oldest record that is not counted was created, epoch
// milliseconds; 0 if all are.
func (s *State) Oldest() int64 {
	oldest := int64(0)
	for i := range s.Parts {
		if o := s.Parts[i].Oldest; oldest == 0 || o < oldest {
			oldest = o
		}
	}
	return oldest
}

// JSON returns the state as a JSON object. Of instants it keeps whole seconds, of
// clocks only whether they lie in the window.
func (s *State) JSON() []byte {
	w := packer{names: map[string]uint64{}}
	w.first(s)
	for i := range s.Parts {
		w.part(&s.Parts[i])
	}
	out := make([]byte, 0, base64.RawStdEncoding.EncodedLen(len(w.b))+16)
	out = append(out, `{"`+stateMember+`":"`...)
	out = base64.RawStdEncoding.AppendEncode(out, w.b)
	return append(out, `"}`...)
}

// ParseState reads the state that JSON returned. Anything else is an error and an
// empty state; nothing at all is no error.
func ParseState(text []byte) (State, error) {
	var members map[string]string
	if len(text) == 0 {
		return State{}, nil
	}
	if err := json.Unmarshal(text, &members); err != nil {
		return State{}, errors.Join(errState, err)
	}
	packed, ok := members[stateMember]
	if !ok && len(members) == 0 {
		return State{}, nil // the first batch of a window
	}
	b, err := base64.RawStdEncoding.DecodeString(packed)
	if err != nil {
		return State{}, errors.Join(errState, err)
	}
	r := unpacker{b: b}
	s := r.state()
	if r.bad || len(r.b) > 0 {
		return State{}, errState
	}
	return s, nil
}

// PackOwed returns a list of what is owed as bytes; [UnpackOwed] is the inverse.
func PackOwed(owed []Owed) []byte {
	w := packer{b: []byte{stateVersion}}
	w.uint(uint64(len(owed)))
	for _, o := range owed {
		w.key(o.Namespace, o.Resource, o.Entity)
		w.int(o.Start/1000 - w.base)
		w.uint(uint64(o.Events))
		w.base = o.Start / 1000
	}
	return w.b
}

// UnpackOwed reads what PackOwed returned. Anything else is an error and an empty
// list.
func UnpackOwed(b []byte) ([]Owed, error) {
	r := unpacker{b: b}
	if r.byte() != stateVersion {
		return nil, errState
	}
	var out []Owed
	for range r.count() {
		var o Owed
		o.Namespace, o.Resource, o.Entity = r.key()
		o.Start = r.millis(r.base)
		o.Events = int64(r.uint())
		r.base = o.Start / 1000
		out = append(out, o)
	}
	if r.bad || len(r.b) > 0 {
		return nil, errState
	}
	return out, nil
}
