package docs_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/zeroae/zae-limiter-go/streams"
)

// The rule of the recipe takes from an event only what an alert has, and the template only what the rule
// takes; the alert that the page shows has all fields.
func TestRecipeOfAlertsFits(t *testing.T) {
	page := pages(t)["budgets-and-quotas.md"]
	block := func(language string) string {
		_, rest, _ := strings.Cut(page, "```"+language+"\n")
		text, _, ok := strings.Cut(rest, "```")
		if !ok {
			t.Fatalf("no block of %s", language)
		}
		return text
	}
	var recipe struct {
		Rule struct {
			Properties struct {
				EventPattern struct {
					Source []string
					Detail map[string]any
				} `yaml:"EventPattern"`
				Targets []struct {
					InputTransformer struct {
						InputPathsMap map[string]string `yaml:"InputPathsMap"`
						InputTemplate string            `yaml:"InputTemplate"`
					} `yaml:"InputTransformer"`
				} `yaml:"Targets"`
			} `yaml:"Properties"`
		} `yaml:"Rule"`
	}
	if err := yaml.Unmarshal([]byte(block("yaml")), &recipe); err != nil {
		t.Fatal(err)
	}
	fields, shown := map[string]any{}, map[string]any{}
	text, err := json.Marshal(streams.Alert{})
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err == nil {
		err = json.Unmarshal([]byte(block("json")), &shown)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name := range fields {
		if shown[name] == nil {
			t.Errorf("the page shows no %s", name)
		}
	}
	p := recipe.Rule.Properties
	for name := range p.EventPattern.Detail {
		if fields[name] == nil {
			t.Errorf("no alert has %s, which the pattern asks for", name)
		}
	}
	if len(shown) != len(fields) || len(p.EventPattern.Source) != 1 || len(p.Targets) != 1 {
		t.Fatalf("the page shows %v and %+v", shown, recipe)
	}
	transformer := p.Targets[0].InputTransformer
	for name, path := range transformer.InputPathsMap {
		if field, ok := strings.CutPrefix(path, "$.detail."); !ok || fields[field] == nil {
			t.Errorf("%s is %s, which no alert has", name, path)
		}
	}
	uses := regexp.MustCompile(`<(\w+)>`).FindAllStringSubmatch(transformer.InputTemplate, -1)
	for _, use := range uses {
		if transformer.InputPathsMap[use[1]] == "" {
			t.Errorf("the template uses %s, which the rule does not take", use[0])
		}
	}
	if len(uses) != len(transformer.InputPathsMap) || !json.Valid([]byte(transformer.InputTemplate)) {
		t.Errorf("template %s, paths %v", transformer.InputTemplate, transformer.InputPathsMap)
	}
}
