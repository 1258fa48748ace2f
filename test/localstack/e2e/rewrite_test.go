package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// request is a request to DynamoDB on its way to the emulator, which a test may change. Values and
// names of expressions have the form of the API.
type request map[string]any

func (r request) object(name string) request {
	o, _ := r[name].(map[string]any)
	return o
}

func (r request) text(name string) string {
	s, _ := r[name].(string)
	return s
}

// key returns the sort key of the item written.
func (r request) sortKey() string { return r.object("Key").object("SK").text("S") }

// adds returns what the update adds to the attribute; empty: nothing.
func (r request) adds(attribute string) string {
	for _, m := range r.additions() {
		if r.name(m[1]) == attribute {
			return r.object("ExpressionAttributeValues").object(m[2]).text("N")
		}
	}
	return ""
}

// addsNothing makes the update add 0 to attributes with a name that ends in suffix.
func (r request) addsNothing(suffix string) {
	for _, m := range r.additions() {
		if strings.HasSuffix(r.name(m[1]), suffix) {
			r.rewrite(m[0], m[1]+" "+planted, "0")
		}
	}
}

func (r request) additions() [][]string {
	_, list, _ := strings.Cut(r.text("UpdateExpression"), "ADD ")
	return addition.FindAllStringSubmatch(list, -1)
}

func (r request) name(alias string) string { return r.object("ExpressionAttributeNames").text(alias) }

// rewrite replaces a clause of the update, with a number of its own, because clauses and conditions
// with the same number share one.
func (r request) rewrite(clause, by, number string) {
	r["UpdateExpression"] = strings.Replace(r.text("UpdateExpression"), clause, by, 1)
	r.object("ExpressionAttributeValues")[planted] = map[string]any{"N": number}
	r.dropUnused()
}

// sets reports whether the update sets the attribute.
func (r request) sets(attribute string) bool {
	list, _, _ := strings.Cut(r.text("UpdateExpression"), " ADD ")
	for _, pair := range assignment.FindAllStringSubmatch(list, -1) {
		if r.name(pair[1]) == attribute {
			return true
		}
	}
	return false
}

// spendsOnly replaces a level set from its line by one that is only reduced.
func (r request) spendsOnly(level, cost string) {
	for _, m := range line.FindAllStringSubmatch(r.text("UpdateExpression"), -1) {
		if r.name(m[1]) == level {
			r.rewrite(m[0], m[1]+" = "+m[1]+" - "+planted, cost)
		}
	}
}

// dropCondition makes the write unconditional.
func (r request) dropCondition() {
	delete(r, "ConditionExpression")
	r.dropUnused()
}

// dropUnused removes names and values that no expression uses, because they would be refused.
func (r request) dropUnused() {
	for _, of := range []string{"ExpressionAttributeNames", "ExpressionAttributeValues"} {
		for alias := range r.object(of) {
			if !regexp.MustCompile(alias + `\b`).MatchString(r.text("UpdateExpression") + " " + r.text("ConditionExpression")) {
				delete(r.object(of), alias)
			}
		}
	}
}

// planted is the alias of a number that a rewriting adds.
const planted = ":planted"

var (
	addition   = regexp.MustCompile(`(#\w+) (:\w+)`)
	line       = regexp.MustCompile(`(#\w+) = (:\w+) - #\w+`)
	assignment = regexp.MustCompile(`(#\w+) = :`)
)

// rewriting returns the emulator behind a proxy that lets write change every request, of clients
// and functions alike.
func rewriting(t testing.TB, e *engine.Engine, write func(operation string, r request)) *engine.Engine {
	t.Helper()
	target, err := url.Parse(e.Endpoint)
	check.Must(t, err)
	server := httptest.NewServer(&httputil.ReverseProxy{ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
		panic(http.ErrAbortHandler) // the caller is gone, like a killed function
	}, Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(target)
		body, err := io.ReadAll(p.In.Body)
		if err != nil {
			return // the caller is gone
		}
		name := p.In.Header.Get("X-Amz-Target")
		var r request
		if err := json.Unmarshal(body, &r); err == nil && strings.HasPrefix(name, "DynamoDB_") {
			write(name[strings.LastIndex(name, ".")+1:], r)
			if body, err = json.Marshal(r); err != nil {
				panic(http.ErrAbortHandler)
			}
		}
		p.Out.Body, p.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}})
	t.Cleanup(server.Close)
	return e.At(server.URL)
}
