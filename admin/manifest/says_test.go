package manifest

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

// A manifest declares a hierarchy, and what scopes say besides limits, as Python 0.17 does.
func TestHierarchies(t *testing.T) {
	got, err := Parse([]byte(`
namespace: prod
x-plans:
  gold: &gold {rpm: {capacity: 100}}
x-team: platform
resources:
  gpt-4: {limits: {rpm: {capacity: 1, soft: no}}, cascade: yes}
  images: {disabled: true}
  embeddings: {disabled: bypass, x-why: a trial}
entities:
  org: {}
  acme:
    name: Acme
    parent: org
    cascade: on
    metadata: {plan: gold, seats: 5, tags: [a, b]}
    resources:
      gpt-4: {limits: *gold, disabled: FALSE}
      _default_: {cascade: false}
  beta:
    resources: {gpt-4: {limits: {<<: *gold, tpm: {capacity: 5, schedule: []}}}}
`))
	check.Must(t, err)
	rpm, gpt := limiter.PerMinute("rpm", 100), admin.Scope{Resource: "gpt-4"}
	acme, beta := admin.Scope{Entity: "acme", Resource: "gpt-4"}, admin.Scope{Entity: "beta", Resource: "gpt-4"}
	want := admin.Manifest{
		Namespace: "prod",
		Scopes: []admin.Config{
			{Scope: admin.Scope{Resource: "embeddings"}, Access: admin.AccessBypassed},
			{Scope: gpt, Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)}, Cascade: admin.CascadeOn},
			{Scope: admin.Scope{Resource: "images"}, Access: admin.AccessDisabled},
			{Scope: admin.Scope{Entity: "acme"}, Cascade: admin.CascadeOff},
			{Scope: acme, Limits: []limiter.Limit{rpm}, Access: admin.AccessEnabled},
			{Scope: beta, Limits: []limiter.Limit{rpm, limiter.PerMinute("tpm", 5)}},
		},
		Entities: []admin.Entity{{ID: "acme", Name: "Acme", Parent: "org", Cascade: true,
			Metadata: map[string]any{"plan": "gold", "seats": 5, "tags": []any{"a", "b"}}}, {ID: "org"}},
	}
	check.Deep(t, got, want, "read")
}

// What Python 0.17 reads and ours does not obey is refused with its line and the reason, and so is
// what neither knows. Nothing is passed over in silence.
func TestUnsupportedKeysAreRefusedByLine(t *testing.T) {
	const resource = "namespace: a\nresources:\n  gpt-4:\n    limits: {rpm: {capacity: 1}}\n"
	for text, want := range map[string]string{
		"namespace: a\nversion: 3": `line 2: "version" is not known here, accepted are namespace, system, resources, entities`,
		resource + "    description: x": `line 5: resources: gpt-4: "description" is not known here, accepted are ` +
			`disabled, cascade, limits`,
		"namespace: a\nresources:\n  g: {limits: {rpm: {capacity: 1,\n" +
			"  schedule: [{cron: 0 9 * * *, days: 1}]}}}": `line 4: resources: g: limits: rpm: schedule: "days" is not known here, accepted are cron, tz, scale, capacity, ` +
			"refill_amount, refill_period_seconds",
		"namespace: a\nsystem:\n  disabled: true": "line 3: system: disabled: a whole",
		"namespace: a\nsystem:\n  cascade: true":  "line 3: system: cascade: a whole",
		resource + "    disabled: maybe":          `line 5: resources: gpt-4: disabled: found "maybe", want true, false or bypass`,
		resource + "    disabled: \"true\"":       `line 5: resources: gpt-4: disabled: found "true", want true, false or bypass`,
		resource + "    cascade: \"yes\"":         `line 5: resources: gpt-4: cascade: found "yes", want true or false`,
		resource + "    cascade: 1":               `line 5: resources: gpt-4: cascade: found "1", want true or false`,
		"namespace: a\nentities:\n  e:\n    limits: {}": `line 4: entities: e: "limits" is not known here, accepted are ` +
			`name, parent, cascade, metadata, resources`,
		"namespace: a\nentities:\n  e: {resources: {g:\n  {limts: {}}}}": `line 4: entities: e: resources: g: "limts" is not known here`,
		"namespace: a\nresources: {g: {limits: {q: {capacity: 1,\n  reset_schedule: [{cron: 0 0 * * *, scale: 1}]}}}}": `line 3: ` +
			`resources: g: limits: q: reset_schedule: "scale" is not known here, accepted are cron, tz`,
		"namespace: a\nentities:\n  a: {parent: b}\n  b: {parent: c}\n  c: {parent: a}": `entity "a": parent "b": a circle, a -> b -> c -> a`,
		"namespace: a\nentities: {a: {parent: a}}":                                      "a circle, a -> a",
		"namespace: a\nentities: {a: {cascade: true}}":                                  `entity "a": limiter: invalid: Cascade is true, want a Parent`,
		"namespace: a\nentities: {a: {parent: \"b\\nc\"}}":                              `entity "a": limiter: invalid: Parent is "b\nc"`,
		"namespace: a\nentities: {a: {metadata: {t: 2024-01-01}}}":                      `Metadata.t is a time (in YAML, a date without quotes), want text`,
		"namespace: a\nresources: {g: {disabled: }}":                                    `at least one`,
	} {
		refuses(t, text, want)
	}
}

