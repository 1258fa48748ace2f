package httplimit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// watched records the status of the answer that goes through it. It can do everything that servers
// can: where the writer within cannot, it does nothing or returns http.ErrNotSupported.
type watched struct {
	http.ResponseWriter
	status int // 0: no answer has begun
}

func (w *watched) begins(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
}

func (w *watched) WriteHeader(status int) {
	w.begins(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Write(p []byte) (int, error) {
	w.begins(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// ReadFrom keeps the short way from a file to a connection.
func (w *watched) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, r)
	if n > 0 {
		w.begins(http.StatusOK)
	}
	return n, err
}

// Flush implements [http.Flusher].
func (w *watched) Flush() { _ = w.FlushError() }

// FlushError is for [http.ResponseController].
func (w *watched) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		w.begins(http.StatusOK)
	}
	return err
}

// Hijack implements [http.Hijacker].
func (w *watched) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.begins(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// Unwrap is for [http.ResponseController].
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
