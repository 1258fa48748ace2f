package runtimeapi

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

const apiPrefix = "/2018-06-01/runtime"

// next blocks until there is an invocation, like the real one.
func (e *environment) next(w http.ResponseWriter, req *http.Request) {
	now := time.Now()
	r := e.live()
	if r == nil {
		http.Error(w, "no process", http.StatusForbidden)
		return
	}
	r.once.Do(func() {
		e.host.count(func(s *Stats) { s.Init = append(s.Init, now.Sub(r.begin)) })
		close(r.polled)
	})
	select {
	case <-req.Context().Done():
	case inv := <-r.deliver:
		r.current.Store(inv)
		header := w.Header()
		header.Set("Content-Type", "application/json")
		header.Set("Lambda-Runtime-Aws-Request-Id", inv.id)
		header.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(inv.deadline.UnixMilli(), 10))
		header.Set("Lambda-Runtime-Invoked-Function-Arn",
			"arn:aws:lambda:"+engine.Region+":000000000000:function:"+e.host.cfg.Name)
		header.Set("Lambda-Runtime-Trace-Id", "Root=1-00000000-000000000000000000000000;Sampled=0")
		w.Write(inv.payload)
	}
}

func (e *environment) response(w http.ResponseWriter, req *http.Request) {
	e.answer(w, req, func(id string, body []byte) Result {
		if len(body) > maxPayload {
			return failure(id, "Function.ResponseSizeTooLarge",
				"Response payload size exceeded maximum allowed payload size (6291456 bytes).")
		}
		return Result{Payload: body}
	})
}

func (e *environment) errorReport(w http.ResponseWriter, req *http.Request) {
	e.answer(w, req, func(id string, body []byte) Result {
		return Result{Payload: body, FunctionError: "Unhandled", ErrorType: errorType(req, body)}
	})
}

// answer completes the current invocation, or responds 400 to another id.
func (e *environment) answer(w http.ResponseWriter, req *http.Request, result func(id string, body []byte) Result) {
	body, err := io.ReadAll(io.LimitReader(req.Body, maxPayload+1))
	r := e.live()
	if err != nil || r == nil {
		return // the process was killed while it answered
	}
	inv := r.current.Load()
	id := req.PathValue("id")
	if inv == nil || inv.id != id {
		http.Error(w, `{"errorType":"InvalidRequestID","errorMessage":"Invalid request ID"}`, http.StatusBadRequest)
		return
	}
	if inv.fault.KillAtResponse {
		r.proc.Kill()
		return
	}
	r.current.Store(nil)
	inv.answer <- result(id, body)
	w.WriteHeader(http.StatusAccepted)
	io.WriteString(w, `{"status":"OK"}`)
}

func errorType(req *http.Request, body []byte) string {
	if name := req.Header.Get("Lambda-Runtime-Function-Error-Type"); name != "" {
		return name
	}
	var doc struct{ ErrorType string }
	_ = json.Unmarshal(body, &doc)
	return doc.ErrorType
}
