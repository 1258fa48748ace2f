package main

import (
	"context"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

// counted is a table that counts the items that are read.
type counted struct {
	memory
	keys int
}

func (c *counted) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput,
	opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	for _, of := range in.RequestItems {
		c.keys += len(of.Keys)
	}
	return c.memory.BatchGetItem(ctx, in, opts...)
}

// hostile are names that tenants could choose: markup, a link, another direction, and the longest there is.
var hostile = []string{`<script>document.title="taken"</script>`, `"><img src=x onerror=alert(1)>`,
	"javascript:alert(1)", "שלום עליכם", "a&b=c#d?e%20+f", strings.Repeat("W", 512)}

// dashboardRig has a table with a budget of 5 dollars of which acme has spent 2, and a rate that has denied it
// once, and returns what answers with the page of at most so many rows.
func dashboardRig(t *testing.T, most int) (*shell, http.Handler) {
	t.Helper()
	s := newShell(t)
	s.table.Advance(time.Hour)
	s.run(0, "limits", "set", "-y", "-r", "gpt-4", "rpm=10", "budget=$5@monthly")
	l := s.table.Limiter(nil)
	ask := func(entity string, costs limiter.Costs) {
		_, err := l.Acquire(t.Context(), limiter.Request{Entity: entity, Resource: "gpt-4", Costs: costs})
		if want := costs["rpm"] == 2; errors.Is(err, limiter.ErrLimited) != want || !want && err != nil {
			t.Fatal(err)
		}
	}
	ask("acme", limiter.Costs{"rpm": 9, "budget": limiter.USD(2)})
	for range 2 {
		ask("acme", limiter.Costs{"rpm": 2})
	}
	ask("acme", limiter.Costs{"rpm": 1}) // writes the denials
	now := s.table.Now().UTC()
	s.usage("monthly", time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC), 77)
	s.usage("monthly", time.Date(now.Year(), now.Month()-2, 1, 0, 0, 0, 0, time.UTC), 55)
	for _, name := range hostile {
		ask(name, limiter.Costs{"rpm": 1, "budget": 1})
	}
	_, d := openCounted(t, s, most)
	s.table.Trouble(limitertest.Trouble{Err: limitertest.ErrDenied, // a write would be a problem of the page
		Operations: []string{"UpdateItem", "PutItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem"}})
	return s, d.handler("limits.internal")
}

func openCounted(t *testing.T, s *shell, most int) (*counted, dashboard) {
	t.Helper()
	db := &counted{memory: s.table}
	all, err := admin.Open(t.Context(), db, "zae-limiter", &admin.Options{Now: s.table.Now})
	check.Must(t, err)
	ns, err := all.Namespace(t.Context(), "default")
	check.Must(t, err)
	return db, dashboard{ns, most, s.table.Now}
}

// askPage sends a request to a page, and returns the answer and its text without markup.
func askPage(t *testing.T, h http.Handler, method, host, target string) (*httptest.ResponseRecorder, string) {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	r.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	text := regexp.MustCompile(`(?s)<style>.*</style>|<[^>]*>`).ReplaceAllString(w.Body.String(), " ")
	return w, html.UnescapeString(strings.Join(strings.Fields(text), " "))
}

// The page shows budgets as money, what is left of limits, denials, usage and stored limits; and nothing is
// written.
func TestDashboard(t *testing.T) {
	_, h := dashboardRig(t, 100)
	w, text := askPage(t, h, http.MethodGet, "localhost:8082", "/")
	for _, want := range []string{"acme gpt-4 budget 40% $3 $5 a quota: 0 0 1 * * UTC 2025-02-01 00:00 UTC",
		"acme gpt-4 rpm 100% 0 10 10 in 1m0s in 1m0s",
		"denied acme gpt-4 2 ", "* gpt-4 budget $5 ", hostile[0] + " gpt-4 rpm 10% 9 10", hostile[3], hostile[5]} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
	if w.Code != http.StatusOK || strings.Contains(text, "Usage by month") || strings.Contains(text, "more than") ||
		strings.Contains(text, "Could not") || strings.Contains(w.Header().Get("Content-Security-Policy"), "script") {
		t.Errorf("%d %v\n%s", w.Code, w.Header(), text)
	}
	for _, name := range hostile {
		if strings.Contains(name, "<") && strings.Contains(w.Body.String(), name) {
			t.Errorf("%s stands on the page as it is", name)
		}
		_, text := askPage(t, h, http.MethodGet, "127.0.0.1", "/?entity="+url.QueryEscape(name))
		if !strings.Contains(text, name+" gpt-4 budget") || strings.Contains(text, "acme") {
			t.Errorf("the page of %q:\n%s", name, text)
		}
	}
	for _, of := range []string{"entity=acme", "resource=gpt-4", "entity=acme&resource=gpt-4"} {
		_, text := askPage(t, h, http.MethodGet, "[::1]:80", "/?"+of)
		if !strings.Contains(text, " tpm 77 ") || strings.Contains(text, " tpm 55 ") {
			t.Errorf("the usage of %s:\n%s", of, text)
		}
	}
}

