//go:build deploy

package deploy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

const contextPrefix = "zae-limiter:"

// resources are the resources of a template, to be changed in place.
type resources map[string]map[string]any

// synth synthesizes the stack with the options, adapts it to the emulator, and returns the folder.
//
// The functions are replaced by this machine's builds. The alarm on a metric expression becomes a
// plain one, because the emulator supports none. change may change more.
func (e *emulator) synth(t *testing.T, name, stack string, options []string, change func(resources)) string {
	t.Helper()
	out := filepath.Join(e.dir, name)
	args := []string{"synth", "--quiet", "--output", out, "-c", contextPrefix + "stackName=" + stack,
		"-c", contextPrefix + "aggregatorFoldOff=true"} // the emulator has no tumbling windows
	for _, o := range options {
		args = append(args, "-c", contextPrefix+o)
	}
	e.mustCDK(t, args...)

	path := filepath.Join(out, stack+".template.json")
	old, err := os.ReadFile(path)
	check.Must(t, err)
	var template map[string]any
	check.Must(t, json.Unmarshal(old, &template))
	found := resources{}
	for id, r := range template["Resources"].(map[string]any) {
		found[id] = r.(map[string]any)
	}
	plainAlarms(found)
	e.ownPrograms(t, out, found)
	if change != nil {
		change(found)
	}
	text, err := json.Marshal(template)
	check.Must(t, err)
	check.Must(t, os.WriteFile(path, text, 0o644))
	rename(t, out, stack, text)
	return out
}

// plainAlarms replaces the expressions of alarms by a plain metric.
func plainAlarms(all resources) {
	for _, r := range all {
		properties, _ := r["Properties"].(map[string]any)
		if r["Type"] != "AWS::CloudWatch::Alarm" || properties["Metrics"] == nil {
			continue
		}
		delete(properties, "Metrics")
		properties["Namespace"], properties["MetricName"] = "AWS/Lambda", "Invocations"
		properties["Statistic"], properties["Period"] = "Sum", 300
	}
}

// ownPrograms replaces the functions by this machine's builds, because the emulator would have to
// run Lambda's on another processor.
func (e *emulator) ownPrograms(t *testing.T, out string, all resources) {
	t.Helper()
	replaced := 0
	for id, r := range all {
		if r["Type"] != "AWS::Lambda::Function" {
			continue
		}
		asset := r["Metadata"].(map[string]any)["aws:asset:path"].(string)
		for _, function := range []string{"aggregator", "archiver", "setup"} {
			if !strings.HasPrefix(strings.ToLower(id), function) {
				continue
			}
			program, err := os.ReadFile(filepath.Join(e.root, "dist", "local", function, "bootstrap"))
			check.Must(t, err)
			bootstrap := filepath.Join(out, asset, "bootstrap")
			check.Must(t, os.Remove(bootstrap))
			check.Must(t, os.WriteFile(bootstrap, program, 0o755))
			replaced++
		}
	}
	check.MustEqual(t, replaced, 3, "functions in the template")
}

// rename gives a changed template the key of its content, because the tool uploads nothing under an
// existing key.
func rename(t *testing.T, out, stack string, template []byte) {
	t.Helper()
	assets := filepath.Join(out, stack+".assets.json")
	text, err := os.ReadFile(assets)
	check.Must(t, err)
	var listed struct {
		Files map[string]struct{ Source struct{ Path string } }
	}
	check.Must(t, json.Unmarshal(text, &listed))
	sum := sha256.Sum256(template)
	for key, file := range listed.Files {
		if file.Source.Path != stack+".template.json" {
			continue
		}
		old, _, _ := strings.Cut(key, "-")
		for _, path := range []string{assets, filepath.Join(out, "manifest.json")} {
			text, err := os.ReadFile(path)
			check.Must(t, err)
			text = bytes.ReplaceAll(text, []byte(old), []byte(hex.EncodeToString(sum[:])))
			check.Must(t, os.WriteFile(path, text, 0o644))
		}
		return
	}
	t.Fatalf("%s does not list the template", assets)
}
