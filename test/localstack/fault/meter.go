package fault

import (
	"encoding/json"
	"maps"
	"math"
	"strings"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// Usage is the cost of one operation since Start or Reset.
type Usage struct {
	Calls int // requests that reached the proxy

	// Capacity is counted only while metering is on, for calls that the engine performed, even if
	// the caller got another answer.
	ReadUnits   float64 // table and indexes
	WriteUnits  float64 // table and indexes, as reported by the engine
	FailedUnits float64 // write units that AWS charges for failed conditions; the engines report none
}

// Meter switches metering on or off. While it is on, requests are changed to include
// ReturnConsumedCapacity=INDEXES, so answers contain ConsumedCapacity; a real AWS endpoint would
// reject the changed signature.
func (p *Proxy) Meter(on bool) { p.metered.Store(on) }

// Usage returns a copy of the counters by operation.
func (p *Proxy) Usage() map[string]Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.usage)
}

// Total sums the operations' counters.
func (p *Proxy) Total() (total Usage) {
	for _, u := range p.Usage() {
		total.Calls += u.Calls
		total.ReadUnits += u.ReadUnits
		total.WriteUnits += u.WriteUnits
		total.FailedUnits += u.FailedUnits
	}
	return total
}

// Reset sets all counters to zero.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.usage = map[string]Usage{}
}

func (p *Proxy) count(operation string, change func(*Usage)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.usage[operation]
	change(&u)
	p.usage[operation] = u
}

// writes are the operations that report capacity, and whether they write.
var writes = map[string]bool{"GetItem": false, "BatchGetItem": false, "Query": false, "Scan": false,
	"TransactGetItems": false, "PutItem": true, "UpdateItem": true, "DeleteItem": true, "BatchWriteItem": true,
	"TransactWriteItems": true}

func askForCapacity(c Call) []byte {
	if _, reported := writes[c.Operation]; !reported {
		return c.Body
	}
	var doc map[string]json.RawMessage
	if json.Unmarshal(c.Body, &doc) != nil {
		return c.Body
	}
	doc["ReturnConsumedCapacity"] = json.RawMessage(`"INDEXES"`)
	body, err := json.Marshal(doc)
	if err != nil {
		return c.Body
	}
	return body
}

// meter counts the capacity of a call that the engine has performed.
func (p *Proxy) meter(c Call, status int, answer []byte) {
	var doc struct {
		ConsumedCapacity    json.RawMessage
		Item                json.RawMessage
		CancellationReasons []struct{ Code string }
	}
	if !p.metered.Load() || json.Unmarshal(answer, &doc) != nil {
		return
	}
	errorCode := code(answer, status)
	p.count(c.Operation, func(u *Usage) {
		if units := consumed(doc.ConsumedCapacity); writes[c.Operation] {
			u.WriteUnits += units
		} else {
			u.ReadUnits += units
		}
		switch errorCode {
		case "ConditionalCheckFailedException":
			it, _ := attributevalue.UnmarshalMapJSON(doc.Item) // without an item, at least one unit
			u.FailedUnits += math.Max(1, math.Ceil(float64(item.Size(it))/1024))
		case "TransactionCanceledException":
			u.FailedUnits += 2 * float64(len(doc.CancellationReasons))
		}
	})
}

// consumed returns the units of one ConsumedCapacity, or of a list of them.
func consumed(raw json.RawMessage) (units float64) {
	var one struct{ CapacityUnits float64 }
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		_ = json.Unmarshal(raw, &one) // an error has none
		return one.CapacityUnits
	}
	for _, part := range list {
		units += consumed(part)
	}
	return units
}

// code returns the error code of an answer, "" for a success.
func code(answer []byte, status int) string {
	var doc struct {
		Type string `json:"__type"`
	}
	if status < 300 || json.Unmarshal(answer, &doc) != nil {
		return ""
	}
	return doc.Type[strings.LastIndex(doc.Type, "#")+1:]
}
