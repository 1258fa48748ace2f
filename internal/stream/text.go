package stream

import (
	"unicode/utf16"
	"unicode/utf8"
)

// decoded returns the string that t stands for. Plain text is returned as it
// is, everything else is decoded into buf, which is returned too, possibly
// grown. Bytes that are no UTF-8 and lone surrogates become U+FFFD each, as in
// encoding/json.
func (t text) decoded(buf []byte) (str, grown []byte) {
	if t.plain {
		return t.raw, buf
	}
	buf = buf[:0]
	for r := t.raw; len(r) > 0; {
		switch {
		case r[0] == '\\' && r[1] == 'u':
			var c rune
			c, r = unicodeEscape(r)
			buf = utf8.AppendRune(buf, c)
		case r[0] == '\\':
			buf = append(buf, shortEscape(r[1]))
			r = r[2:]
		case r[0] < utf8.RuneSelf:
			buf = append(buf, r[0])
			r = r[1:]
		default:
			c, size := utf8.DecodeRune(r)
			buf = utf8.AppendRune(buf, c)
			r = r[size:]
		}
	}
	return buf, buf
}

// unicodeEscape decodes the escape that r starts with, \u00e9 say, or two of them if they are a
// surrogate pair, and returns the rest.
func unicodeEscape(r []byte) (rune, []byte) {
	c, _ := hex4(r[2:])
	r = r[6:]
	if !utf16.IsSurrogate(c) {
		return c, r
	}
	if len(r) >= 6 && r[0] == '\\' && r[1] == 'u' {
		low, _ := hex4(r[2:])
		if pair := utf16.DecodeRune(c, low); pair != utf8.RuneError {
			return pair, r[6:]
		}
	}
	return utf8.RuneError, r
}

func shortEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// hex4 reads four hexadecimal digits.
func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
