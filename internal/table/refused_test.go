package table

import (
	"maps"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// What is planned from an image holds for the item it is of, and is refused when one
// thing that it was planned from has changed: the generation, the count, a limit; of a
// shard that goes, also what was taken from it.
func TestWhatIsPlannedFromAnImageIsRefusedWhenThatHasChanged(t *testing.T) {
	const now = sampleNow + 1007
	n, images := sampleNew(sampleLimits), sampleImages(sampleLimits)
	used, split := images["used"], images["split"]
	other := split
	other.State.Shard = 1
	merge := Merge(split, other, 1, now)
	played := 0
	for name, c := range map[string]struct {
		image Shard
		write item.Write
		gone  bool
	}{
		"acquire": {used, Charge{Image: used, Costs: n.Costs, Now: now}.Plan().Update, false},
		"take ahead": {used, Charge{Image: used, Costs: n.Costs, Now: now,
			Ahead: &Ahead{Life: 500, Take: n.Costs}}.Plan().Update, false},
		"take ahead, mend": {used, Charge{Image: used, Costs: n.Costs, Now: now,
			Ahead: &Ahead{Life: 500, Take: n.Costs, Mend: true}}.Plan().Update, false},
		"settle":       {used, Charge{Image: used, Costs: n.Costs, Now: now, Force: true}.Plan().Update, false},
		"refill":       {used, Charge{Image: used, Now: now}.Plan().Update, false},
		"raise":        {used, Raise(used, map[string]int64{sampleLimits[0].Name: 1000}, now), false},
		"split":        {used, Split(used, now)[0], false},
		"recount":      {used, Recount(used, now), false},
		"discount":     {split, Discount(split, 1, now)[0], false},
		"merge, kept":  {split, merge[1], false},
		"merge, other": {other, merge[0], true},
	} {
		it := c.image.Item()
		if _, held, err := c.write.Apply(it); err != nil || !held {
			t.Fatalf("%s: held %v, %v by its own image", name, held, err)
		}
		for attr := range it {
			limit := strings.HasPrefix(attr, "b_")
			rule := limit && (strings.HasSuffix(attr, "_cp") || strings.HasSuffix(attr, "_ra") ||
				strings.HasSuffix(attr, "_rp"))
			taken := c.gone && limit && strings.HasSuffix(attr, "_tc") && !strings.HasPrefix(attr, "b_wcu")
			if attr != attrGeneration && attr != attrShardCount && !rule && !taken {
				continue
			}
			number, _, _ := intAttr(it, attr)
			for _, to := range []item.Value{nil, item.N(number + 1), item.N(number - 1)} {
				changed := maps.Clone(it)
				if changed[attr] = to; to == nil {
					delete(changed, attr)
				}
				played++
				if _, held, err := c.write.Apply(changed); err != nil || held {
					t.Errorf("%s: %s from %d to %v: held %v, %v", name, attr, number, to, held, err)
				}
			}
		}
	}
	t.Logf("%d changes refused", played)
}
