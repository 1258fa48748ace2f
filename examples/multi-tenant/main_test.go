package main

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// The whole program, on a local DynamoDB.
func TestProgram(t *testing.T) {
	db, name := engine.ForTest(t, engine.Dynoxide).DynamoDB(), engine.UniqueName("multi-tenant")
	if _, err := limitertable.Create(t.Context(), db, name); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), db, name, &out); err != nil {
		t.Fatal(err)
	}
	const want = `acme/search/ci   asks 7 times: 5 granted, denied by acme/search/ci
acme/search/prod asks 8 times: 7 granted, denied by acme/search
acme/billing     asks 4 times: 2 granted, denied by acme
acme             has 0 of 14 left
acme/search      has 0 of 12 left
acme/search/ci   has 0 of 5 left
acme/search/prod has 93 of 100 left
acme/billing     has 98 of 100 left
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
