package envoylimit_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

func TestJSON(t *testing.T) {
	r := newRig(t)
	post := func(body string) *http.Response {
		w := httptest.NewRecorder()
		r.service.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(body)))
		return w.Result()
	}
	const login = `{"domain": "edge", "descriptors": [{"entries": [{"key": "path", "value": "/login"}], "hitsAddend": "2"}]}`
	for i, want := range []struct {
		status int
		code   string
		retry  string
	}{{http.StatusOK, "OK", ""}, {http.StatusTooManyRequests, "OVER_LIMIT", "3600"}} {
		resp := post(login)
		var out struct {
			OverallCode string
			Statuses    []struct {
				Code, DurationUntilReset string
				CurrentLimit             struct {
					RequestsPerUnit int
					Unit            string
				}
			}
		}
		check.Must(t, json.NewDecoder(resp.Body).Decode(&out))
		if resp.StatusCode != want.status || out.OverallCode != want.code || len(out.Statuses) != 1 ||
			out.Statuses[0].CurrentLimit.Unit != "HOUR" || out.Statuses[0].DurationUntilReset != "3600s" ||
			resp.Header.Get("Retry-After") != want.retry || resp.Header.Get("X-RateLimit-Remaining") != "0" ||
			resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("request %d: %d %+v %v", i, resp.StatusCode, out, resp.Header)
		}
	}
	for body, want := range map[string]int{
		"":                   http.StatusBadRequest,
		"{":                  http.StatusBadRequest,
		`{"unknown": 1}`:     http.StatusBadRequest,
		`{"domain": "edge"}`: http.StatusBadRequest,
		strings.Replace(login, "/login", "\xff", 1):   http.StatusBadRequest, // JSON is UTF-8
		strings.Replace(login, "/login", `\udcff`, 1): http.StatusBadRequest,
		strings.Repeat(" ", 4<<20) + login:            http.StatusRequestEntityTooLarge,
	} {
		check.Equal(t, post(body).StatusCode, want, "%.40q", body)
	}
	w := httptest.NewRecorder()
	r.service.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/json", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
		t.Errorf("GET: %d %v", w.Code, w.Header())
	}
	w = httptest.NewRecorder()
	r.service.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", iotest.ErrReader(io.ErrUnexpectedEOF)))
	check.Equal(t, w.Code, http.StatusBadRequest, "a body that ended early")
	r.table.Fail(limiter.ErrUnavailable)
	check.Equal(t, post(strings.ReplaceAll(login, "path", "trial2")).StatusCode, http.StatusOK,
		"table down, nothing asked")
	other := strings.NewReplacer("path", "remote_address", "/login", "z").Replace(login)
	check.Equal(t, post(other).StatusCode, http.StatusServiceUnavailable, "table down")
}
