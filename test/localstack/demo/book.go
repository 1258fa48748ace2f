package main

import (
	"errors"
	"slices"

	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/test/localstack/clients"
)

// book is the clients' bookkeeping. Its zero value is empty.
type book struct{ clients.Book }

// worst returns the worst window over all limits of an entity, or of all tenants for "".
func (l *book) worst(entity string) (loadcheck.Judged, error) {
	all, err := l.Judge(0, false)
	others := func(j loadcheck.Judged) bool { return entity != "" && j.Entity != entity }
	worst, ok := slices.DeleteFunc(all, others).Worst()
	if err == nil && !ok {
		err = errors.New("no request was granted")
	}
	return worst, err
}
