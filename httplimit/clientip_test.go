package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// ours are the proxies of these tests.
var ours = []string{"10.0.0.0/8", "192.0.2.1", "2001:db8:ffff::/48"}

func clientIP(t testing.TB, trusted ...string) func(*http.Request) string {
	t.Helper()
	f, err := httplimit.ClientIP(trusted...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// from is a request of a peer with these lines of X-Forwarded-For and Forwarded, separated by \n.
func from(peer, plain, standard string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = peer
	for name, lines := range map[string]string{"X-Forwarded-For": plain, "Forwarded": standard} {
		if lines != "" {
			r.Header[name] = strings.Split(lines, "\n")
		}
	}
	return r
}

func TestClientIP(t *testing.T) {
	const peer, v6 = "10.0.0.1", "2001:db8:1:2::/64"
	named := clientIP(t, ours...)
	for _, c := range []struct{ plain, standard, want string }{
		// What each proxy has appended is read from the right.
		{"", "", peer},
		{"203.0.113.9", "", "203.0.113.9"},
		{"1.2.3.4, 203.0.113.9", "", "203.0.113.9"},
		{"1.2.3.4, 203.0.113.9, 10.1.1.1", "", "203.0.113.9"},
		{"1.2.3.4\n203.0.113.9\n10.1.1.1,192.0.2.1", "", "203.0.113.9"},
		{"203.0.113.9, 192.0.2.2, 10.1.1.1", "", "192.0.2.2"},
		{"203.0.113.9, 2001:db8:ffff:1::7", "", "203.0.113.9"},
		{"", "for=203.0.113.9", "203.0.113.9"},
		{"", "For=1.2.3.4, FOR=203.0.113.9;proto=https;by=10.0.0.1, for=10.1.1.1", "203.0.113.9"},
		{"", "for=1.2.3.4\nproto=https; for=203.0.113.9\nfor=\"10.1.1.1:80\"", "203.0.113.9"},

		// Forms of addresses.
		{"\t203.0.113.9 ", "", "203.0.113.9"},
		{"203.0.113.9:443", "", "203.0.113.9"},
		{`"203.0.113.9"`, "", "203.0.113.9"},
		{"2001:db8:1:2:3:4:5:6", "", v6},
		{"2001:DB8:1:2:0:0:0:1", "", v6},
		{"[2001:db8:1:2::7]", "", v6},
		{"[2001:db8:1:2::7]:443", "", v6},
		{`"[2001:db8:1:2::7]:443"`, "", v6},
		{"2001:db8:1:2::7%eth0", "", v6},
		{"[2001:db8:1:2::7%eth0]:443", "", v6},
		{"::ffff:203.0.113.9", "", "203.0.113.9"},
		{"[::ffff:cb00:7109]:443", "", "203.0.113.9"},
		{"203.0.113.9, ::ffff:10.1.1.1", "", "203.0.113.9"},
		{"64:ff9b::203.0.113.9", "", "203.0.113.9"},
		{"[64:ff9b::cb00:7109%eth0]:443", "", "203.0.113.9"},
		{"203.0.113.9, 64:ff9b::10.1.1.1", "", "10.1.1.1"}, // not the proxy itself
		{"64:ff9b:1::203.0.113.9", "", "64:ff9b:1::/64"},
		{"2002:cb00:7109::1", "", "2002:cb00:7109::/64"},
		{"::1", "", "::/64"},
		{"", `for="203.0.113.9:443"`, "203.0.113.9"},
		{"", `for="[2001:db8:1:2::7]"`, v6},
		{"", `for="[2001:db8:1:2::7]:443"`, v6},
		{"", `for="[2001:db8:1:2::7]:_port"`, v6},
		{"", `for="203.0.113.9:_port";by="_a,b;for=1.2.3.4"`, "203.0.113.9"},
		{"", ` for = 203.0.113.9 ; x="\"" `, "203.0.113.9"},

		// What is no address hides what stands before.
		{"1.2.3.4, ", "", peer},
		{"1.2.3.4,", "", peer},
		{"1.2.3.4, , 10.1.1.1", "", peer},
		{"1.2.3.4\n ", "", peer},
		{"1.2.3.4, unknown", "", peer},
		{"1.2.3.4, _hidden", "", peer},
		{"1.2.3.4, 203.0.113.9.", "", peer},
		{"1.2.3.4, 203.0.113.256", "", peer},
		{"1.2.3.4, 203.0.113.09", "", peer},
		{"1.2.3.4, 3405803785", "", peer},
		{"1.2.3.4, 0xcb.0.0x71.9", "", peer},
		{"1.2.3.4, 203.0.113", "", peer},
		{"1.2.3.4, 203.0.113.9:", "", peer},
		{"1.2.3.4, 203.0.113.9:65536", "", peer},
		{"1.2.3.4, 203.0.113.9:443:443", "", peer},
		{"1.2.3.4, 203.0.113.9/32", "", peer},
		{"1.2.3.4, 203.0.113.9%eth0", "", peer},
		{"1.2.3.4, 203.0.113.9 5.6.7.8", "", peer},
		{"1.2.3.4, 203.0.113.9;5.6.7.8", "", peer},
		{"1.2.3.4, [203.0.113.9]", "", peer},
		{"1.2.3.4, [2001:db8:1:2::7", "", peer},
		{"1.2.3.4, 2001:db8:1:2::7]", "", peer},
		{"1.2.3.4, [[2001:db8:1:2::7]]", "", peer},
		{"1.2.3.4, []", "", peer},
		{"1.2.3.4, []:443", "", peer},
		{"1.2.3.4, 2001:db8:::1", "", peer},
		{"1.2.3.4, 1:2:3:4:5:6:7:8:443", "", peer},
		{"1.2.3.4, \"", "", peer},
		{"1.2.3.4, \"\"", "", peer},
		{"1.2.3.4, 203.0.113.9\x00", "", peer},
		{"1.2.3.4, 203.0.113.9\r", "", peer},
		{"1.2.3.4, ２０３.0.113.9", "", peer},
		{"1.2.3.4, for=203.0.113.9", "", peer},
		{"1.2.3.4, http://203.0.113.9", "", peer},
		{"", "for=1.2.3.4, 203.0.113.9", peer},
		{"", "for=1.2.3.4, for=unknown", peer},
		{"", `for=1.2.3.4, for="_hidden"`, peer},
		{"", "for=1.2.3.4, for=", peer},
		{"", "for=1.2.3.4, for", peer},
		{"", "for=1.2.3.4,", peer},
		{"", "for=1.2.3.4, proto=https", peer},
		{"", "for=1.2.3.4;for=203.0.113.9", peer},
		{"", "for=1.2.3.4, for=for=203.0.113.9", peer},
		{"", "for=1.2.3.4, xfor=203.0.113.9", peer},

		// All are proxies, so the client is not known.
		{"10.1.1.1", "", peer},
		{"10.2.2.2, 10.1.1.1", "", peer},
		{"", "for=10.1.1.1", peer},

		// A client opens quotes before what a proxy appends.
		{`"1.2.3.4, 203.0.113.9`, "", "203.0.113.9"},
		{"", `for="1.2.3.4, for=203.0.113.9`, peer},
		{"", `for=1.2.3.4;x=", for="[2001:db8:1:2::7]"`, peer},
		{"", `for=1.2.3.4;x=", for="[2001:db8:1:2::7]";by="_x"`, peer},
		{"", `for=1.2.3.4;x="\, for=203.0.113.9`, peer},
		{"", `for="1.2.3.4` + "\nfor=203.0.113.9", "203.0.113.9"},
		{"", `!"#$%&, for=203.0.113.9`, peer},
		{"", `!#$%&=;;=, for=203.0.113.9`, "203.0.113.9"},
		{"", `for=1.2.3.4;x=\, for=203.0.113.9`, "203.0.113.9"},

		// A client sends the field that the proxies do not write.
		{"203.0.113.9", "for=1.2.3.4", peer},
		{"1.2.3.4", "for=203.0.113.9", peer},
		{"203.0.113.9", "for=10.1.1.1", peer},
		{"203.0.113.9", "unknown", peer},
		{"203.0.113.9, 10.1.1.1", "for=1.2.3.4, for=203.0.113.9", "203.0.113.9"},
	} {
		if got := named(from(peer+":4711", c.plain, c.standard)); got != c.want {
			t.Errorf("X-Forwarded-For %q, Forwarded %q: %q, want %q", c.plain, c.standard, got, c.want)
		}
	}
}

// Of a peer that is no proxy no field is read, and the name is an entity.
func TestClientIPOfAPeer(t *testing.T) {
	l := limitertest.New(t).Limiter(nil)
	for peer, want := range map[string]string{
		"203.0.113.9:4711": "203.0.113.9", "203.0.113.9": "203.0.113.9", "[2001:db8:1:2::7%eth0]:4711": "2001:db8:1:2::/64",
		"[::ffff:203.0.113.9]:4711": "203.0.113.9", "[64:ff9b::203.0.113.9]:4711": "203.0.113.9",
		"[64:ff9b::10.0.0.1]:4711": "10.0.0.1", "@": "unknown", "": "unknown", "pipe:80": "unknown",
	} {
		for _, trusted := range [][]string{nil, ours} {
			got := clientIP(t, trusted...)(from(peer, "1.2.3.4", "for=1.2.3.4"))
			if got != want {
				t.Errorf("%q, behind %q: %q, want %q", peer, trusted, got, want)
			}
			if err := l.Allow(t.Context(), got, limiter.PerMinute("rpm", 100)); err != nil {
				t.Errorf("%q is no entity: %v", got, err)
			}
		}
	}
}

func TestClientIPRefusesBadProxies(t *testing.T) {
	for _, bad := range []string{"", "x", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/8 ", "0.0.0.0/0", "::/0",
		"::ffff:10.0.0.0/104", "::ffff:10.0.0.1", "10.0.0.1:80", "[::1]", "fe80::%eth0/10", "localhost",
		strings.Repeat("1", 1000)} {
		named, err := httplimit.ClientIP("10.0.0.0/8", bad)
		if !errors.Is(err, limiter.ErrInvalid) || named != nil || !strings.Contains(err.Error(), "trusted[1]") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	_, err := httplimit.ClientIP("10.0.0.0/33")
	want := `limiter: invalid: trusted[0] is "10.0.0.0/33", want an address or a prefix of proxies, not of everybody: ` +
		"10.0.0.5, 10.0.0.0/8, 2001:db8::/32"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// calls are connections that come from an address of this machine.
func calls(t *testing.T, address string) *http.Transport {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	out := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(out.CloseIdleConnections)
	return out
}

// A client sends what it likes through two real proxies, and is named by its address, or by its peer.
func TestClientIPBehindRealProxies(t *testing.T) {
	writes := map[string]func(p *httputil.ProxyRequest, before []string, client string){
		"X-Forwarded-For": func(p *httputil.ProxyRequest, before []string, client string) {
			p.Out.Header.Set("X-Forwarded-For", strings.Join(append(before, client), ", "))
		},
		"Forwarded": func(p *httputil.ProxyRequest, before []string, client string) {
			p.Out.Header.Set("Forwarded", strings.Join(append(before, "for="+client), ", "))
		},
	}
	named := clientIP(t, "127.0.0.2", "127.0.0.3")
	for field, write := range writes {
		var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, named(r)) })
		var front string
		for _, address := range []string{"127.0.0.2", "127.0.0.3", ""} { // from which the proxy before calls
			srv := httptest.NewServer(h)
			defer srv.Close()
			front = srv.URL
			to, err := url.Parse(front)
			if err != nil {
				t.Fatal(err)
			}
			h = &httputil.ReverseProxy{Transport: calls(t, address), Rewrite: func(p *httputil.ProxyRequest) {
				p.SetURL(to)
				for name := range writes { // what is not written goes through
					p.Out.Header[name] = p.In.Header[name]
				}
				client, _, _ := net.SplitHostPort(p.In.RemoteAddr)
				write(p, slices.Clone(p.In.Header[field]), client)
			}}
		}
		client := &http.Client{Transport: calls(t, "127.0.0.9")}
		for _, lie := range []string{"", "1.2.3.4", "127.0.0.2", "127.0.0.8, 127.0.0.3", `"`, "for=1.2.3.4", `for="`} {
			for lied := range writes {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front, nil)
				if err != nil {
					t.Fatal(err)
				}
				want := "127.0.0.9"
				if lie != "" {
					r.Header.Set(lied, lie)
					if lied != field || field == "Forwarded" && strings.Contains(lie, `"`) {
						want = "127.0.0.2"
					}
				}
				a, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(a.Body)
				a.Body.Close()
				if err != nil || string(got) != want {
					t.Errorf("proxies write %s, a client sends %s: %s: %q, %v, want %q", field, lied, lie, got, err, want)
				}
			}
		}
	}
}

