package routers

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// Echo is an API of echo. The health check is not limited.
func Echo(limit func(http.Handler) http.Handler) http.Handler {
	e := echo.New()
	e.GET("/healthz", func(c *echo.Context) error { return c.NoContent(http.StatusOK) })
	api := e.Group("", echo.WrapMiddleware(limit), answerErrors)
	api.GET("/hello", func(c *echo.Context) error {
		return c.String(http.StatusOK, "hello "+httplimit.Lease(c.Request()).Entity()+"\n")
	})
	api.GET("/fails", func(*echo.Context) error { return echo.NewHTTPError(http.StatusTeapot, "teapot") })
	return e
}

// answerErrors answers an error within the limit, for httplimit.Options.Counts: echo itself would do so when
// the lease has ended.
func answerErrors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		if err := next(c); err != nil {
			c.Echo().HTTPErrorHandler(c, err)
		}
		return nil
	}
}
