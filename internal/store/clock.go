package store

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Clock knows how far the local clock is off the server's. The zero Clock knows
// of no difference. It is safe for concurrent use.
type Clock struct{ offset atomic.Int64 }

// Offset returns what to add to the local clock: zero while the two agree within
// what a Date header, which names whole seconds, can tell.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// saw takes in the server's time from an answer to a request sent at an instant
// of the local clock. An answer without a time changes nothing.
func (c *Clock) saw(meta middleware.Metadata, err error, sent, received time.Time) {
	server, ok := awsmiddleware.GetServerTime(meta)
	if r, failed := errors.AsType[*smithyhttp.ResponseError](err); failed && r.Response != nil && r.Response.Response != nil {
		at, perr := http.ParseTime(r.Response.Header.Get("Date"))
		server, ok = at, perr == nil
	}
	if ok && !server.IsZero() {
		c.offset.Store(int64(clockOffset(server, sent, received)))
	}
}

// clockOffset returns the smallest change of the local clock that makes it agree
// with a server that said it was server o'clock, rounded down to the second,
// some time between sending and receiving.
func clockOffset(server, sent, received time.Time) time.Duration {
	sent, received = sent.Round(0), received.Round(0) // wall clocks, not monotonic ones
	switch latest := server.Add(time.Second); {
	case sent.After(latest):
		return latest.Sub(sent)
	case received.Before(server):
		return server.Sub(received)
	}
	return 0
}
