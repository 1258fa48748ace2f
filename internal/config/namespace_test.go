package config

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Each step of a namespace leads to the expected status from every status that allows it. Other
// statuses refuse it.
func TestNamespaceStepsNeedTheirStatus(t *testing.T) {
	n := Namespace{ID: "id", Name: "default", CreatedAt: layout.Timestamp(sampleNow)}
	step := func(w item.Write) item.Update { return w.(item.Update) }
	retire, back := step(n.Retire(layout.Timestamp(sampleNow))[1]), step(n.Recover()[1])
	for _, c := range []struct {
		name string
		step item.Update
		want map[string]string // the status afterwards, by the status before; others refuse
	}{
		{"retire", retire, map[string]string{NamespaceActive: NamespaceDeleted}},
		{"recover", back, map[string]string{NamespaceDeleted: NamespaceActive, NamespaceActive: NamespaceActive}},
		{"purge", n.Purge(), map[string]string{NamespaceDeleted: NamespacePurging, NamespacePurging: NamespacePurging}},
	} {
		for _, status := range []string{NamespaceActive, NamespaceDeleted, NamespacePurging} {
			before := n
			if before.Status = status; status != NamespaceActive {
				before.DeletedAt = layout.Timestamp(sampleNow)
			}
			after, held, err := c.step.Apply(before.Reverse())
			if want, ok := c.want[status]; err != nil || held != ok {
				t.Errorf("%s while %s: held %v, %v", c.name, status, held, err)
			} else if ok {
				got, err := DecodeNamespace(after)
				if err != nil || got.Status != want || (got.DeletedAt == "") != (want == NamespaceActive) {
					t.Errorf("%s while %s: %+v, %v, want %s", c.name, status, got, err, want)
				}
			}
		}
	}
}
