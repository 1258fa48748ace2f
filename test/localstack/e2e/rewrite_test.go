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

	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// request is a request to DynamoDB on its way to the engine. A rewriting may
// change it; values and names of expressions are in the form of the API.
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

// added returns the aliases of the values that the update adds, by attribute.
func (r request) added() map[string]string {
	out := map[string]string{}
	_, list, _ := strings.Cut(r.text("UpdateExpression"), "ADD ")
	for _, pair := range addition.FindAllStringSubmatch(list, -1) {
		out[r.object("ExpressionAttributeNames").text(pair[1])] = pair[2]
	}
	return out
}

// number returns a number among the update's values, empty if there is none.
func (r request) number(alias string) string {
	return r.object("ExpressionAttributeValues").object(alias).text("N")
}

func (r request) setNumber(alias, n string) {
	r.object("ExpressionAttributeValues")[alias] = map[string]any{"N": n}
}

// sets reports whether the update sets the attribute.
func (r request) sets(attribute string) bool {
	list, _, _ := strings.Cut(r.text("UpdateExpression"), " ADD ")
	for _, pair := range assignment.FindAllStringSubmatch(list, -1) {
		if r.object("ExpressionAttributeNames").text(pair[1]) == attribute {
			return true
		}
	}
	return false
}

// spendsOnly makes of a level that is set from its line one that is only spent from.
func (r request) spendsOnly(level, cost string) {
	text := r.text("UpdateExpression")
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		if r.object("ExpressionAttributeNames").text(m[1]) == level {
			r["UpdateExpression"] = strings.Replace(text, m[0], m[1]+" = "+m[1]+" - "+m[2], 1)
			r.setNumber(m[2], cost)
		}
	}
}

// dropCondition makes the write unconditional.
func (r request) dropCondition() {
	delete(r, "ConditionExpression")
	for _, of := range []string{"ExpressionAttributeNames", "ExpressionAttributeValues"} {
		for alias := range r.object(of) {
			if !regexp.MustCompile(alias + `\b`).MatchString(r.text("UpdateExpression")) {
				delete(r.object(of), alias)
			}
		}
	}
}

var (
	addition   = regexp.MustCompile(`(#\w+) (:\w+)`)
	line       = regexp.MustCompile(`(#\w+) = (:\w+) - #\w+`)
	assignment = regexp.MustCompile(`(#\w+) = :`)
)

// rewriting is the engine as seen through a proxy that lets write change every
// request, of clients and functions alike.
func rewriting(t testing.TB, e *engine.Engine, write func(operation string, r request)) *engine.Engine {
	t.Helper()
	target, err := url.Parse(e.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
		panic(http.ErrAbortHandler) // the caller has gone, as a killed function does
	}, Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(target)
		body, err := io.ReadAll(p.In.Body)
		if err != nil {
			return // the caller has gone
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
