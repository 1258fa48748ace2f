package engine

import (
	"context"
	"crypto/rand"
	"fmt"
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

// ForTest returns the engine of a kind that all tests of this binary share, starting it on first
// use. It ends with the process. If the emulator is not installed, the test fails; it is never
// skipped.
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

// ExternalAsked reports whether the environment names a DynamoDB; only then do tests run against
// External.
func ExternalAsked() bool { return asked() != "" }

// Kinds returns the emulators for a conformance suite: both engines, and External if the
// environment names one.
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

// UniqueName returns prefix with a random suffix. It is valid as a table name and as a bucket name
// if prefix is.
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

// RemoveTable deletes the table; for t.Cleanup.
func (e *Engine) RemoveTable(t testing.TB, table string) {
	t.Helper()
	check.NoError(t, e.Remove(table))
}

// Remove deletes the table. A missing one is not an error.
func (e *Engine) Remove(table string) error {
	ctx, cancel := context.WithTimeout(context.Background(), emulator.Limit)
	defer cancel()
	_, err := e.DynamoDB().DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: aws.String(table)})
	if err != nil && !strings.Contains(err.Error(), "ResourceNotFound") {
		return fmt.Errorf("delete table %q: %w", table, err)
	}
	return nil
}
