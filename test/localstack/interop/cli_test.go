//go:build interop

package interop

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// The Python command-line tool works on a table that only our client and functions have used. It
// calls the library, so one emulator is enough.
func TestPythonToolOnOurTable(t *testing.T) {
	for _, release := range releases {
		t.Run(release, func(t *testing.T) { pythonTool(deploy(t, engine.ForTest(t, engine.Dynoxide), release, nil)) })
	}
}

func pythonTool(d *deployment) {
	l := d.open()
	for _, e := range []admin.Entity{{ID: "org"}, {ID: "acme", Name: "Acme", Parent: "org"}} {
		check.Must(d, check.Err(d.manage().CreateEntity(d.Context(), e)))
	}
	d.set("", "", limiter.PerMinute("rpm", 77))
	d.set("", "gpt-4", limiter.PerMinute("rpm", 88), limiter.PerMinute("tpm", 10_000))
	d.set("acme", "gpt-4", limiter.PerMinute("rpm", 99), limiter.PerMinute("tpm", 10_000))
	d.take(l, "acme", "gpt-4", limiter.Costs{"rpm": 1, "tpm": 123})
	d.rest()
	for _, c := range []struct {
		command string
		want    []string
	}{
		{"namespace list", []string{namespace, d.ns}},
		{"namespace show " + namespace, []string{d.ns, "active"}},
		{"system get-defaults", []string{"77"}},
		{"resource list", []string{"gpt-4"}},
		{"resource get-defaults gpt-4", []string{"88"}},
		{"entity show acme", []string{"Acme", "org"}},
		{"entity get-limits acme --resource gpt-4", []string{"99"}},
		{"usage list --entity-id acme --window hourly", []string{"gpt-4", "123"}},
		{"usage summary --entity-id acme --window daily", []string{"123"}},
		{"audit list --entity-id acme", []string{"limits_set", "ops"}},
		{"entity set-limits acme --resource gpt-4 --limit rpm:55", []string{"55"}},
	} {
		out, err := d.cli(strings.Fields(c.command)...)
		for _, want := range c.want {
			if err != nil || !strings.Contains(out, want) {
				d.Errorf("zae-limiter %s: %v, want %q in\n%s", c.command, err, want, out)
				break
			}
		}
	}
	c, err := d.manage().Config(d.Context(), admin.Scope{Entity: "acme", Resource: "gpt-4"})
	if err != nil || len(c.Limits) != 1 || c.Limits[0].Capacity != 55 {
		d.Errorf("limits that the tool has set: %+v, %v", c.Limits, err)
	}
}
