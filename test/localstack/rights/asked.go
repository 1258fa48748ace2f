package rights

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/zeroae/zae-limiter-go/test/localstack/fault"
)

// Right is the right that a call, or a part of a transaction, needs: an action on the table or one
// of its indexes, for one partition key.
type Right struct {
	Action  string // dynamodb:UpdateItem
	Index   string // empty: the table
	Leading string // the partition key; empty if the action has none
}

// Recorder records the rights that the calls through a proxy need. It is safe for concurrent use.
type Recorder struct {
	mu    sync.Mutex
	seen  map[Right]bool
	fault error
}

// Record records every call through the proxy from now on.
func Record(p *fault.Proxy) *Recorder {
	r := &Recorder{seen: map[Right]bool{}}
	p.Add(&fault.Rule{Match: func(c fault.Call) bool {
		r.note(c)
		return false // the call is not changed
	}})
	return r
}

// Rights returns the needed rights, sorted, or an error for the first call that could not be
// parsed.
func (r *Recorder) Rights() ([]Right, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Right
	for right := range r.seen {
		out = append(out, right)
	}
	slices.SortFunc(out, func(a, b Right) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return out, r.fault
}

// Forget discards the recorded calls.
func (r *Recorder) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.seen)
}

func (r *Recorder) note(c fault.Call) {
	rights, err := rightsOf(c.Operation, c.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.fault == nil {
		r.fault = fmt.Errorf("%s: %w", c.Operation, err)
	}
	for _, right := range rights {
		r.seen[right] = true
	}
}

type attributes map[string]map[string]any

func (a attributes) pk() string {
	s, _ := a["PK"]["S"].(string)
	return s
}

type keyed struct{ Key, Item attributes }

func (k keyed) pk() string { return k.Key.pk() + k.Item.pk() } // there is only one of them

// call is the part of a request that determines the rights it needs.
type call struct {
	keyed
	IndexName                 string
	KeyConditionExpression    string
	ExpressionAttributeValues attributes
	RequestItems              map[string]json.RawMessage
	TransactItems             []map[string]keyed
}

// parts are the actions of the parts of a transaction.
var parts = map[string]string{
	"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem",
	"Get": "GetItem",
}

var equals = regexp.MustCompile(`=\s*(:\w+)`)

func rightsOf(operation string, body []byte) (out []Right, err error) {
	var c call
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, err
	}
	action := "dynamodb:" + operation
	switch operation {
	case "GetItem", "PutItem", "UpdateItem", "DeleteItem":
		return []Right{{Action: action, Leading: c.pk()}}, nil
	case "Query":
		found := equals.FindStringSubmatch(c.KeyConditionExpression)
		if found == nil {
			return nil, fmt.Errorf("key condition %q", c.KeyConditionExpression)
		}
		leading, _ := c.ExpressionAttributeValues[found[1]]["S"].(string)
		return []Right{{action, c.IndexName, leading}}, nil
	case "DescribeTable", "DescribeTimeToLive":
		return []Right{{Action: action}}, nil
	case "TransactWriteItems", "TransactGetItems":
		for _, item := range c.TransactItems {
			for kind, k := range item {
				if parts[kind] == "" {
					return nil, fmt.Errorf("part %q", kind)
				}
				out = append(out, Right{Action: "dynamodb:" + parts[kind], Leading: k.pk()})
			}
		}
		return out, nil
	case "BatchGetItem", "BatchWriteItem":
		return batchRights(action, c.RequestItems)
	}
	return nil, fmt.Errorf("operation of which the rights are not known")
}

func batchRights(action string, tables map[string]json.RawMessage) (out []Right, err error) {
	for _, raw := range tables {
		var get struct{ Keys []attributes }
		var write []struct{ PutRequest, DeleteRequest keyed }
		if json.Unmarshal(raw, &get) == nil && get.Keys != nil {
			for _, key := range get.Keys {
				out = append(out, Right{Action: action, Leading: key.pk()})
			}
			continue
		}
		if err := json.Unmarshal(raw, &write); err != nil {
			return nil, err
		}
		for _, w := range write {
			out = append(out, Right{Action: action, Leading: w.PutRequest.pk() + w.DeleteRequest.pk()})
		}
	}
	return out, nil
}
