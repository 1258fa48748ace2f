package envoylimit

import (
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// What is not acceptable is named with its file and line, all of it at once.
func TestConfigurationErrors(t *testing.T) {
	const keys = "key, value, rate_limit, shadow_mode, detailed_metric, descriptors, share_threshold, " +
		"value_to_metric, class"
	const mapping = " a mapping with any of " + keys
	const a = "domain: a\ndescriptors:\n- key: a\n"
	const limit = a + "  rate_limit: "
	const rate = "unit, unit_multiplier, requests_per_unit, unlimited, name, replaces"
	for text, want := range map[string]string{
		"":                                    "1: domain is empty, want the name of a domain",
		"# nothing\n---\n":                    "1: domain is empty, want the name of a domain",
		"edge":                                `1: found "edge", want a mapping with any of domain, descriptors`,
		"\ndescriptors: []":                   "2: domain is empty, want the name of a domain",
		"domain: []":                          "1: domain: found a list, want text",
		"domain: a\nextra: 1":                 `2: "extra" is not known here, accepted are domain, descriptors`,
		"domain: a\n? [x]\n: 1":               "2: found a list or a mapping as a key, want text",
		"domain: a\n~: 1":                     `2: the key is null; in quotes it is a name: "~"`,
		"domain: a\ndomain: b":                `2: "domain" is there already, in line 1`,
		"domain: a\n---\ndomain: b":           "2: more than one document",
		"domain: a\n b: c: d":                 "2: mapping values are not allowed in this context",
		"domain: *a":                          "1: unknown anchor 'a' referenced",
		"domain: a\x00":                       " control characters are not allowed (value: 0)",
		"domain: a\ndescriptors: {key: a}":    "2: descriptors: found a mapping, want a list",
		"domain: a\ndescriptors:\n- \n":       "3: descriptors: found nothing in an item, want" + mapping,
		"domain: a\ndescriptors:\n- a":        `3: descriptors: found "a", want` + mapping,
		"domain: a\ndescriptors:\n- value: a": "3: key is empty, want the key of a descriptor",
		"domain: a\ndescriptors:\n- key: a*":  `3: key is "a*": a * is accepted at the end of values`,
		a + "  value: b*c":                    `4: value is "b*c": a * is accepted at the end`,
		a + "- key: b\n- key: a":              "5: a|a is in line 3 already",
		"domain: a\ndescriptors:\n- {key: a, value: b}\n- {key: a, value: b}":   "4: a|a=b is in line 3 already",
		"domain: a\ndescriptors:\n- {key: a, value: b*}\n- {key: a, value: b*}": "4: a|a=b* is in line 3 already",
		a + "  quota_mode: true":      `4: descriptors: "quota_mode" is not known here, accepted are ` + keys,
		a + "  shadow_mode: perhaps":  `4: descriptors: shadow_mode: found "perhaps", want true or false`,
		a + "  class: a b":            `4: class is "a b", want 1 to 32 letters, digits, '_', '.' or '-'`,
		a + "  share_threshold: true": "4: share_threshold is true, want a value that ends in *",
		limit + "5":                   `4: descriptors: rate_limit: found "5", want a mapping with any of ` + rate,
		limit + "\n    <<: {}": "5: requests_per_unit is missing, want 0 to 4294967295\n" +
			"5: unit is missing, want second, minute, hour, day, week, month or year",
		limit + "{unit: day}": "4: requests_per_unit is missing, want 0 to 4294967295",
		limit + "\n    requests_per_unit: 1": "5: unit is missing, want second, minute, " +
			"hour, day, week, month or year",
		limit + "\n    unit: eon\n    requests_per_unit: -1": "5: descriptors: rate_limit: " +
			`unit: found "eon", want second, minute, hour, day, week, month or year` + "\n" +
			`6: descriptors: rate_limit: requests_per_unit: found "-1", want 0 to 4294967295`,
		limit + "{unit: year, requests_per_unit: 1, unit_multiplier: 11}": "4: " +
			`unit_multiplier is "11", want 1 to 10`,
		limit + "{unit: year, requests_per_unit: 1, unit_multiplier: -1}": "4: " +
			`unit_multiplier is "-1", want 1 to 10`,
		limit + "{unit: day, requests_per_unit: 4294967296}": "4: descriptors: rate_limit: " +
			`requests_per_unit: found "4294967296", want 0 to 4294967295`,
		limit + "{unit: Week, unlimited: true}": "4: unlimited is true and unit is week, " +
			"want one of them",
		limit + "\n    name: x\n    unlimited: true\n    replaces:\n    - name: x": "8: " +
			`name is "x": a rate limit cannot replace itself`,
		limit + "\n    unlimited: true\n    replaces:\n    - {}": "7: name is empty, " +
			"want the name of a rate limit that is replaced",
		limit + "{unit: day, requests_per_unit: 1, unit_multiplier: 010}": `4: unit_multiplier is "010", want 1 to 3650`,
		limit + "{unit: day, requests_per_unit: 010}": "4: descriptors: rate_limit: " +
			`requests_per_unit: found "010", want 0 to 4294967295`,
		limit + "{unit: day, requests_per_unit: 1, unit_multiplier: 0}": `4: unit_multiplier is "0", want 1 to 3650`,
		limit + "{unit: day, requests_per_unit: [1]}": "4: descriptors: rate_limit: " +
			"requests_per_unit: found a list, want 0 to 4294967295",
		"domain: a\n---\n[": "4: did not find expected node content",
		"domain: a\ndescriptors: &d\n- {key: a, descriptors: *d}": "3: anchor 'd' value contains itself",
	} {
		want = "f.yaml:" + strings.ReplaceAll(want, "\n", "\nf.yaml:")
		c, err := parse(file{"f.yaml", []byte(text)})
		if c != nil || err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

// What people write is read: comments, words in any case, numbers as values, aliases, nulls.
func TestConfigurationsAreReadAsTheyAre(t *testing.T) {
	c, err := parse(file{"a.yaml", []byte(`---
# what is limited at the edge
domain: edge
descriptors:
  - key: status
    value: 404
    detailed_metric: true
    rate_limit: &tight {unit: MINUTE, requests_per_unit: 5, name: tight}
  - {key: status, value: true, rate_limit: *tight, descriptors: ~}
  - {key: other, value: 4*, rate_limit: {<<: *tight, requests_per_unit: 7}}
  - {key: status, value: 4*, rate_limit: *tight}
  - key: status
    value:
    shadow_mode: n
    value_to_metric: 'yes'
    rate_limit:
  - key: user
    rate_limit: {unlimited: true, requests_per_unit: 0}
    descriptors:
      - key: path
        rate_limit: {unit: month, requests_per_unit: 1, replaces: [{name: tight}]}
`)}, file{"b.yaml", []byte("domain: empty")})
	check.Must(t, err)
	minute := ratelimit.RateLimitResponse_RateLimit_MINUTE
	for _, value := range []string{"404", "true", "4xx"} {
		r, _ := c.domains["edge"].find([]entry{{"status", value}})
		if r == nil || r.said.Unit != minute || r.said.RequestsPerUnit != 5 || r.name != "tight" {
			t.Errorf("%s: %+v", value, r)
		}
	}
	if r, _ := c.domains["edge"].find([]entry{{"other", "4"}}); r == nil || r.said.RequestsPerUnit != 7 ||
		r.name != "tight" {
		t.Errorf("merged: %+v", r)
	}
	if r, named := c.domains["edge"].find([]entry{{"status", "500"}}); r != nil || len(named) != 1 {
		t.Errorf("without a rate limit: %+v %v", r, named)
	}
	if r, _ := c.domains["edge"].find([]entry{{"user", "x"}, {"path", "/"}}); r == nil || len(r.replaces) != 1 ||
		r.path != "edge|user|path" {
		t.Errorf("nested: %+v", r)
	}
	if r, _ := c.domains["edge"].find([]entry{{"user", "x"}}); r == nil || !r.unlimited {
		t.Errorf("unlimited: %+v", r)
	}
	if c.domains["empty"] == nil {
		t.Error("a domain without descriptors is not known")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("domain: a\ndescriptors:\n- key: a\n  value: b*\n  rate_limit: {unit: day, requests_per_unit: 1}\n"))
	f.Add([]byte("domain: a\ndescriptors: &d [{key: a, descriptors: *d}]"))
	f.Add([]byte("? [a]\n: {<<: *x}\n---\n~"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parse(file{"f.yaml", text})
		if (c == nil) != (err != nil) || err != nil && !strings.HasPrefix(err.Error(), "f.yaml:") {
			t.Errorf("%v, %v", c, err)
		}
	})
}
