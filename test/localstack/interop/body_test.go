//go:build interop

package interop

import (
	"reflect"
	"testing"

	"github.com/zeroae/zae-limiter-go/httplimit"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// The body of a denial has Python's fields with the same values, in every release, except for the
// message and the wait, which is longer for us.
func TestBodyOfADenial(t *testing.T) {
	onBothEngines(t, func(w *world) {
		l, p := w.open(), w.python()
		p.call(nil, "set_resource_defaults", kv{"resource": "api", "limits": pyLimits(still("rpm", 3), still("tpm", 100))})
		p.take("acme", "api", limiter.Costs{"rpm": 3, "tpm": 10})
		costs := limiter.Costs{"rpm": 1, "tpm": 10}
		_, theirs := p.tryAcquire("acme", "api", costs, nil)
		if !theirs.denied() {
			w.Fatalf("Python: %v, want it denied", theirs)
		}
		var ours map[string]any
		recode(w, httplimit.Denial{
			LimitError: w.denied(l, "acme", "api", costs),
			Request:    limiter.Request{Entity: "acme", Resource: "api", Costs: costs},
		}.Body(), &ours)
		w.sameFields("body", ours, theirs.Body)
		limits, same := byName(ours), byName(theirs.Body)
		if len(limits) != 2 || len(same) != 2 {
			w.Fatalf("limits %v, and of Python %v", limits, same)
		}
		for name := range same {
			w.sameFields(name, limits[name], same[name])
		}
	})
}

// byName returns the limits of a body by name.
func byName(body map[string]any) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, l := range body["limits"].([]any) {
		limit := l.(map[string]any)
		out[limit["limit_name"].(string)] = limit
	}
	return out
}

// sameFields compares an object of a body with Python's. Ours may have more fields than the older
// release, but not than the newer one.
func (w *world) sameFields(what string, ours, theirs map[string]any) {
	w.Helper()
	for name, want := range theirs {
		got, ok := ours[name]
		switch name {
		case "message", "limits", "retry_after_seconds", "retry_after_ms":
		default:
			ok = ok && reflect.DeepEqual(got, want)
		}
		if !ok {
			w.Errorf("%s: %s is %v, want %v as of Python", what, name, got, want)
		}
	}
	if w.release == newer && len(ours) != len(theirs) {
		w.Errorf("%s: fields %v, and of Python %v", what, ours, theirs)
	}
}