// Whatever a client sends, on the same line as its proxy or before it, it is named by its address or by
// the proxy, its peer. A second reading, by expressions and package net, finds the same.
func FuzzClientIP(f *testing.F) {
	f.Add("10.0.0.1:1", `1.2.3.4, "[2001:db8::1]:80"`, `for="[2001:db8::1%x]:_p";x="\"", for=10.1.1.1`)
	f.Add("10.0.0.1:1", "1.2.3.4\n10.1.1.1", "for=1.2.3.4;x=\"")
	f.Add("[::ffff:10.0.0.1]:1", "64:ff9b::1.2.3.4", "")
	f.Add("203.0.113.9:1", "1.2.3.4", "")
	f.Add("10.0.0.1:1", "", `for="a\"b`+"\n"+`for=::1;`)
	f.Add("10.0.0.1:1", "[fe80::1%a]b]:_c", "for=fe80::1%:_;FOR=")
	named := clientIP(f, ours...)
	f.Fuzz(func(t *testing.T, peer, plain, standard string) {
		if got, want := named(from(peer, plain, standard)), secondReading(peer, plain, standard); got != want {
			t.Errorf("peer %q, X-Forwarded-For %q, Forwarded %q: %q, want %q", peer, plain, standard, got, want)
		}
		for _, sep := range []string{", ", ",", "\n"} {
			for _, client := range []string{"203.0.113.9", "2001:db8:1:2::7"} {
				name := map[bool]string{true: "203.0.113.9", false: "2001:db8:1:2::/64"}[client == "203.0.113.9"]
				appended := plain + sep + client
				quoted := fmt.Sprintf(`%s%sfor="[%s]:80";by="10.1.1.1";proto=https`, standard, sep, client)
				if client == "203.0.113.9" {
					quoted = standard + sep + "for=" + client
				}
				if got := named(from("10.0.0.1:1", appended, "")); got != name {
					t.Errorf("X-Forwarded-For %q: %q", appended, got)
				}
				for _, both := range [][2]string{{"", quoted}, {appended, standard}, {plain, quoted}, {appended, quoted}} {
					if got := named(from("10.0.0.1:1", both[0], both[1])); got != name && got != "10.0.0.1" {
						t.Errorf("X-Forwarded-For %q, Forwarded %q: %q", both[0], both[1], got)
					}
				}
			}
		}
	})
}

