package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
)

// The OpenAPI document is valid, and describes every answer.
func TestAnswersAreAsOpenAPIHasThem(t *testing.T) {
	w := newTable(t)
	w.run(t, "limits set -y -e acme -r api rpm=10/365d rps=1000 jobs=5@in-flight/2m", "budget=$5@24h after first use")
	w.run(t, "limits set -y -e never -r api rpm=blocked")
	w.run(t, "limits set -y -e off -r api rpm=10")
	w.run(t, "disable -y -e off -r api")
	p := w.serve(t, freePort(t))
	resp, err := http.Get(p.http + "/openapi.yaml")
	check.Must(t, err)
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	check.Must(t, err)
	doc, err := openapi3.NewLoader().LoadFromData(text)
	check.Must(t, err)
	check.Must(t, doc.Validate(t.Context()))
	router, err := gorillamux.NewRouter(doc)
	check.Must(t, err)
	answered := map[string]bool{} // "/v1/acquire 200"
	var lease string
	post := func(status int, acceptable bool, path, body string) {
		t.Helper()
		body = strings.ReplaceAll(body, "LEASE", lease)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.http+"/v1/"+path, strings.NewReader(body))
		check.Must(t, err)
		req.Header.Set("Content-Type", "application/json")
		route, params, err := router.FindRoute(req)
		check.Must(t, err)
		in := &openapi3filter.RequestValidationInput{Request: req, Route: route, PathParams: params,
			Options: &openapi3filter.Options{SkipSettingDefaults: true}}
		if err := openapi3filter.ValidateRequest(t.Context(), in); (err == nil) != acceptable {
			t.Errorf("%s %.100s: %v, but acceptable: %v", path, body, err, acceptable)
		}
		req.Body = io.NopCloser(strings.NewReader(body))
		resp, err := http.DefaultClient.Do(req)
		check.Must(t, err)
		defer func() { _ = resp.Body.Close() }()
		answer, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		answered[fmt.Sprint("/v1/", path, " ", resp.StatusCode)] = true
		check.Equal(t, resp.StatusCode, status, "%s %.100s: %s", path, body, answer)
		check.NoError(t, openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
			RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header,
			Body: io.NopCloser(bytes.NewReader(answer)),
		}), "%s %.100s: %d", path, body, resp.StatusCode)
		var got struct{ Lease string }
		check.NoError(t, json.Unmarshal(answer, &got))
		if got.Lease != "" {
			lease = got.Lease
		}
	}
	long := strings.Repeat("x", 64<<10)
	const take = `{"entity": "acme", "resource": "api", "lease_seconds": 60, "costs": `
	post(200, true, "acquire", `{"entity": "acme", "resource": "api", "costs": {"rpm": 1}}`)
	post(200, true, "acquire", take+`{"rpm": 2, "jobs": 1}}`)
	post(400, false, "settle", `{"lease": "LEASE", "costs": {"rpm": -1}}`)
	post(200, true, "settle", `{"lease": "LEASE", "costs": {"rpm": 3, "budget": 6000000}}`)
	post(404, true, "settle", `{"lease": "LEASE"}`)
	post(429, true, "acquire", take+`{"rpm": 1}}`) // the budget is in debt
	post(200, true, "peek", `{"entity": "acme", "resource": "api"}`)
	post(429, true, "acquire", `{"entity": "never", "resource": "api", "costs": {"rpm": 1}}`)
	post(200, true, "peek", `{"entity": "never", "resource": "api"}`)
	post(400, true, "acquire", `{"entity": "nobody", "resource": "none", "costs": {"rpm": 1}}`)
	post(400, false, "acquire", `{"entity": "acme", "resource": "api", "costs": {}, "lease_seconds": 86401}`)
	post(400, false, "acquire", `{"entity": "acme", "resource": "api", "costs": {"rpm": 1.5}}`)
	post(400, false, "acquire", `{"entity": "acme", "resource": "api", "costs": {"rpm": 1}, "more": 1}`)
	post(403, true, "acquire", `{"entity": "off", "resource": "api", "costs": {"rpm": 1}}`)
	post(413, true, "acquire", `{"entity": "acme", "resource": "api", "costs": {"rpm": 11}}`)
	post(413, true, "acquire", `{"entity": "`+long+`", "resource": "api", "costs": {"rpm": 1}}`)
	post(413, true, "settle", `{"lease": "`+long+`"}`)
	post(413, true, "release", `{"lease": "`+long+`"}`)
	post(413, true, "peek", `{"entity": "`+long+`", "resource": "api"}`)
	post(400, false, "peek", `{"resource": "api"}`)
	w.run(t, "limits set -y -e free -r api rps=1000")
	const free = `{"entity": "free", "resource": "api", "lease_seconds": 60, "costs": {"rps": 1}}`
	post(200, true, "acquire", free)
	post(400, false, "release", `{"lease": "LEASE", "costs": {"rps": 1}}`)
	post(200, true, "release", `{"lease": "LEASE"}`)
	post(404, true, "release", `{"lease": "LEASE"}`)
	post(200, true, "acquire", free)
	w.fault.Add(&fault.Rule{Fault: fault.Throttled(fault.ReasonKeyRange)})
	post(503, true, "acquire", free)
	post(503, true, "settle", `{"lease": "LEASE", "costs": {"rps": 5}}`)
	post(503, true, "release", `{"lease": "LEASE"}`)
	post(503, true, "peek", `{"entity": "acme", "resource": "api"}`)
	for path, item := range doc.Paths.Map() {
		for status := range item.Post.Responses.Map() {
			if key := path + " " + status; !answered[key] && status != "500" {
				t.Errorf("no answer was %s", key)
			}
		}
	}
}
