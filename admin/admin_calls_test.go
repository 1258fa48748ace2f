package admin

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
)

// counted returns how many calls of each kind f makes. What is read is read as it is now.
func (w *world) counted(f func()) string {
	n := map[memdynamo.OpName]int{}
	var mu sync.Mutex
	w.db.SetSerialHook(func(op memdynamo.Op) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if n[op.Name]++; op.Name == memdynamo.BatchGetItem && !op.Consistent {
			w.Errorf("%v are read as they were", op.Keys)
		}
		return true, nil
	})
	f()
	w.db.SetHook(nil)
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(n), "map["), "]")
}

// Each call costs the requests that it needs and no more, here with pages of two items.
func TestWhatCallsCost(t *testing.T) {
	want := map[string]string{
		"all buckets":                         "BatchGetItem:12 Query:4",
		"all configs":                         "BatchGetItem:3 Query:3",
		"all events":                          "BatchGetItem:1 Query:6",
		"apply":                               "BatchGetItem:34 Query:7 TransactWriteItems:5 UpdateItem:3",
		"apply twice, and take away":          "BatchGetItem:79 Query:16 TransactWriteItems:12 UpdateItem:12",
		"bucket":                              "BatchGetItem:2",
		"buckets of a resource":               "BatchGetItem:6 Query:2",
		"buckets of one":                      "BatchGetItem:4 Query:2",
		"change limits":                       "BatchGetItem:8 Query:2 TransactWriteItems:1 UpdateItem:1",
		"children":                            "Query:2",
		"config":                              "BatchGetItem:1",
		"configs of many":                     "BatchGetItem:1 Query:2",
		"configs of one":                      "Query:2",
		"configure":                           "BatchGetItem:1 TransactWriteItems:1",
		"configure what is so already":        "BatchGetItem:1 TransactWriteItems:1",
		"create an entity":                    "BatchGetItem:3 TransactWriteItems:1",
		"credit":                              "BatchGetItem:4 TransactWriteItems:1",
		"credit of a quota that is not there": "BatchGetItem:5 TransactWriteItems:1",
		"credit twice with an id":             "BatchGetItem:5 TransactWriteItems:1",
		"delete a namespace":                  "BatchGetItem:1 TransactWriteItems:1",
		"delete an entity":                    "BatchGetItem:1 BatchWriteItem:7 Query:11 TransactWriteItems:3 UpdateItem:16",
		"delete an entity that is only described": "BatchGetItem:1 Query:2 TransactWriteItems:1",
		"delete an entity that does not exist":    "BatchGetItem:1 Query:2 TransactWriteItems:1",
		"delete limits":                           "BatchGetItem:4 TransactWriteItems:1 UpdateItem:1",
		"delete limits that are not there":        "BatchGetItem:1",
		"disable":                                 "BatchGetItem:11 Query:3 TransactWriteItems:1 UpdateItem:4",
		"register a namespace":                    "BatchGetItem:2 PutItem:1 TransactWriteItems:1",
		"set limits of one":                       "BatchGetItem:5 TransactWriteItems:1 UpdateItem:1",
		"end raises":                              "BatchGetItem:17 TransactWriteItems:2 UpdateItem:4",
		"cascade":                                 "BatchGetItem:11 Query:3 TransactWriteItems:1 UpdateItem:4",
		"enable again":                            "BatchGetItem:8 TransactWriteItems:2 UpdateItem:3",
		"entity":                                  "BatchGetItem:1",
		"events":                                  "Query:2",
		"its configs there":                       "BatchGetItem:1",
		"live days":                               "BatchGetItem:12 Query:10",
		"live hours":                              "BatchGetItem:4 Query:7",
		"live months":                             "BatchGetItem:12 Query:10",
		"lookup":                                  "BatchGetItem:1",
		"move an entity":                          "BatchGetItem:6 Query:2 TransactWriteItems:1 UpdateItem:3",
		"namespaces":                              "Query:2",
		"orphans":                                 "Query:5",
		"peek":                                    "BatchGetItem:6",
		"plan":                                    "BatchGetItem:2",
		"purge":                                   "BatchGetItem:1 BatchWriteItem:22 DeleteItem:1 Query:27 UpdateItem:45",
		"purge of nobody":                         "BatchGetItem:1 DeleteItem:1 Query:6",
		"raise twice with an id":                  "BatchGetItem:14 TransactWriteItems:1 UpdateItem:2",
		"reach":                                   "BatchGetItem:13 Query:4",
		"recover a namespace":                     "BatchGetItem:1 Query:5 TransactWriteItems:1",
		"register one that is":                    "BatchGetItem:1",
		"reset":                                   "BatchGetItem:3 TransactWriteItems:1",
		"reset of many shards that cannot be read": "BatchGetItem:7 BatchWriteItem:2 TransactWriteItems:1",
		"reset of what cannot be read":             "BatchGetItem:4 TransactWriteItems:1",
		"resolve":                                  "BatchGetItem:1",
		"set limits":                               "BatchGetItem:10 Query:3 TransactWriteItems:1 UpdateItem:1",
		"summary":                                  "BatchGetItem:4 Query:7",
		"thresholds":                               "Query:2",
		"update an entity":                         "BatchGetItem:4 Query:2 TransactWriteItems:1 UpdateItem:3",
		"usage":                                    "Query:4",
		"usage of a resource":                      "BatchGetItem:4 Query:4",
		"usage of a resource since":                "Query:1",
		"usage of a resource until":                "BatchGetItem:2 Query:2",
		"usage since":                              "Query:1",
		"usage until":                              "Query:2",
		"version":                                  "BatchGetItem:1",
	}
	tell := func(name, got string) {
		if want[name] != got {
			t.Errorf("%s: %s, want %s", name, got, want[name])
		}
	}
	w := readable(t)
	for name, read := range reads(w) {
		tell(name, w.counted(func() { _, err := read(t.Context(), 0); w.must(err) }))
	}
	for name := range operations(t.Context()) {
		synctest.Test(t, func(t *testing.T) { // a purge waits for the index
			w := changeable(t, name)
			tell(name, w.counted(func() { w.must(operations(t.Context())[name](w)) }))
		})
	}
}
