//go:build envoy

package serve

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// onPage returns the code blocks of a language on the service's page.
func onPage(t *testing.T, language string) (out []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(engine.Root(), "..", "..", "docs", "service.md"))
	check.Must(t, err)
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		out = append(out, m[1])
	}
	return out
}

// After the page's example: failed work gives everything back, or settles its real costs if they
// are known. Denials and invalid requests are reported.
const (
	pythonUse = `
def left():
    print({l["limit_name"]: l["available"] for l in limiter.peek("acme", "gpt-4")})

left()
for cost in None, 30:
    try:
        with limiter.lease("acme", "gpt-4", {"rpm": 1, "tpm": 900}) as actual:
            if cost:
                actual["tpm"] = cost
            raise KeyError
    except KeyError:
        left()
try:
    limiter.acquire("acme", "gpt-4", {"tpm": 9000})
except Denied as denied:
    print(denied.retry_after > 0)
try:
    limiter.acquire("acme", "gpt-4", {"images": 1})
except RuntimeError as error:
    print(str(error).split()[1])
`
	jsUse = `
const left = async () => {
  const all = (await limiter.peek("acme", "gpt-4")).map((l) => "'" + l.limit_name + "': " + l.available);
  console.log("{" + all.join(", ") + "}");
};

await left();
for (const cost of [undefined, 30]) {
  try {
    await limiter.lease("acme", "gpt-4", { rpm: 1, tpm: 900 }, async (actual) => {
      if (cost) actual.tpm = cost;
      throw new RangeError();
    });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    await left();
  }
}
try {
  await limiter.acquire("acme", "gpt-4", { tpm: 9000 });
} catch (error) {
  console.log(error instanceof Denied && error.retryAfter > 0 ? "True" : error);
}
try {
  await limiter.acquire("acme", "gpt-4", { images: 1 });
} catch (error) {
  console.log(error.message.split(" ")[1]);
}
`
)

// The page's clients work as written, and alike.
func TestClientsOfThePage(t *testing.T) {
	for _, c := range []struct {
		language, file, run, model, use string
	}{
		{"python", "client.py", "python3", "def call_model(): return 1170\n", pythonUse},
		{"js", "client.mjs", "node", "const callModel = async () => 1170;\n", jsUse},
	} {
		t.Run(c.language, func(t *testing.T) {
			w := newTable(t)
			w.run(t, "limits set -y -e acme -r gpt-4 rpm=10/365d tpm=10000/365d")
			p := w.serve(t, freePort(t))
			blocks := onPage(t, c.language)
			written := func(r rune) bool { return r == '\n' } // non-empty lines
			if len(blocks) != 2 || len(strings.FieldsFunc(blocks[0], written)) > 40 {
				t.Fatalf("%d blocks of %s, want a client of 40 lines at most and its use", len(blocks), c.language)
			}
			program := strings.Replace(c.model+strings.Join(blocks, "\n")+c.use, "http://localhost:8080", p.http, 1)
			file := filepath.Join(t.TempDir(), c.file)
			check.Must(t, os.WriteFile(file, []byte(program), 0o644))
			out, err := exec.CommandContext(t.Context(), c.run, file).CombinedOutput()
			check.Must(t, err, "%s", out)
			want := "{'rpm': 9, 'tpm': 8830}\n{'rpm': 9, 'tpm': 8830}\n{'rpm': 8, 'tpm': 8800}\nTrue\n400\n"
			check.Equal(t, string(out), want)
		})
	}
}

// systemd accepts the unit. It checks the program's path, so the test uses an existing one.
func TestSystemdAcceptsTheUnit(t *testing.T) {
	units := onPage(t, "ini")
	check.MustEqual(t, len(units), 1, "units")
	file := filepath.Join(t.TempDir(), "limiter.service")
	text := strings.Replace(units[0], "/usr/local/bin/zae-limiter", tool, 1)
	check.Must(t, os.WriteFile(file, []byte(text), 0o644))
	verify := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", file)
	out, err := verify.CombinedOutput()
	if err != nil || bytes.Contains(out, []byte(filepath.Base(file))) { // ignored lines are only reported
		t.Errorf("%v\n%s", err, out)
	}
}

// The task is valid for ECS, the pod for Kubernetes, and the tool accepts their arguments.
func TestTaskAndPodAreValid(t *testing.T) {
	var task ecs.RegisterTaskDefinitionInput
	d := json.NewDecoder(strings.NewReader(onPage(t, "json")[0]))
	d.DisallowUnknownFields()
	check.Must(t, d.Decode(&task))
	var pod core.Pod
	var text string
	for _, block := range onPage(t, "yaml") {
		if strings.HasPrefix(block, "apiVersion: v1\nkind: Pod\n") {
			text = block
		}
	}
	check.Must(t, yaml.UnmarshalStrict([]byte(text), &pod))
	if len(task.ContainerDefinitions) != 2 || len(pod.Spec.InitContainers) != 1 {
		t.Fatalf("%+v %+v", task, pod)
	}
	for _, args := range [][]string{task.ContainerDefinitions[1].Command, pod.Spec.InitContainers[0].Args} {
		if out, err := exec.CommandContext(t.Context(), tool, append(args, "--help")...).CombinedOutput(); err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
}