var (
	inQuotes  = regexp.MustCompile(`(?s)"(\\.|[^"\\])*"`)
	addresses = regexp.MustCompile(`(?s)^(?:([0-9.]+)(:[0-9]+)?|` +
		`\[([0-9a-fA-F:.]+)(?:%.+?)?\](:[0-9]+)?|([0-9a-fA-F.]*:[0-9a-fA-F:.]*)(?:%.+)?)$`)
)

func secondReading(peer, plain, standard string) string {
	p := readAgain(peer)
	is := func(ip net.IP, networks ...string) bool {
		return slices.ContainsFunc(networks, func(n string) bool {
			_, network, err := net.ParseCIDR(n)
			return err == nil && ip != nil && network.Contains(ip)
		})
	}
	trusted := []string{"10.0.0.0/8", "192.0.2.1/32", "2001:db8:ffff::/48"}
	last := func(hops []net.IP) net.IP {
		for len(hops) > 0 && is(hops[len(hops)-1], trusted...) {
			hops = hops[:len(hops)-1]
		}
		if len(hops) == 0 {
			return nil
		}
		return hops[len(hops)-1]
	}
	client := p
	if is(p, trusted...) {
		var hops, elements []net.IP
		for _, v := range strings.Split(strings.ReplaceAll(plain, "\n", ","), ",") {
			hops = append(hops, readAgain(v))
		}
		for _, line := range strings.Split(standard, "\n") {
			elements = append(elements, elementsAgain(line)...)
		}
		one, two := last(hops), last(elements)
		if plain == "" {
			one = two
		} else if standard == "" {
			two = one
		}
		if one != nil && one.Equal(two) {
			client = one
		}
	}
	switch {
	case client == nil:
		return "unknown"
	case is(client, "64:ff9b::/96"):
		return client[12:].String()
	case client.To4() != nil:
		return client.String()
	}
	return client.Mask(net.CIDRMask(64, 128)).String() + "/64"
}

