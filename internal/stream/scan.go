package stream

import (
	"bytes"
	"encoding/json"
)

// scanner walks text that is JSON, as json.Valid says, and never beyond the end of its object or array.
//
// Unmarshaling with encoding/json would take several times as long and hundreds of allocations a
// record, and the aggregator decodes everything that clients write. A second decoder, on
// encoding/json, checks this one in the tests.
type scanner struct {
	data []byte
	pos  int
}

// peek skips white space and returns the next byte.
func (s *scanner) peek() byte {
	for {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
}

// open enters an object or array; it reports whether the value starts with the
// bracket and, if not, moves nothing.
func (s *scanner) open(bracket byte) bool {
	is := s.peek() == bracket
	if is {
		s.pos++
	}
	return is
}

// more moves to the next element of the array or object that closes with
// bracket; first is true before the first element. It reports whether there is
// one, and leaves the array or object if not.
func (s *scanner) more(bracket byte, first *bool) bool {
	ends := s.peek() == bracket
	if ends || !*first {
		s.pos++
	}
	*first = false
	return !ends
}

// key reads the name of an object's next member and its colon. The bytes must not be changed.
func (s *scanner) key() []byte {
	k := s.text()
	s.peek()
	s.pos++
	return k
}

// text reads a string. The bytes must not be changed: without escapes they are part of the data.
func (s *scanner) text() []byte {
	raw, plain := s.raw()
	if plain {
		return raw[1 : len(raw)-1]
	}
	var decoded string
	if err := json.Unmarshal(raw, &decoded); err != nil {
		panic("stream: bug: " + err.Error())
	}
	return []byte(decoded)
}

// raw reads a string as written, with its quotes, and reports whether it is what it stands for:
// without escapes, and without bytes beyond ASCII, which may be no UTF-8.
func (s *scanner) raw() (raw []byte, plain bool) {
	s.peek()
	start := s.pos
	plain = true
	for s.pos++; s.data[s.pos] != '"'; s.pos++ {
		switch c := s.data[s.pos]; {
		case c == '\\':
			plain = false
			s.pos++
		case c >= 0x80:
			plain = false
		}
	}
	s.pos++
	return s.data[start:s.pos], plain
}

// word reads a number, true, false or null.
func (s *scanner) word() []byte {
	s.peek()
	rest := s.data[s.pos:]
	n := bytes.IndexAny(rest, ",]} \t\r\n")
	s.pos += n
	return rest[:n]
}

// skip moves over a value of any kind.
func (s *scanner) skip() {
	for depth := 0; ; {
		switch s.peek() {
		case ',', ':':
			s.pos++
			continue
		case '{', '[':
			s.pos++
			depth++
		case '}', ']':
			s.pos++
			depth--
		case '"':
			s.raw()
		default:
			s.word()
		}
		if depth == 0 {
			return
		}
	}
}
