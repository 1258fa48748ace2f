package archive

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// TestScripts runs testdata/*.txt. A file has cases, separated by lines "====". A case has comment
// lines, the Records of a payload, a line "----", and the result.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts found: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	check.Must(t, err)
	var out []string
	for _, c := range strings.Split(string(text), "====\n") {
		input, want, ok := strings.Cut(c, "----\n")
		if !ok {
			t.Fatalf("case without ----: %s", c)
		}
		records := input
		for strings.HasPrefix(records, "#") {
			_, records, _ = strings.Cut(records, "\n")
		}
		got := describe(t, []byte(`{"Records":`+records+`}`))
		if got != want && !*update {
			t.Errorf("%s\ngot\n%s\nwant\n%s", input, got, want)
		}
		out = append(out, input+"----\n"+got)
	}
	if *update {
		check.Must(t, os.WriteFile(file, []byte(strings.Join(out, "====\n")), 0o644))
	}
}

func describe(t *testing.T, payload []byte) string {
	t.Helper()
	b, err := Decode(payload)
	check.Must(t, err)
	var s strings.Builder
	fmt.Fprintf(&s, "records=%d events=%d malformed=%d skipped=%d\n", b.Records, len(b.Events), len(b.Malformed),
		b.Skipped)
	for _, o := range b.Objects() {
		fmt.Fprintf(&s, "%s seq=%q\n", o.Key, o.Sequence)
		line := gunzip(t, o.Body)
		if o.Malformed != "" {
			var kept struct {
				Reason string
				Record json.RawMessage
			}
			if err := json.Unmarshal(line, &kept); err != nil || kept.Reason != o.Malformed {
				t.Errorf("%s: kept with reason %q, %v, want %q", o.Key, kept.Reason, err, o.Malformed)
			}
			fmt.Fprintf(&s, "  %s\n", o.Malformed)
			continue
		}
		fmt.Fprintf(&s, "  %s", line)
	}
	return s.String()
}

func gunzip(t *testing.T, body []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(body))
	check.Must(t, err)
	line, err := io.ReadAll(r)
	check.Must(t, err)
	if !r.ModTime.IsZero() || r.Name != "" {
		t.Errorf("gzip header has a time (%v) or a name (%q)", r.ModTime, r.Name)
	}
	return line
}

func TestOtherPayloadsAreRefused(t *testing.T) {
	for _, payload := range []string{"", "null", "{}", "[]", "7", `{"Records":null}`, `{"Records":{}}`, `{"Records":[}`,
		`{"Records":[]} x`} {
		if b, err := Decode([]byte(payload)); err == nil {
			t.Errorf("Decode(%q) = %+v, want an error", payload, b)
		}
	}
}

// A batch is as old as its oldest record with a creation time, whether that is archived, malformed
// or skipped.
func TestAgeOfABatch(t *testing.T) {
	record := func(created string) string {
		return `{"eventName":"INSERT","dynamodb":{"SequenceNumber":"7","ApproximateCreationDateTime":` + created + `}}`
	}
	for _, c := range []struct {
		created []string
		want    int64 // epoch milliseconds
	}{
		{[]string{"1713200400"}, 1713200400_000},
		{[]string{"1713200402", "1713200400.5", "1713200401"}, 1713200400_500},
		{[]string{"null", "1713200400", `"x"`}, 1713200400_000},
		{[]string{"null"}, 0},
		{[]string{"0.5"}, 0},
		{[]string{"-1"}, 0},
		{[]string{"1"}, 1000},
		{[]string{"253402300799"}, 253402300799_000}, // the last second of the year 9999
		{[]string{"253402300800"}, 0},
		{[]string{"1e400"}, 0},
		{nil, 0},
	} {
		var records []string
		for _, created := range c.created {
			records = append(records, record(created))
		}
		b, err := Decode([]byte(`{"Records":[` + strings.Join(records, ",") + `]}`))
		if err != nil || b.OldestMs != c.want {
			t.Errorf("created at %q: the oldest at %d, want %d (%v)", c.created, b.OldestMs, c.want, err)
		}
	}
}

// The payload of a malformed record is stored byte for byte.
func TestMalformedKeepsItsPayload(t *testing.T) {
	const record = `{"eventName":"REMOVE","userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},` +
		`"dynamodb":{"SequenceNumber":"7","OldImage":{"SK":{"S":"#AUDIT#<1>"},"big":{"N":"1e400"},"x":{"odd":[1.50]}}}}`
	b, err := Decode([]byte(`{"Records":[` + record + `]}`))
	if err != nil || len(b.Malformed) != 1 {
		t.Fatalf("%+v, %v", b, err)
	}
	line := gunzip(t, b.Objects()[0].Body)
	if !bytes.HasSuffix(line, []byte(`,"sequence_number":"7","record":`+record+"}\n")) {
		t.Errorf("kept as %s", line)
	}
}

// Attribute names are case-sensitive: "sk" is not the key.
func TestAttributeNamesAreCaseSensitive(t *testing.T) {
	for _, other := range []string{`"sk":{"S":"#STATE"}`, `"Sk":{"N":"1"}`, `"sK":7`} {
		payload := `{"Records":[{"eventName":"REMOVE",
			"userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},
			"dynamodb":{"ApproximateCreationDateTime":1700000000,"SequenceNumber":"9","OldImage":{
				"PK":{"S":"ns/AUDIT#e"},"SK":{"S":"#AUDIT#01HX"},` + other + `,"action":{"S":"limits_set"}}}}]}`
		b, err := Decode([]byte(payload))
		if err != nil || b.Skipped != 0 || len(b.Events)+len(b.Malformed) != 1 {
			t.Errorf("%s: %d events, %d malformed, %d skipped, %v", other, len(b.Events), len(b.Malformed), b.Skipped, err)
		}
		if !strings.Contains(other, "7") && len(b.Events) != 1 {
			t.Errorf("%s: malformed %v", other, b.Malformed)
		}
	}
}