// elementsAgain returns the addresses that the elements of a line of Forwarded have.
func elementsAgain(line string) (out []net.IP) {
	hidden := inQuotes.ReplaceAllStringFunc(line, func(s string) string { return strings.Repeat("q", len(s)) })
	if strings.Contains(hidden, `"`) {
		return []net.IP{nil}
	}
	cut := func(from, to int, sep string) (at [][2]int) {
		for _, part := range strings.SplitAfter(hidden[from:to], sep) {
			at = append(at, [2]int{from, from + len(strings.TrimSuffix(part, sep))})
			from += len(part)
		}
		return at
	}
	for _, element := range cut(0, len(line), ",") {
		var found []net.IP
		for _, pair := range cut(element[0], element[1], ";") {
			name, value, _ := strings.Cut(line[pair[0]:pair[1]], "=")
			if strings.ToLower(strings.Trim(name, " \t")) == "for" {
				found = append(found, readAgain(value))
			}
		}
		if len(found) != 1 {
			found = []net.IP{nil}
		}
		out = append(out, found[0])
	}
	return out
}

// readAgain reads an address, or returns nil.
func readAgain(s string) net.IP {
	s = strings.Trim(s, " \t")
	if len(s) > 1 && strings.HasPrefix(s, `"`) && strings.HasSuffix(s, `"`) {
		s = s[1 : len(s)-1]
	}
	s, _, _ = strings.Cut(s, ":_")
	m := addresses.FindStringSubmatch(s)
	if m == nil {
		return nil
	}
	if port := m[2] + m[4]; port != "" {
		if _, err := net.LookupPort("tcp", port[1:]); err != nil {
			return nil
		}
	}
	ip := net.ParseIP(m[1] + m[3] + m[5])
	if m[3] != "" && !strings.Contains(m[3], ":") {
		return nil
	}
	return ip
}
