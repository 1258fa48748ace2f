package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/validate"
)

// nat64 has the IPv6 addresses that stand for the IPv4 address in their last four bytes (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// ClientIP returns a function that names the client of a request by its address, for
// limiter.Request.Entity: "203.0.113.9". An IPv6 client is named by its customer's network,
// "2001:db8:1:2::/64". Mapped addresses (::ffff:0:0/96) and NAT64 addresses (64:ff9b::/96) are
// named by their IPv4 address.
//
// Trusted are the addresses and prefixes of your own proxies: "10.0.0.5", "10.0.0.0/8". An
// untrusted peer is the client, whatever its header says. Behind proxies the client is the last
// untrusted address in X-Forwarded-For, or in Forwarded (RFC 7239). Each proxy must append the
// address that called it, or set the field to it. Earlier addresses may be forged, and are not
// read. If this finds no address, the client is named by its peer, a proxy, and shares that name
// with all such clients: because a value is not an address, all addresses are trusted, or both
// fields are there and differ. So proxies should remove the field that they do not write.
//
// A peer without an IP address, such as one on a Unix socket, is "unknown". The function is safe
// for concurrent use. The error is a limiter.ErrInvalid that names the entry of trusted.
func ClientIP(trusted ...string) (func(*http.Request) string, error) {
	t := make(proxies, len(trusted))
	for i, s := range trusted {
		p, err := netip.ParsePrefix(s)
		if a, none := netip.ParseAddr(s); none == nil && a.Zone() == "" {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil || p.Bits() == 0 || p.Addr().Is4In6() {
			return nil, validate.Invalid(fmt.Sprintf("trusted[%d]", i), s,
				"an address or a prefix of proxies, not of everybody: 10.0.0.5, 10.0.0.0/8, 2001:db8::/32")
		}
		t[i] = p
	}
	return func(r *http.Request) string { return named(t.client(r)) }, nil
}

// proxies are the addresses that are trusted.
type proxies []netip.Prefix

func (t proxies) has(a netip.Addr) bool {
	return slices.ContainsFunc(t, func(p netip.Prefix) bool { return p.Contains(a) })
}

// client returns the address of the client, zero if its peer has none.
func (t proxies) client(r *http.Request) netip.Addr {
	peer := address(r.RemoteAddr)
	if !t.has(peer) {
		return peer
	}
	fields := [][]string{r.Header.Values("X-Forwarded-For"), r.Header.Values("Forwarded")}
	plain := t.last(fields[0], func(line string) []string { return strings.Split(line, ",") }, address)
	standard := t.last(fields[1], func(line string) []string { return unquoted(line, ',') }, forwardedFor)
	switch {
	case len(fields[1]) == 0:
	case len(fields[0]) == 0:
		plain = standard
	case plain != standard: // a proxy has written one of them, and a client may have sent the other
		return peer
	}
	if !plain.IsValid() {
		return peer
	}
	return plain
}

// last returns the last address in the lines of a field that is not trusted. It is zero if there is
// none, or if something that is no address comes first.
func (t proxies) last(lines []string, split func(string) []string, read func(string) netip.Addr) netip.Addr {
	for _, line := range slices.Backward(lines) {
		for _, hop := range slices.Backward(split(line)) {
			if a := read(hop); !t.has(a) {
				return a
			}
		}
	}
	return netip.Addr{}
}

// unquoted splits a text at the separators that no quotes enclose. A text that ends within quotes
// is one part without an address: a client has opened them, and a proxy has appended to it.
func unquoted(s string, separator byte) (parts []string) {
	quoted, begin := false, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			parts, begin = append(parts, s[begin:i]), i+1
		}
	}
	if quoted {
		return []string{""}
	}
	return append(parts, s[begin:])
}

// forwardedFor returns the address that an element of Forwarded has, zero unless it has one.
func forwardedFor(element string) (a netip.Addr) {
	found := false
	for _, pair := range unquoted(element, ';') {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.EqualFold(strings.Trim(name, " \t"), "for") {
			continue
		}
		if found {
			return netip.Addr{}
		}
		a, found = address(value), true
	}
	return a
}

// address reads an address as net/http and proxies write it: bare or in quotes, with or without a
// port, a zone and brackets. It is zero for everything else.
func address(s string) netip.Addr {
	s = strings.Trim(s, " \t")
	if n := len(s); n > 1 && s[0] == '"' && s[n-1] == '"' {
		s = s[1 : n-1]
	}
	s, _, _ = strings.Cut(s, ":_") // a port that is hidden
	if strings.HasSuffix(s, "]") {
		s += ":0"
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		withPort, _ := netip.ParseAddrPort(s)
		a = withPort.Addr()
	}
	return a.WithZone("").Unmap()
}

// named returns the name of the client that has an address.
func named(a netip.Addr) string {
	if !a.IsValid() {
		return "unknown"
	}
	if nat64.Contains(a) {
		of16 := a.As16()
		a = netip.AddrFrom4([4]byte(of16[12:]))
	}
	if a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}
