package archive

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// FuzzDecode: no payload causes a panic, every record is accounted for, the same payload gives the
// same objects, and keys stay inside the archive.
func FuzzDecode(f *testing.F) {
	for _, file := range []string{"testdata/records.txt", "testdata/malformed.txt"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range strings.Split(string(text), "====\n") {
			input, _, _ := strings.Cut(c, "----\n")
			for strings.HasPrefix(input, "#") {
				_, input, _ = strings.Cut(input, "\n")
			}
			f.Add([]byte(`{"Records":` + input + `}`))
		}
	}
	f.Add([]byte(`{"Records":[{"eventName":"REMOVE",` +
		`"userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},` +
		`"dynamodb":{"OldImage":{"SK":{"S":"#AUDIT#1"},"d":` + strings.Repeat(`{"L":[`, 100) + strings.Repeat(`]}`, 100) +
		`}}}]}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		b, err := Decode(payload)
		if err != nil {
			return
		}
		if n := len(b.Events) + len(b.Malformed) + b.Skipped; n != b.Records {
			t.Errorf("%d of %d records accounted for", n, b.Records)
		}
		objects := b.Objects()
		check.Equal(t, fmt.Sprint(objects), fmt.Sprint(b.Objects()), "objects differ from one call to the next")
		keys := map[string]bool{}
		for _, o := range objects {
			if keys[o.Key] {
				t.Errorf("key %q twice", o.Key)
			}
			keys[o.Key] = true
			checkKey(t, o)
			line := gunzip(t, o.Body)
			if !json.Valid(line) || bytes.IndexByte(line, '\n') != len(line)-1 {
				t.Errorf("not one JSON line: %q", line)
			}
		}
	})
}

func checkKey(t *testing.T, o Object) {
	t.Helper()
	prefix := PrefixAudit + "year="
	if o.Malformed != "" {
		prefix = PrefixMalformed
	}
	if !strings.HasPrefix(o.Key, prefix) || len(o.Key) > 1024 {
		t.Errorf("key %q", o.Key)
	}
	strange := strings.IndexFunc(o.Key, func(r rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=/.", r)
	})
	if strange >= 0 || strings.Contains(o.Key, "..") || strings.Contains(o.Key, "//") {
		t.Errorf("key %q has an unsafe part", o.Key)
	}
}

// TestArchivedValuesAreExact: the archived JSON represents every value of DynamoDB exactly.
func TestArchivedValuesAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		stored := randomValue(rng, 3)
		raw, err := json.Marshal(stored)
		check.Must(t, err)
		var v value
		check.Must(t, json.Unmarshal(raw, &v))
		p, err := v.plain()
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		line := encodeLine(p)
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.UseNumber()
		var read any
		check.Must(t, dec.Decode(&read))
		if got := unplain(read); !reflect.DeepEqual(got, any(stored)) {
			t.Fatalf("stored %s\narchived %sread back %v", raw, line, got)
		}
	}
}

// randomValue returns a value in DynamoDB's JSON, with ordered sets.
func randomValue(rng *rand.Rand, depth int) map[string]any {
	names := []string{"", "a", "é\n", tagBinary, tagMap, tagStrings, "$other"}
	nums := []any{"-0.001", "1", "12345678901234567890123456789012345678", "1E-130", "20", "3E4", "-1.5e+7"}
	pick := func(from []any) []any {
		out := slices.Clone(from[:1+rng.IntN(len(from))])
		slices.SortFunc(out, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		return out
	}
	kinds := 10
	if depth == 0 {
		kinds = 8
	}
	switch rng.IntN(kinds) {
	case 0:
		return map[string]any{"S": names[rng.IntN(len(names))]}
	case 1:
		return map[string]any{"N": nums[rng.IntN(len(nums))]}
	case 2:
		return map[string]any{"BOOL": rng.IntN(2) == 0}
	case 3:
		return map[string]any{"NULL": true}
	case 4:
		return map[string]any{"B": base64.StdEncoding.EncodeToString([]byte(names[rng.IntN(len(names))]))}
	case 5:
		return map[string]any{"SS": pick([]any{"x", "a", "ü"})}
	case 6:
		return map[string]any{"NS": pick(nums)}
	case 7:
		return map[string]any{"BS": pick([]any{"AAEqQQ==", "QSoBAA=="})}
	case 8:
		l := []any{}
		for range rng.IntN(3) {
			l = append(l, randomValue(rng, depth-1))
		}
		return map[string]any{"L": l}
	default:
		m := map[string]any{}
		for range rng.IntN(3) {
			m[names[rng.IntN(len(names))]] = randomValue(rng, depth-1)
		}
		return map[string]any{"M": m}
	}
}

// unplain converts an archived value back to the stored one.
func unplain(p any) any {
	typed := func(kind string, v any) any { return map[string]any{kind: v} }
	switch p := p.(type) {
	case string:
		return typed("S", p)
	case json.Number:
		return typed("N", p.String())
	case bool:
		return typed("BOOL", p)
	case nil:
		return typed("NULL", true)
	case []any:
		l := []any{}
		for _, v := range p {
			l = append(l, unplain(v))
		}
		return typed("L", l)
	}
	m := p.(map[string]any)
	if len(m) == 1 {
		for tag, kind := range map[string]string{tagBinary: "B", tagStrings: "SS", tagBinaries: "BS"} {
			if v, ok := m[tag]; ok {
				return typed(kind, v)
			}
		}
		if v, ok := m[tagNumbers]; ok {
			var l []any
			for _, n := range v.([]any) {
				l = append(l, n.(json.Number).String())
			}
			return typed("NS", l)
		}
		if v, ok := m[tagMap]; ok {
			m = v.(map[string]any)
		}
	}
	out := map[string]any{}
	for name, v := range m {
		out[name] = unplain(v)
	}
	return typed("M", out)
}
