package s3

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/internal/check"
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
		fault Fault
		want  string // object afterwards
	}{
		{"refused", Fault{Status: 503}, "absent"},
		{"forbidden", Fault{Status: 403}, "absent"},
		{"applied, then failed", Fault{Status: 500, Apply: true}, "body"},
		{"cut", Fault{Cut: true}, "absent"},
		{"applied, then cut", Fault{Cut: true, Apply: true}, "body"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := ForTest(t)
			var puts []int
			s.Inject(func(r Request) Fault {
				if r.Method == "PUT" && r.Key == "k" {
					if puts = append(puts, r.Put); r.Put == 0 {
						return tt.fault
					}
				}
				return Fault{}
			})
			if err := put(t, s, "k", "body", nil); err == nil {
				t.Error("no error")
			}
			check.Equal(t, get(t, s, "k"), tt.want, "object")
			check.NoError(t, put(t, s, "k", "body", nil), "second attempt")
			check.Slices(t, puts, []int{0, 1}, "how often it was put before")
		})
	}
}
