package routers

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// Gin is an API of gin. The health check is not limited.
func Gin(limit func(http.Handler) http.Handler) http.Handler {
	engine := gin.New()
	engine.GET("/healthz", func(c *gin.Context) { c.Status(http.StatusOK) })
	api := engine.Group("/", ginMiddleware(limit))
	api.GET("/hello", func(c *gin.Context) {
		c.String(http.StatusOK, "hello %s\n", httplimit.Lease(c.Request).Entity())
	})
	api.GET("/fails", func(c *gin.Context) { c.String(http.StatusTeapot, "teapot\n") })
	return engine
}

// ginMiddleware makes a middleware of gin of one of net/http.
func ginMiddleware(m func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		granted := false
		m(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			granted, c.Request = true, r
			c.Next()
			w.WriteHeader(c.Writer.Status()) // for httplimit.Options.Counts: gin writes past w
		})).ServeHTTP(c.Writer, c.Request)
		if !granted {
			c.Abort()
		}
	}
}
