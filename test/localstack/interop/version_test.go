//go:build interop

package interop

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/config"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// No Python client of any release touches the table's functions, whoever opens the table first:
// once our client has opened it, the version record names their newest release, or none.
func TestVersionRecordKeepsPythonFromOurFunctions(t *testing.T) {
	steps := map[string][]string{
		"Go first":              {"go", older, newer, "go"},
		"old Python first":      {older, "go", newer, older},
		"new Python first":      {newer, "go", older, newer},
		"old, Go, new, Go, old": {older, "go", newer, "go", older},
	}
	for _, kind := range engines {
		e := engine.ForTest(t, kind)
		for order, clients := range steps {
			w := newWorld(t, e, older, e.Table(t).Name) // any release: each step names its own
			opened := false
			for _, client := range clients {
				if client == "go" {
					w.open()
					opened = true
				} else {
					w.opens(order, client, opened)
				}
				v, err := config.DecodeVersion(w.item(layout.VersionKey()))
				check.Must(w, err)
				if opened && v.Lambda != "" && v.Lambda != newer {
					w.Errorf("%s: after %s the version record names the aggregator's release %q", order, client, v.Lambda)
				}
			}
		}
	}
}

// opens opens a Python client, which must work. Once our client has opened the table, it must call
// no service but DynamoDB.
func (w *world) opens(order, version string, opened bool) {
	w.Helper()
	d := driverFor(w, w.engine, version, 0)
	d.control.taken()
	p, err := tryPython(w, d, w.table, namespace, nil)
	if calls := d.control.taken(); err != nil || opened && len(calls) > 0 {
		w.Errorf("%s: Python %s opens: %v, calls %v", order, version, err, calls)
		return
	}
	p.call(nil, "set_limits", kv{"entity_id": "acme", "resource": "api", "limits": pyLimits(still("rpm", 1000))})
	p.take("acme", "api", limiter.Costs{"rpm": 1})
}
