package s3

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
)

func put(t *testing.T, s *Server, key, body string, condition *string) error {
	_, err := s.Client().PutObject(t.Context(),
		&s3.PutObjectInput{Bucket: &s.Bucket, Key: &key, Body: strings.NewReader(body), IfNoneMatch: condition})
	return err
}

func get(t *testing.T, s *Server, key string) string {
	t.Helper()
	out, err := s.Client().GetObject(t.Context(), &s3.GetObjectInput{Bucket: &s.Bucket, Key: &key})
	if err != nil {
		return "absent"
	}
	defer out.Body.Close()
	data, err := io.ReadAll(out.Body)
	check.Must(t, err)
	return string(data)
}

func TestObjects(t *testing.T) {
	s := ForTest(t)
	check.Must(t, put(t, s, "audit/b", "one", nil))
	check.Must(t, put(t, s, "audit/b", "two", nil))
	check.Must(t, put(t, s, "audit/a", "x", nil))
	if err := put(t, s, "audit/b", "three", aws.String("*")); err == nil {
		t.Error("If-None-Match: * overwrote an object")
	}
	keys, err := s.Keys(t.Context())
	if err != nil || !slices.Equal(keys, []string{"audit/a", "audit/b"}) {
		t.Errorf("keys %v, error %v", keys, err)
	}
	check.Equal(t, get(t, s, "audit/b"), "two", "object")
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault fault.Fault
		want  string // the object afterwards
	}{
		{"refused", fault.Fault{Answer: Failed(503)}, "absent"},
		{"forbidden", fault.Fault{Answer: Failed(403)}, "absent"},
		{"applied, then failed", fault.Fault{Forward: true, Answer: Failed(500)}, "body"},
		{"cut", fault.Refused(), "absent"},
		{"applied, then cut", fault.AppliedThenReset(), "body"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := ForTest(t)
			first := s.Add(&fault.Rule{Operation: "PUT", Times: 1, Fault: tt.fault,
				Match: func(c fault.Call) bool { return c.Path == "/"+s.Bucket+"/k" }})
			check.Must(t, put(t, s, "other", "body", nil))
			err := put(t, s, "k", "body", nil)
			if err == nil {
				t.Error("no error")
			}
			api, answered := errors.AsType[smithy.APIError](err)
			if answered == tt.fault.Reset || answered && api.ErrorMessage() != "injected" {
				t.Errorf("error %v", err)
			}
			check.Equal(t, get(t, s, "k"), tt.want, "object")
			check.NoError(t, put(t, s, "k", "body", nil), "second attempt")
			check.Equal(t, first.Hits(), 1, "faults")
		})
	}
}