// An alias may stand for a part many times: it is checked once.
func TestAliasesAreCheckedOnce(t *testing.T) {
	var b strings.Builder
	b.WriteString("namespace: a\nx-l: &l {rpm: {capacity: 1}}\nx-r: &r {g: {limits: *l}}\nentities:\n")
	for i := range 2000 {
		b.WriteString("  e" + strings.Repeat("x", i%50) + string(rune('a'+i/50%26)) + string(rune('a'+i/1300)) +
			": {resources: *r}\n")
	}
	m, err := Parse([]byte(b.String()))
	if err != nil || len(m.Scopes) != 2000 || m.Scopes[0].Entity != "eaa" || len(m.Scopes[0].Limits) != 1 {
		t.Errorf("%d scopes, %v", len(m.Scopes), err)
	}
}

// Errors are in words of manifests: the line once, and the values that are accepted there.
func TestWordsOfErrors(t *testing.T) {
	limitKeys := "capacity, refill_amount, refill_period, burst, soft, in_flight, epoch_seconds, floors, " +
		"ahead_milliseconds, schedule, amount, reset, reset_schedule, reset_after_seconds"
	in := func(rest string) string { return "namespace: a\nsystem:\n  limits:\n    rpm: " + rest }
	for text, want := range map[string]string{
		in("{capcity: 3}"):                              `line 4: system: limits: rpm: "capcity" is not known here, accepted are ` + limitKeys,
		in("3"):                                         `line 4: system: limits: rpm: found "3", want a mapping with any of ` + limitKeys,
		in("[1]"):                                       `line 4: system: limits: rpm: found a list, want a mapping with any of ` + limitKeys,
		in("{capacity: x}"):                             `line 4: system: limits: rpm: capacity: found "x", want a whole number`,
		in("{floors: {a: b}, capacity: 1}"):             `line 4: system: limits: rpm: floors: a: found "b", want a whole number`,
		in("{capacity: 3, soft: 5}"):                    `line 4: system: limits: rpm: soft: found "5", want true or false`,
		in("{capacity: 3, reset_schedule: 1}"):          `line 4: system: limits: rpm: reset_schedule: found "1", want a list`,
		in("{capacity: 3, schedule: [{scale: 0}]}"):     `found "0", want a number above 0, up to 1000000`,
		in("{capacity: 3, schedule: [{scale: -1}]}"):    `found "-1", want a number above 0`,
		in("{capacity: 3, schedule: [{scale: .nan}]}"):  `found ".nan", want a number above 0`,
		in("{capacity: 3, schedule: [{scale: '2'}]}"):   `found "2", want a number above 0`,
		in("{capacity: 3, reset_schedule: [{crn: 3}]}"): `line 4: system: limits: rpm: reset_schedule: "crn" is not known here, accepted are cron, tz`,
		in("{capacity: 3, reset: [daily]}"):             `line 4: system: limits: rpm: reset: found a list, want text`,
		"namespace: a\nresources: [x]":                  `line 2: resources: found a list, want names, each with a mapping with any of `,
		"namespace: a\nnovelty: 1":                      `line 2: "novelty" is not known here, accepted are namespace, system, `,
		"namespace: [a]\nnovelty: 1":                    `line 1: namespace: found a list, want text; line 2: "novelty"`,
		"namespace: a\n'': 1":                           `line 2: "" is not known here`,
		"- a":                                           `line 1: found a list, want a mapping with any of namespace, `,
		"namespace: a\nsystem: [a":                      "did not find expected",
	} {
		refuses(t, text, want)
	}
}
