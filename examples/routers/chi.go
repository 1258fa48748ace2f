// Package routers puts a limit into the routers and frameworks that many APIs use: chi, gin, echo and Connect. Each
// has a file, which needs no other one.
package routers

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// Chi is an API of chi, which takes the middleware as it is. The health check is not limited.
func Chi(limit func(http.Handler) http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Get("/healthz", func(http.ResponseWriter, *http.Request) {})
	r.Group(func(r chi.Router) {
		r.Use(limit)
		r.Get("/hello", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "hello %s\n", httplimit.Lease(r).Entity())
		})
		r.Get("/fails", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "teapot", http.StatusTeapot)
		})
	})
	return r
}
