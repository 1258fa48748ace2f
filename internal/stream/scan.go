package stream

import (
	"bytes"
	"encoding/json"
)

// scanner reads valid JSON, as checked by json.Valid, and never beyond the end of its object or
// array.
//
// Decoding with encoding/json would take several times as long and hundreds of allocations per
// record, and the aggregator decodes everything that clients write. In the tests, a second decoder
// based on encoding/json checks this one.
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

// open enters an object or array. If the value does not begin with the bracket, it returns false
// and does not move.
func (s *scanner) open(bracket byte) bool {
	is := s.peek() == bracket
	if is {
		s.pos++
	}
	return is
}

// more moves to the next element of the array or object that closes with bracket; first is true
// before the first element. At the end, it leaves the array or object and returns false.
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

// raw reads a string as written, with its quotes. plain is true if the bytes need no decoding: no
// escapes, and only ASCII, as other bytes may not be valid UTF-8.
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

// value reads a value of any kind as written.
func (s *scanner) value() []byte {
	s.peek()
	start := s.pos
	s.skip()
	return s.data[start:s.pos]
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
