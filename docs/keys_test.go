package docs_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// The code of choosing-keys.md.

// keyOf returns the entity of a request with an API key that we have issued.
func keyOf(r *http.Request, issued func(key string) bool) (string, error) {
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || !issued(key) {
		return "", errors.New("no valid key")
	}
	return limiter.Hashed(key), nil
}

type claimsKey struct{}

type claims struct{ Issuer, Tenant string }

// tenantOfToken returns the entity of a request whose token was verified.
func tenantOfToken(r *http.Request) (string, error) {
	claims, ok := r.Context().Value(claimsKey{}).(claims) // put there by the middleware that has verified it
	if !ok || claims.Tenant == "" {
		return "", errors.New("no verified token")
	}
	return claims.Issuer + " " + claims.Tenant, nil
}

// nat64 is where an IPv6 address stands for one IPv4 address.
var nat64 = netip.MustParsePrefix("64:ff9b::/47")

// networkOf returns the entity of the network that called the first of our own proxies.
func networkOf(r *http.Request, proxies int) (string, error) {
	hops := []string{r.RemoteAddr}
	if proxies > 0 {
		hops = strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	}
	first := len(hops) - max(proxies, 1)
	if first < 0 {
		return "", errors.New("came past the proxies")
	}
	hop := strings.TrimSpace(hops[first])
	if host, _, err := net.SplitHostPort(hop); err == nil {
		hop = host
	}
	addr, err := netip.ParseAddr(strings.Trim(hop, "[]"))
	if err != nil {
		return "", err
	}
	addr = addr.Unmap().WithZone("")
	bits := 64 // of one customer; many have more
	if addr.Is4() || nat64.Contains(addr) {
		bits = addr.BitLen()
	}
	network, err := addr.Prefix(bits)
	return "ip " + network.String(), err
}

func TestKeyOf(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	issued := func(key string) bool { return key == "s3cret" }
	if got, err := keyOf(r, issued); err == nil {
		t.Errorf("without a key: %q", got)
	}
	r.Header.Set("Authorization", "Bearer made up")
	if got, err := keyOf(r, issued); err == nil {
		t.Errorf("with a made-up key: %q", got)
	}
	r.Header.Set("Authorization", "Bearer s3cret")
	if got, err := keyOf(r, issued); err != nil || strings.Contains(got, "s3cret") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTenantOfToken(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if got, err := tenantOfToken(r); err == nil {
		t.Errorf("without a token: %q", got)
	}
	of := claims{Issuer: "https://login.example.com/", Tenant: "acme"}
	got, err := tenantOfToken(r.WithContext(context.WithValue(t.Context(), claimsKey{}, of)))
	if err != nil {
		t.Fatal(err)
	}
	l := limitertest.New(t).Limiter(nil)
	if err := l.Allow(t.Context(), got, limiter.PerMinute("rpm", 1)); err != nil {
		t.Errorf("%q is no entity: %v", got, err)
	}
}

func TestNetworkOf(t *testing.T) {
	for _, tt := range []struct {
		remote, forwarded string
		proxies           int
		want              string // empty: refused
	}{
		{"192.0.2.7:4711", "", 0, "ip 192.0.2.7/32"},
		{"192.0.2.7:4711", "203.0.113.9", 0, "ip 192.0.2.7/32"},
		{"10.0.0.1:4711", "203.0.113.9", 1, "ip 203.0.113.9/32"},
		{"10.0.0.1:4711", "1.2.3.4, 203.0.113.9", 1, "ip 203.0.113.9/32"},
		{"10.0.0.1:4711", "1.2.3.4, 203.0.113.9, 10.1.1.1", 2, "ip 203.0.113.9/32"},
		{"10.0.0.1:4711", "203.0.113.9:443", 1, "ip 203.0.113.9/32"},
		{"10.0.0.1:4711", "::ffff:203.0.113.9", 1, "ip 203.0.113.9/32"},
		{"10.0.0.1:4711", "2001:db8:1:2:3:4:5:6", 1, "ip 2001:db8:1:2::/64"},
		{"[2001:db8::1%eth0]:4711", "", 0, "ip 2001:db8::/64"},
		{"10.0.0.1:4711", "[2001:db8::1]", 1, "ip 2001:db8::/64"},
		{"10.0.0.1:4711", "[2001:db8::1]:443", 1, "ip 2001:db8::/64"},
		{"10.0.0.1:4711", "[2001:db8::1%eth0]", 1, "ip 2001:db8::/64"},
		{"10.0.0.1:4711", "[::ffff:203.0.113.9]:443", 1, "ip 203.0.113.9/32"},
		{"10.0.0.1:4711", "64:ff9b::203.0.113.9", 1, "ip 64:ff9b::cb00:7109/128"},
		{"10.0.0.1:4711", "[64:ff9b::c633:6407]:443", 1, "ip 64:ff9b::c633:6407/128"},
		{"[64:ff9b::203.0.113.9%eth0]:4711", "", 0, "ip 64:ff9b::cb00:7109/128"},
		{"10.0.0.1:4711", "64:ff9b:1::203.0.113.9", 1, "ip 64:ff9b:1::cb00:7109/128"},
		{"10.0.0.1:4711", "64:ff9b:2::1", 1, "ip 64:ff9b:2::/64"},
		{"10.0.0.1:4711", "", 1, ""},
		{"10.0.0.1:4711", "[]", 1, ""},
		{"10.0.0.1:4711", "203.0.113.9,", 1, ""},
		{"10.0.0.1:4711", "203.0.113.9", 2, ""},
		{"10.0.0.1:4711", "203.0.113.9, unknown", 1, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = tt.remote
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		got, err := networkOf(r, tt.proxies)
		if tt.want == "" && err == nil || tt.want != "" && (err != nil || got != tt.want) {
			t.Errorf("%s, %q behind %d proxies: %q, %v, want %q", tt.remote, tt.forwarded, tt.proxies, got, err, tt.want)
		}
	}
	l := limitertest.New(t).Limiter(nil)
	if err := l.Allow(t.Context(), "ip 2001:db8:1:2::/64", limiter.PerMinute("rpm", 1)); err != nil {
		t.Error(err)
	}
}