// What cannot be read is said, and the rest is shown.
func TestDashboardGoesOn(t *testing.T) {
	s, h := dashboardRig(t, 100)
	key := layout.BucketKey(s.table.Admin("").ID(), "acme", "gpt-4", 0).Item()
	in := map[string]types.KeysAndAttributes{"zae-limiter": {Keys: []map[string]types.AttributeValue{key}}}
	out, err := s.table.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: in})
	check.Must(t, err)
	bad := out.Responses["zae-limiter"][0]
	bad["rf"] = item.S("now")
	s.table.Trouble()
	s.stores(bad)
	_, text := askPage(t, h, http.MethodGet, "localhost", "/")
	for _, want := range []string{"Could not be read", "BUCKET#acme#gpt-4#0", hostile[0] + " gpt-4 rpm",
		"* gpt-4 budget"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
	if _, text := askPage(t, h, http.MethodGet, "localhost", "/?entity=a%00b"); strings.Count(text, "Entity is") != 1 {
		t.Errorf("a wrong name is not reported once:\n%s", text)
	}
	s.table.Fail(limiter.ErrUnavailable)
	w, text := askPage(t, h, http.MethodGet, "localhost", "/?entity=acme")
	if w.Code != http.StatusOK || strings.Count(text, "Nothing there.") != 4 ||
		strings.Count(w.Body.String(), "<li>") != 3 {
		t.Errorf("a table that does not answer: %d\n%s", w.Code, text)
	}
	_, text = askPage(t, h, http.MethodGet, "localhost", "/?entity="+strings.Repeat("x", 1024))
	if !strings.Contains(text, "1 to 512 bytes") {
		t.Errorf("a name that cannot be: %s", text)
	}
}

// No more is read than is shown, and one bucket to know whether there are more; a bucket is 5 items with its limits.
func TestDashboardIsBounded(t *testing.T) {
	s, h := dashboardRig(t, 2)
	_, text := askPage(t, h, http.MethodGet, "localhost", "/")
	if strings.Count(text, " gpt-4 budget ") != 3 || strings.Count(text, "more than the first 2") != 2 {
		t.Errorf("%s", text)
	}
	read := func(most int) int {
		db, d := openCounted(t, s, most)
		before := db.keys
		d.look(t.Context(), admin.Scope{})
		return db.keys - before
	}
	if one, three := read(1), read(3); three-one != 2*5 {
		t.Errorf("%d items are read for a bucket, %d for three", one, three)
	}
}

// Only the page is there, for no other site: one whose name leads here would read it.
func TestDashboardRefuses(t *testing.T) {
	_, h := dashboardRig(t, 1)
	for _, c := range []struct {
		method, host, target string
		want                 int
	}{
		{http.MethodHead, "localhost", "/", http.StatusOK},
		{http.MethodGet, "limits.internal:8082", "/", http.StatusOK},
		{http.MethodGet, "evil.example:8082", "/", http.StatusMisdirectedRequest},
		{http.MethodGet, "localhost.evil.example", "/", http.StatusMisdirectedRequest},
		{http.MethodGet, "", "/", http.StatusMisdirectedRequest},
		{http.MethodPost, "localhost", "/", http.StatusMethodNotAllowed},
		{http.MethodDelete, "localhost", "/", http.StatusMethodNotAllowed},
		{http.MethodGet, "localhost", "/other", http.StatusNotFound},
	} {
		if w, text := askPage(t, h, c.method, c.host, c.target); w.Code != c.want {
			t.Errorf("%+v: %d %s", c, w.Code, text)
		}
	}
}

// The command serves the page until it is interrupted.
func TestDashboardCommand(t *testing.T) {
	s, _ := dashboardRig(t, 1)
	line, end := s.begins("dashboard", "--http", "localhost:0")
	resp, err := http.Get(line)
	check.Must(t, err)
	page, err := io.ReadAll(resp.Body)
	if resp.Body.Close(); err != nil || !strings.Contains(string(page), "<title>Limits of default</title>") {
		t.Errorf("%v: %s", err, page)
	}
	check.Equal(t, end(), 0, "ended in")
}
