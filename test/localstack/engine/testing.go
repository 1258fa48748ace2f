package engine

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/emulator"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

var shared = struct {
	sync.Mutex
	engines map[Kind]*Engine
}{engines: map[Kind]*Engine{}}

// ForTest returns the engine of a kind that all tests of this test binary share, starting it on
// first use. It ends with the process. An emulator that is not installed fails the test, it never
// skips it.
func ForTest(t testing.TB, kind Kind) *Engine {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if e := shared.engines[kind]; e != nil {
		return e
	}
	e, err := Start(context.Background(), kind)
	check.Must(t, err)
	shared.engines[kind] = e
	return e
}

// ExternalAsked reports whether the environment names a DynamoDB of its own; only
// then does a test run against External.
func ExternalAsked() bool { return asked() != "" }

// Kinds are the emulators a conformance suite runs on: both engines, and
// External when the environment asks for it.
func Kinds() []Kind {
	kinds := []Kind{Dynoxide, DynamoDBLocal}
	if ExternalAsked() {
		kinds = append(kinds, External)
	}
	return kinds
}

// StopShared ends the engines that ForTest started. Only platforms other than
// Linux need it, at the end of TestMain.
func StopShared() {
	shared.Lock()
	defer shared.Unlock()
	for kind, e := range shared.engines {
		e.Stop()
		delete(shared.engines, kind)
	}
}

// UniqueName is prefix with a random suffix, valid as a table name and as a
// bucket name when prefix is.
func UniqueName(prefix string) string {
	return prefix + "-" + strings.ToLower(rand.Text()[:13])
}

// Table creates the table of the committed template under a new name, and removes it when the test ends.
func (e *Engine) Table(t testing.TB) limitertable.Description {
	t.Helper()
	name := UniqueName("limiter")
	t.Cleanup(func() { e.RemoveTable(t, name) })
	d, err := limitertable.Create(t.Context(), e.DynamoDB(), name)
	check.Must(t, err)
	return d
}

// RemoveTable deletes the table; for t.Cleanup. A table that is not there is
// no error.
func (e *Engine) RemoveTable(t testing.TB, table string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), emulator.Limit)
	defer cancel()
	_, err := e.DynamoDB().DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: aws.String(table)})
	if err != nil && !strings.Contains(err.Error(), "ResourceNotFound") {
		t.Errorf("delete table %q: %v", table, err)
	}
}
