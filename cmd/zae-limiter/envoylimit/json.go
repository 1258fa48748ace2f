package envoylimit

import (
	"errors"
	"io"
	"net/http"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// maxBody is the longest body of a request: as long as a gRPC message may be.
const maxBody = 4 << 20

// ServeHTTP answers a POST of a RateLimitRequest in JSON, like /json of envoyproxy/ratelimit. The
// status is 200 or 429 with a RateLimitResponse, whose headers are also set on the answer. Without
// a decision the status is 400, 413, 503 or 500, with one line of text.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "want POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, "the body ended early", http.StatusBadRequest)
		return
	}
	var asked ratelimit.RateLimitRequest
	if err := protojson.Unmarshal(body, &asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, err := s.ShouldRateLimit(r.Context(), &asked)
	if err != nil {
		http.Error(w, status.Convert(err).Message(), httpStatus(err))
		return
	}
	text, err := protojson.Marshal(out)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	for _, h := range out.GetResponseHeadersToAdd() {
		w.Header().Set(h.GetKey(), h.GetValue())
	}
	w.Header().Set("Content-Type", "application/json")
	if out.GetOverallCode() == over {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text) // the client may be gone
}

func httpStatus(err error) int {
	switch status.Code(err) {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
