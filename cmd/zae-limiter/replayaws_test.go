package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// An object that is larger than any batch is not read in part: a part would be taken for all of it.
func TestObjectsThatAreTooLarge(t *testing.T) {
	anyCredentials(t)
	size := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, bytes.NewReader(make([]byte, size)))
	}))
	defer server.Close()
	cfg, err := (&app{}).awsConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := objectBucket{name: "given-up", s3: s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.BaseEndpoint, o.UsePathStyle = aws.String(server.URL), true
	})}
	for _, size = range []int{0, 1000, maxObject, maxObject + 1} {
		body, err := b.Get(t.Context(), "key")
		if large := size > maxObject; (err != nil) != large || !large && len(body) != size {
			t.Errorf("of %d bytes: %d, %v", size, len(body), err)
		}
	}
}

// A stack that CloudFormation tells nothing of is none.
func TestNoStackAtAll(t *testing.T) {
	anyCredentials(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<DescribeStacksResponse><DescribeStacksResult><Stacks/></DescribeStacksResult>"+
			"</DescribeStacksResponse>")
	}))
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	cfg, err := (&app{}).awsConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = outputsOf(t.Context(), cfg, "quotas")
	if !errors.Is(err, errNoStack) || !strings.Contains(err.Error(), `"quotas"`) {
		t.Errorf("error %v", err)
	}
}
