package httplimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// ours are the proxies of these tests.
var ours = []string{"10.0.0.0/8", "192.0.2.1", "2001:db8:ffff::/48"}

func clientIP(t testing.TB, trusted ...string) func(*http.Request) string {
	t.Helper()
	f, err := httplimit.ClientIP(trusted...)
	check.Must(t, err)
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
	const peer, v4, v6 = "10.0.0.1", "203.0.113.9", "2001:db8:1:2::/64"
	named := clientIP(t, ours...)
	check := func(plain, standard, want string) {
		t.Helper()
		check.Equal(t, named(from(peer+":4711", plain, standard)), want,
			"X-Forwarded-For %q, Forwarded %q", plain, standard)
	}
	// What each proxy has appended is read from the right.
	check("", "", peer)
	for _, plain := range []string{v4, "1.2.3.4, 203.0.113.9", "1.2.3.4, 203.0.113.9, 10.1.1.1",
		"1.2.3.4\n203.0.113.9\n10.1.1.1,192.0.2.1", "192.0.2.2, 203.0.113.9, 10.1.1.1", "203.0.113.9, 2001:db8:ffff:1::7",
		`"1.2.3.4, 203.0.113.9`} { // a client has opened quotes
		check(plain, "", v4)
	}
	for _, standard := range []string{"for=203.0.113.9",
		"For=1.2.3.4, FOR=203.0.113.9;proto=https;by=10.0.0.1, for=10.1.1.1",
		"for=1.2.3.4\nproto=https; for=203.0.113.9\nfor=\"10.1.1.1:80\"", `for="203.0.113.9:443"`,
		`for="203.0.113.9:_port";by="_a,b;for=1.2.3.4"`, ` for = 203.0.113.9 ; x="\"" `, "for=\"1.2.3.4\nfor=203.0.113.9",
		`!#$%&=;;=, for=203.0.113.9`, `for=1.2.3.4;x=\, for=203.0.113.9`} {
		check("", standard, v4)
	}
	// Forms of addresses.
	for _, plain := range []string{"\t203.0.113.9 ", "203.0.113.9:443", `"203.0.113.9"`, "::ffff:203.0.113.9",
		"[::ffff:cb00:7109]:443", "203.0.113.9, ::ffff:10.1.1.1", "64:ff9b::203.0.113.9", "[64:ff9b::cb00:7109%eth0]:443"} {
		check(plain, "", v4)
	}
	for _, plain := range []string{"2001:db8:1:2:3:4:5:6", "2001:DB8:1:2:0:0:0:1", "[2001:db8:1:2::7]",
		`"[2001:db8:1:2::7]:443"`, "2001:db8:1:2::7%eth0", "[2001:db8:1:2::7%eth0]:443"} {
		check(plain, "", v6)
	}
	for _, standard := range []string{`for="[2001:db8:1:2::7]:443"`, `for="[2001:db8:1:2::7]:_port"`} {
		check("", standard, v6)
	}
	check("203.0.113.9, 64:ff9b::10.1.1.1", "", "10.1.1.1") // not the proxy itself
	check("64:ff9b:1::203.0.113.9", "", "64:ff9b:1::/64")
	check("2002:cb00:7109::1", "", "2002:cb00:7109::/64")
	check("::1", "", "::/64")
	// What is no address hides what stands before.
	for _, bad := range []string{" ", ", 10.1.1.1", "unknown", "_hidden", "203.0.113.9.", "203.0.113.256", "203.0.113.09",
		"3405803785", "0xcb.0.0x71.9", "203.0.113", "203.0.113.9:", "203.0.113.9:65536", "203.0.113.9:443:443",
		"203.0.113.9/32", "203.0.113.9%eth0", "203.0.113.9 5.6.7.8", "203.0.113.9;5.6.7.8", "[203.0.113.9]",
		"[2001:db8:1:2::7", "2001:db8:1:2::7]", "[[2001:db8:1:2::7]]", "[]:443", "2001:db8:::1", "1:2:3:4:5:6:7:8:443",
		`"`, `""`, `"203.0.113.99`, "203.0.113.9\x00", "203.0.113.9\r", "２０３.0.113.9", "for=203.0.113.9"} {
		check("1.2.3.4, "+bad, "", peer)
		check("1.2.3.4\n"+bad, "", peer)
	}
	for _, bad := range []string{"203.0.113.9", "for=unknown", `for="_hidden"`, "for=", "for", "", "proto=https",
		"for=203.0.113.9;for=203.0.113.9", "for=for=203.0.113.9", "xfor=203.0.113.9"} {
		check("", "for=1.2.3.4, "+bad, peer)
	}
	// All are proxies, so the client is not known.
	check("10.2.2.2, 10.1.1.1", "", peer)
	check("", "for=10.1.1.1", peer)
	// A client opens quotes before what a proxy appends.
	for _, standard := range []string{`for="1.2.3.4, for=203.0.113.9`, `for=1.2.3.4;x=", for="[2001:db8:1:2::7]"`,
		`for=1.2.3.4;x=", for="[2001:db8:1:2::7]";by="_x"`, `for=1.2.3.4;x="\, for=203.0.113.9`, `!"#$%&, for=203.0.113.9`} {
		check("", standard, peer)
	}
	// A client sends the field that the proxies do not write.
	check("203.0.113.9", "for=1.2.3.4", peer)
	check("1.2.3.4", "for=203.0.113.9", peer)
	check("203.0.113.9", "for=10.1.1.1", peer)
	check("203.0.113.9", "unknown", peer)
	check("203.0.113.9, 10.1.1.1", "for=1.2.3.4, for=203.0.113.9", v4)
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
			check.Equal(t, got, want, "%q, behind %q", peer, trusted)
			check.NoError(t, l.Allow(t.Context(), got, limiter.PerMinute("rpm", 100)), "%q is no entity", got)
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

// Whatever a client sends, on the same line as its proxy or before it, it is named by its address or by
// the proxy, its peer.
func FuzzClientIP(f *testing.F) {
	for _, sent := range []string{`1.2.3.4, "[2001:db8::1]:80"`, `for="[2001:db8::1%x]:_p";x="\"", for=10.1.1.1`,
		"1.2.3.4\n10.1.1.1", `for=1.2.3.4;x="`, `for="a\"b` + "\nfor=::1;", "[fe80::1%a]b]:_c", "for=fe80::1%:_;FOR="} {
		f.Add(sent, sent)
	}
	named := clientIP(f, ours...)
	f.Fuzz(func(t *testing.T, plain, standard string) {
		for _, sep := range []string{", ", ",", "\n"} {
			for client, name := range map[string]string{"203.0.113.9": "203.0.113.9",
				"[2001:db8:1:2::7]:80": "2001:db8:1:2::/64"} {
				appended, quoted := plain+sep+client, fmt.Sprintf(`%s%sfor="%s";by="10.1.1.1";proto=https`, standard, sep, client)
				if client == name { // needs no quotes
					quoted = standard + sep + "for=" + client
				}
				check.Equal(t, named(from("10.0.0.1:1", appended, "")), name, "X-Forwarded-For %q", appended)
				for _, both := range [][2]string{{"", quoted}, {appended, standard}, {plain, quoted}, {appended, quoted}} {
					if got := named(from("10.0.0.1:1", both[0], both[1])); got != name && got != "10.0.0.1" {
						t.Errorf("X-Forwarded-For %q, Forwarded %q: %q", both[0], both[1], got)
					}
				}
			}
		}
	})
}
