package httplimit

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// IsPreflight reports whether a request is a CORS preflight, with which a browser asks whether it
// may send a request of another origin: OPTIONS, with Origin and Access-Control-Request-Method, and
// without a body. Preflights carry no key. Put a middleware that answers them (CORS) outside of the
// limit: then it also lets scripts read denials. If it is inside, use IsPreflight in
// [Options.Skip]. Anybody can send such a request, so no inner handler may do work for one.
func IsPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.ContentLength == 0 &&
		r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// expose has scripts of other origins see the fields that a function sets: browsers show them few
// others. It adds to the fields that a middleware outside has named.
func expose(h http.Header, r *http.Request, set func()) {
	if r == nil || r.Header.Get("Origin") == "" {
		set()
		return
	}
	before := h.Clone()
	set()
	const field = "Access-Control-Expose-Headers"
	names := strings.FieldsFunc(strings.Join(h[field], ","), func(c rune) bool { return strings.ContainsRune(", \t", c) })
	for _, name := range slices.Sorted(maps.Keys(h)) {
		isNamed := slices.ContainsFunc(names, func(s string) bool { return strings.EqualFold(s, name) })
		if !isNamed && !slices.Equal(h[name], before[name]) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		h.Set(field, strings.Join(names, ", "))
	}
}
