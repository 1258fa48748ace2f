package manifest

import (
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
)

const full = `
namespace: default
system:
  on_unavailable: allow
  limits:
    rpm: {capacity: 10, burst: 20}
resources:
  gpt-4:
    limits:
      tpm: {capacity: 5, refill_amount: 2, refill_period: 1}
entities:
  kéy:
    resources:
      gpt-4: {limits: {rpm: {capacity: 1}}}
      _default_:
        limits: {rpm: {capacity: 1}}
`

func TestParse(t *testing.T) {
	got, err := Parse([]byte(full))
	check.Must(t, err)
	one := []limiter.Limit{limiter.PerMinute("rpm", 1)}
	want := admin.Manifest{
		Namespace: "default",
		Scopes: []admin.Config{{Limits: []limiter.Limit{limiter.PerMinute("rpm", 20)}, OnUnavailable: limiter.PolicyAllow},
			{Scope: admin.Scope{Resource: "gpt-4"}, Limits: []limiter.Limit{{Name: "tpm", Capacity: 5, Refill: 2,
				Period: time.Second}}},
			{Scope: admin.Scope{Entity: "kéy"}, Limits: one},
			{Scope: admin.Scope{Entity: "kéy", Resource: "gpt-4"}, Limits: one}},
	}
	check.Deep(t, got, want, "read")
}

// refuses wants a manifest to be refused whole, in words of manifests: the line once, and no types.
func refuses(t *testing.T, text, want string) {
	t.Helper()
	m, err := Parse([]byte(text))
	if !errors.Is(err, limiter.ErrInvalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s\nerror is %v\nwant it to say %s", text, err, want)
	}
	if err != nil && regexp.MustCompile(`!!|manifest\.[a-z]|line \d+: line|construct`).MatchString(err.Error()) {
		t.Errorf("%s\n%v", text, err)
	}
	check.Deep(t, m, admin.Manifest{}, "%q: read as", text)
}

func TestBadManifestsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":             "namespace",
		"namespace: _": `"_"`,
		"namespace: [": "manifest",
		"{namespace: a, system: {limits: {rpm: {capacity: 0}}}}":                                      "Capacity",
		"{namespace: a, system: {limits: {rpm: {capacity: 1.5}}}}":                                    "1.5",
		"{namespace: a, system: {limits: {wcu: {capacity: 1}}}}":                                      `"wcu"`,
		"{namespace: a, system: {limits: {rpm: {capacity: 1, refill_period: 9223372036854775807}}}}":  "refill_period",
		"{namespace: a, system: {limits: {rpm: {capacity: 1, refill_period: -1}}}}":                   "refill_period",
		"{namespace: a, resources: {gpt-4: {limits: {}}}}":                                            "at least one",
		"{namespace: a, resources: {gpt-4: {on_unavailable: allow, limits: {rpm: {capacity: 1}}}}}":   "only system",
		"{namespace: a, resources: {g: {limits: {rpm: {}}}}}":                                         ": g: limiter",
		"{namespace: a, entities: {x: {resources: {g: {limits: {rpm: {}}}}}}}":                        ": x: resources: g: ",
		"{namespace: a, entities: {\"a\\nb\": {resources: {gpt-4: {limits: {rpm: {capacity: 1}}}}}}}": "Entity",
	} {
		refuses(t, text, want)
	}
}

