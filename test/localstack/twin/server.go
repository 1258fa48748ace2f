package twin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/memdb"
	"github.com/zeroae/zae-limiter-go/internal/store"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// Server is a table that listens on a port of 127.0.0.1.
type Server struct {
	DB *memdb.DB

	server *http.Server
	addr   string
}

// Start serves the table until Stop.
func Start(db *memdb.DB) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("table in memory: %w", err)
	}
	s := &Server{DB: db, addr: l.Addr().String()}
	s.server = &http.Server{Handler: http.HandlerFunc(s.serve)}
	go func() { _ = s.server.Serve(l) }() // ends with Stop
	return s, nil
}

// Stop ends it. It may be called again.
func (s *Server) Stop() { _ = s.server.Close() }

// URL is where it listens.
func (s *Server) URL() string { return "http://" + s.addr }

// Env is the environment of a process that uses it.
func (s *Server) Env() []string {
	return []string{"AWS_ENDPOINT_URL_DYNAMODB=" + s.URL(), "AWS_REGION=" + engine.Region,
		"AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local"}
}

const target = "DynamoDB_20120810."

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has gone
	}
	operation := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), target)
	answer, err := s.answer(r.Context(), operation, body)
	status := http.StatusOK
	if err != nil {
		status, answer = failure(err)
	}
	out, err := json.Marshal(answer)
	if err != nil {
		panic("bug: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(out)), 10)) // the SDK warns without it
	w.WriteHeader(status)
	_, _ = w.Write(out) // nobody to tell
}

// document is a JSON object.
type document map[string]any

// answer carries out one call.
func (s *Server) answer(ctx context.Context, operation string, body []byte) (document, error) {
	var in request
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, invalid("%v", err)
	}
	switch operation {
	case "UpdateItem", "PutItem", "DeleteItem":
		w, err := in.expressions.write(memdb.OpName(operation))
		if err != nil {
			return nil, err
		}
		after, err := s.DB.Write(ctx, w)
		if err != nil || operation != "UpdateItem" {
			return document{}, err
		}
		return document{"Attributes": values(after)}, nil
	case "TransactWriteItems":
		writes, err := in.transaction()
		if err != nil {
			return nil, err
		}
		return document{}, s.DB.Transact(ctx, in.ClientRequestToken, writes)
	case "BatchGetItem":
		return s.batchGet(ctx, in)
	case "BatchWriteItem":
		keys, err := in.removals()
		if err != nil {
			return nil, err
		}
		return document{"UnprocessedItems": document{}}, s.DB.Remove(ctx, keys...)
	case "Query":
		q, err := in.query()
		if err != nil {
			return nil, err
		}
		page, err := s.DB.List(ctx, q)
		if err != nil {
			return nil, err
		}
		out := document{"Items": list(page.Items), "Count": len(page.Items), "ScannedCount": len(page.Items)}
		if page.Next != nil {
			out["LastEvaluatedKey"] = values(page.Next)
		}
		return out, nil
	}
	return nil, invalid("operation %q is not served", operation)
}

func (s *Server) batchGet(ctx context.Context, in request) (document, error) {
	responses := document{}
	for table, raw := range in.RequestItems {
		var asked struct {
			Keys           []object
			ConsistentRead bool
		}
		if err := json.Unmarshal(raw, &asked); err != nil {
			return nil, invalid("%v", err)
		}
		var keys []item.Key
		for _, k := range asked.Keys {
			keys = append(keys, item.KeyOf(item.Item(k)))
		}
		items, err := s.DB.Read(ctx, asked.ConsistentRead, keys...)
		if err != nil {
			return nil, err
		}
		found := []document{}
		for _, it := range items {
			if it != nil {
				found = append(found, values(it))
			}
		}
		responses[table] = found
	}
	return document{"Responses": responses, "UnprocessedKeys": document{}}, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", memdb.ErrInvalid, fmt.Sprintf(format, args...))
}

// failure returns how DynamoDB says it.
func failure(err error) (status int, answer document) {
	said := func(code string) document {
		return document{"__type": "com.amazonaws.dynamodb.v20120810#" + code, "message": err.Error()}
	}
	if refused, ok := errors.AsType[*store.Refused](err); ok {
		out := said("ConditionalCheckFailedException")
		if refused.Old != nil {
			out["Item"] = values(refused.Old)
		}
		return http.StatusBadRequest, out
	}
	if canceled, ok := errors.AsType[*store.Canceled](err); ok {
		out, reasons := said("TransactionCanceledException"), []document{}
		for _, r := range canceled.Reasons {
			reason := document{"Code": "None"}
			if r.Refused {
				if reason["Code"] = "ConditionalCheckFailed"; r.Old != nil {
					reason["Item"] = values(r.Old)
				}
			}
			reasons = append(reasons, reason)
		}
		out["CancellationReasons"] = reasons
		return http.StatusBadRequest, out
	}
	switch store.KindOf(err) {
	case store.Throttled:
		return http.StatusBadRequest, said("ProvisionedThroughputExceededException")
	case store.Conflict:
		return http.StatusBadRequest, said("TransactionConflictException")
	}
	if store.KindOf(err) == store.Unavailable {
		return http.StatusBadRequest, said("IdempotentParameterMismatchException")
	}
	if store.KindOf(err) == store.Setup || errors.Is(err, memdb.ErrInvalid) {
		return http.StatusBadRequest, said("ValidationException")
	}
	return http.StatusInternalServerError, said("InternalServerError")
}
