// Package docs_test holds the pages to the code and to each other.
package docs_test

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// pages are the README and everything in this folder.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	names = append(names, "../README.md", "../CONTRIBUTING.md", "../CHANGELOG.md", "../infra/cdk/README.md")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(text)
	}
	return out
}

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// Every piece of Go on a page is part of a file that is compiled.
func TestGoOnThePagesIsCompiled(t *testing.T) {
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	var sources []string
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := d.Name(); {
		case d.IsDir() && (name == "node_modules" || name == "testdata" || strings.HasPrefix(name, ".") && name != ".."):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sources = append(sources, squeeze(string(text)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(sources, "\n")
	blocks := 0
	for name, text := range pages(t) {
		for _, m := range goBlock.FindAllStringSubmatch(text, -1) {
			blocks++
			if !strings.Contains(all, squeeze(m[1])) {
				t.Errorf("%s: no Go file contains\n%s", name, m[1])
			}
		}
	}
	if blocks < 10 {
		t.Errorf("%d pieces of Go found: the pattern does not match any more", blocks)
	}
}

// TestProgramsStandOnPages whole, so that a reader can copy them.
func TestProgramsStandOnPages(t *testing.T) {
	files, err := filepath.Glob("../examples/pages/*/*.go")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, program, _ := strings.Cut("\n"+string(text), "\npackage ")
		found := strings.HasSuffix(name, "main_test.go")
		for _, page := range pages(t) {
			found = found || strings.Contains(page, "```go\npackage "+program+"```\n")
		}
		if !found {
			t.Errorf("%s is on no page", name)
		}
	}
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")

	link    = regexp.MustCompile(`(?:\]\(|(?:src|srcset)=")([^)"\s]+)[)"]`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Links between pages lead somewhere, anchors included.
func TestLinksLeadSomewhere(t *testing.T) {
	for name, text := range pages(t) {
		text = codeBlock.ReplaceAllString(text, "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := m[1]
			if strings.Contains(target, "://") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			path := filepath.Join(filepath.Dir(name), file)
			if file == "" {
				path = name
			}
			body, err := os.ReadFile(path)
			if info, look := os.Stat(path); look == nil && info.IsDir() {
				continue
			}
			if err != nil {
				t.Errorf("%s links to %s: %v", name, target, err)
				continue
			}
			if anchor == "" {
				continue
			}
			found := false
			for _, h := range heading.FindAllStringSubmatch(string(body), -1) {
				slug := strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")
				found = found || slug == anchor
			}
			if !found {
				t.Errorf("%s links to %s: there is no such heading", name, target)
			}
		}
	}
}

// Every page is on the list of pages.
func TestPagesAreListed(t *testing.T) {
	all := pages(t)
	for name := range all {
		if !strings.HasPrefix(name, "..") && name != "README.md" && !strings.Contains(all["README.md"], "("+name+")") {
			t.Errorf("%s is not in docs/README.md", name)
		}
	}
}

var costRow = regexp.MustCompile(`(?m)^\| acquire \| (\S+) \| (\S+) \| (\S+) \|`)

// TestCostsOnPagesMatchTheTable: the README and the comparison repeat what cost.md says of an acquire, of
// which internal/pricing computes the table.
func TestCostsOnPagesMatchTheTable(t *testing.T) {
	all := pages(t)
	is := costRow.FindStringSubmatch(all["cost.md"])
	if is == nil {
		t.Fatal("the table of costs has no row of an acquire")
	}
	var twice []string // Python's table indexes every write, for as much again
	for i, rate := range []float64{10, 100, 1000} {
		const perMillion, secondsPerMonth = 0.625, 730 * 3600
		month := func(dollars float64) string {
			n := int(math.Round(dollars * rate * secondsPerMonth / 1e6))
			if n >= 1000 {
				return strconv.Itoa(n/1000) + "," + strconv.Itoa(n%1000 + 1000)[1:]
			}
			return strconv.Itoa(n)
		}
		if want := month(perMillion); is[i+1] != want {
			t.Errorf("%v acquires a second cost $%s, want %s", rate, is[i+1], want)
		}
		twice = append(twice, month(2*perMillion))
	}
	for page, want := range map[string][]string{
		"compared.md":  {strings.Join(is[1:], ", "), strings.Join(twice, ", ")},
		"../README.md": {"| " + strings.Join(is[1:], " | ") + " |"},
	} {
		for _, costs := range want {
			if !strings.Contains(all[page], costs) {
				t.Errorf("%s does not say %q", page, costs)
			}
		}
	}
}

// TestReadmeIsShort enough for a stranger: at most 600 words besides code, tables and the
// targets of links.
func TestReadmeIsShort(t *testing.T) {
	text := codeBlock.ReplaceAllString(pages(t)["../README.md"], "")
	words := 0
	for line := range strings.Lines(link.ReplaceAllString(text, "]")) {
		if !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ") {
			words += len(strings.Fields(line))
		}
	}
	if words > 600 || words < 100 {
		t.Errorf("the README has %d words, want at most 600", words)
	}
	t.Logf("the README has %d words", words)
}

// TestProgramsHaveSoManyLines as compared.md says.
func TestProgramsHaveSoManyLines(t *testing.T) {
	rows := regexp.MustCompile(`\((\.\./examples/beside/[a-z]+/main\.go)\) \| ([0-9]+) \|`)
	all := rows.FindAllStringSubmatch(pages(t)["compared.md"], -1)
	if len(all) != 3 {
		t.Fatalf("%d programs in compared.md, want 3", len(all))
	}
	for _, m := range all {
		text, err := os.ReadFile(m[1])
		if err != nil {
			t.Fatal(err)
		}
		if n := strconv.Itoa(strings.Count(string(text), "\n")); n != m[2] {
			t.Errorf("%s has %s lines, compared.md says %s", m[1], n, m[2])
		}
	}
}

// TestFeaturesHaveTests: each row of the comparison has a test behind what we do, or says that we do not.
func TestFeaturesHaveTests(t *testing.T) {
	_, table, _ := strings.Cut(pages(t)["compared.md"], "|---|---|---|---|---|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	for _, row := range rows[1:] { // the first says what runs
		cells := strings.Split(row, " | ")
		if len(cells) != 9 || !testName.MatchString(cells[1]) && cells[1] != "no" {
			t.Errorf("%d cells, want 9, and a test in the second or no: %s", len(cells), row)
		}
	}
	if len(rows) < 12 {
		t.Errorf("%d rows: the table is not found any more", len(rows))
	}
}

var makeTarget = regexp.MustCompile("(?m)(?:`|^    )make ([a-z][a-z -]*[a-z])")

// TestTargetsExist: what the pages tell the reader to make, the Makefile makes; and it
// lists so few targets that they are read.
func TestTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	there, listed := map[string]bool{}, 0
	for line := range strings.Lines(string(makefile)) {
		names, rest, ok := strings.Cut(line, ":")
		if !ok || strings.ContainsAny(names, "\t$.=") {
			continue
		}
		for _, name := range strings.Fields(names) {
			there[name] = true
		}
		if strings.Contains(rest, " ## ") {
			listed++
		}
	}
	if listed < 10 || listed > 20 {
		t.Errorf("make lists %d targets, want at most 20", listed)
	}
	found := 0
	for page, text := range pages(t) {
		for _, m := range makeTarget.FindAllStringSubmatch(text, -1) {
			for _, name := range strings.Fields(m[1]) {
				found++
				if !there[name] {
					t.Errorf("%s says make %s: there is no target %q", page, m[1], name)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("%d targets found on the pages: the pattern does not match any more", found)
	}
}

var (
	testCommand = regexp.MustCompile("`[^`]*?go test[^`]*? -run '?([A-Za-z]+)[^`]*`")
	changeTo    = regexp.MustCompile(`cd ([a-z/]+)`)
	ofPackage   = regexp.MustCompile(`\./[a-z/]+`)
	testName    = regexp.MustCompile("`(Test[A-Za-z]+)`")
)

// TestTestsExist: a claim names the test behind it, and that test is where the page says.
func TestTestsExist(t *testing.T) {
	names := map[string][]string{} // by folder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
				folder := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), "../"))
				names[folder] = append(names[folder], m[1])
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	has := func(folder, name string) bool {
		for at, all := range names {
			for _, n := range all {
				if strings.Contains(n, name) && (folder == "" || folder == at) {
					return true
				}
			}
		}
		return false
	}
	found := 0
	for page, text := range pages(t) {
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			if found++; !has("", m[1]) {
				t.Errorf("%s: there is no test %s", page, m[1])
			}
		}
		for _, m := range testCommand.FindAllStringSubmatch(strings.ReplaceAll(text, "\n", " "), -1) {
			folder := ofPackage.FindString(m[0])
			if base := changeTo.FindStringSubmatch(m[0]); base != nil {
				folder = base[1] + "/" + folder
			}
			folder = filepath.ToSlash(filepath.Clean(folder))
			if found++; !strings.HasSuffix(m[1], "Name") && !has(folder, m[1]) {
				t.Errorf("%s: %s: there is no such test in %q", page, m[0], folder)
			}
		}
	}
	if found < 15 {
		t.Errorf("%d tests found on the pages: the patterns do not match any more", found)
	}
}