// The error names the place, in one form for what is no document and one for what is no manifest.
func TestErrorsNameThePlace(t *testing.T) {
	const ok = "{limits: {rpm: {capacity: 1}}}"
	const invalid, choice = "manifest: limiter: invalid: ", ", want allow or block"
	for _, c := range []struct{ text, want string }{
		{"namespace: a\n---\nnamespace: b", "limiter: invalid: manifest: line 2: more than one document"},
		{"namespace: a\n---\n", "limiter: invalid: manifest: line 2: more than one document"},
		{"namespace: a\nnamespace: b", `limiter: invalid: manifest: line 2: "namespace" is there already, in line 1`},
		{"{namespace: a, resources: {gpt-4: }}", invalid + "resources: gpt-4 is empty, want limits"},
		{"{namespace: a, system: {limits: {r: }}}", `manifest: system: limiter: invalid: limit "r" has no capacity`},
		{"{namespace: a, entities: {x: }}", invalid +
			"entities: x is empty, want resources, name, parent, cascade or metadata"},
		{"{namespace: a, entities: {x: {resources: {g: }}}}", invalid + "entities: x: resources: g is empty, want limits"},
		{"{namespace: a, system: {on_unavailable: ''}}", invalid + `system: on_unavailable is ""` + choice},
		{"{namespace: a, system: {on_unavailable: maybe}}", invalid + `system: on_unavailable is "maybe"` + choice},
		{"{namespace: a, resources: {g: {on_unavailable: allow}}}",
			"limiter: invalid: manifest: line 1: resources: g: on_unavailable: only system has it"},
		{"{namespace: a, entities: {x: {resources: {g: {on_unavailable: allow}}}}}",
			"limiter: invalid: manifest: line 1: entities: x: resources: g: on_unavailable: only system has it"},
		{"{namespace: a, resources: {_default_: " + ok + "}}",
			"manifest: limits of */_default_: limiter: invalid: Resource is "},
		{"{namespace: a, resources: {'': " + ok + "}}", invalid + `resources is "", want `},
		{"{namespace: a, entities: {x: {resources: {'': " + ok + "}}}}", invalid + `resources is "", want `},
		{"{namespace: a, entities: {'': {resources: {g: " + ok + "}}}}", invalid + `entities is "", want `},
	} {
		if _, err := Parse([]byte(c.text)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: error is %v, want %s", c.text, err, c.want)
		}
	}
}

// Numbers may be said once and meant several times; text is no number.
func TestNumbers(t *testing.T) {
	m, err := Parse([]byte("namespace: a\nresources: {x: {limits: " +
		"{rpm: {capacity: &n 10}, tpm: {capacity: *n, refill_amount: +5}}}}"))
	want := []limiter.Limit{limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 5).WithCapacity(10)}
	if err != nil || len(m.Scopes) != 1 || !reflect.DeepEqual(m.Scopes[0].Limits, want) {
		t.Errorf("%+v, %v", m.Scopes, err)
	}
	for _, bad := range []string{`"10"`, "0x10", "1e3", "ten", "[1]", "{}", "true", "1_000", "010", "9223372036854775808"} {
		text := "namespace: a\nresources:\n  x: {limits: {rpm: {capacity: " + bad + "}}}"
		refuses(t, text, "line 3")
	}
}

// All limits that are wrong are told at once.
func TestEveryBadLimitIsNamed(t *testing.T) {
	_, err := Parse([]byte("{namespace: a, system: {limits: {a: {}, b: {capacity: 1}, c: {}}}}"))
	want := "manifest: line 1: system: limiter: invalid: limit \"a\" has no capacity\n" +
		"line 1: system: limiter: invalid: limit \"c\" has no capacity"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Parse(text)
		if err != nil && !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && m.Validate() != nil {
			t.Errorf("%q: read as %+v", text, m)
		}
	})
}

// A key counts as what an alias stands for; one that is null would be passed over with
// its limits.
func TestKeysMustBeNames(t *testing.T) {
	const head, limits = "namespace: a\nresources:\n", "{limits: {rpm: {capacity: 1}}}\n"
	for text, want := range map[string]string{
		head + "  &x gpt-4: " + limits + "  *x : " + limits: `line 4: resources: "gpt-4" is there already, in line 3`,
		head + "  null: " + limits:                          `line 3: resources: the key is null; in quotes it is a name: "null"`,
		head + "  ~: " + limits:                             `line 3: resources: the key is null`,
		"namespace: a\nentities: {a: {metadata: {t: {b: 1,\n b: 2}}}}": `line 3: entities: a: metadata: t: "b" is there already, ` +
			"in line 2",
		head + "  &x null: " + limits: `line 3: resources: the key is null`,
	} {
		refuses(t, text, want)
	}
	text := head + "  \"null\": " + limits + "  &x gpt-4: " + limits + "  x: " + limits
	if m, err := Parse([]byte(text)); err != nil || len(m.Scopes) != 3 {
		t.Errorf("%v, %v", m.Scopes, err)
	}
	text = "namespace: a\nx-l: &l {rpm: {capacity: 1}, tpm: {capacity: 2}}\n" +
		"resources: {g: {limits: {<<: *l, rpm: {capacity: 3}}}}"
	want := []limiter.Limit{limiter.PerMinute("rpm", 3), limiter.PerMinute("tpm", 2)} // its own key wins
	if m, err := Parse([]byte(text)); err != nil || len(m.Scopes) != 1 ||
		!reflect.DeepEqual(m.Scopes[0].Limits, want) {
		t.Errorf("%v, %v, want %v", m.Scopes, err, want)
	}
}
