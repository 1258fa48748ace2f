package admin_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/admin/manifest"
)

// The hash is that of the Python provisioner, for manifests that mean the same.
func TestHash(t *testing.T) {
	for _, c := range []struct{ want, text string }{
		{"a3f5557f9d4601f8891b250a265a55c5198c05cfda2ca73f44174e1ff6e75e82",
			"{namespace: default, system: {limits: {rpm: {capacity: 10}}}}"},
		{"a3f5557f9d4601f8891b250a265a55c5198c05cfda2ca73f44174e1ff6e75e82",
			`{"namespace":"default","system":{"limits":{"rpm":{"refill_period":60,"capacity":10}}}}`},
		{"fe748d63e4820901d5a7feb9853a83e12c6efa331a3e116b6d38e0c12a397d21",
			"{namespace: default, system: {on_unavailable: allow, limits: {rpm: {capacity: 1, burst: 20}}}}"},
		{"e2647b80582cd340866d986fb9a73b081f1f97d5d92296306cda7012414510e1",
			"{namespace: default, system: {on_unavailable: allow}}"},
		{"2526512c0f93cd103f6378edb3df992db4d69f8f0da389d3e24a850df7c1ff34",
			"{namespace: default, system: {}}"},
		{"6c54adbb6d0bc698cb447fe7d29830680f8fd24efea7c3f9e538c4bfd2b81df3",
			"namespace: default\nresources: {gpt-4: {limits: {tpm: {capacity: 5, refill_amount: 2, refill_period: 1}}}}\n" +
				"entities: {kéy: {resources: {gpt-4: {limits: {rpm: {capacity: 1}}}, " +
				"_default_: {limits: {rpm: {capacity: 1}}}}}}"},
		{"93c27185d141efc2320d3d0e3d7134bf36bff737f51233a72472ecebc78d8315",
			"{namespace: default, resources: {}, entities: {x: {resources: {}}}}"},
	} {
		m, err := manifest.Parse([]byte(c.text))
		if err != nil || admin.Hash(m) != "sha256:"+c.want {
			t.Errorf("%s: hash %s, %v", c.text, admin.Hash(m), err)
		}
	}
}
