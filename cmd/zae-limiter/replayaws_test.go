package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/function"
	"github.com/zeroae/zae-limiter-go/internal/replay"
	snapshot "github.com/zeroae/zae-limiter-go/internal/usage"
)

// aStack answers as CloudFormation, Lambda and S3 do of the stack of infra/cdk. Its buckets list
// one object a page.
type aStack struct {
	*testing.T
	outputs map[string]string
	env     map[string]string // of the aggregator; nil: none
	objects map[string]string // by bucket and key, as in a URL
	refused string            // what is not allowed: a part of the URL
	failed  string            // how the functions fail
	log     string            // of the functions
	invoked []string
}

// onStack has the SDK ask a stack, which has everything that the arguments do not change.
func onStack(t *testing.T, a *aStack) aws.Config {
	t.Helper()
	anyCredentials(t)
	a.T = t
	if a.outputs == nil {
		a.outputs = map[string]string{
			"TableName": "quotas", "AggregatorFunctionName": "agg", "ArchiverFunctionName": "arch",
			"FailedRecordsBucketName": "failed", "ArchiveBucketName": "archive",
		}
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	// By name: buckets of an address of numbers have no names of their own anyway.
	t.Setenv("AWS_ENDPOINT_URL", strings.Replace(server.URL, "127.0.0.1", "localhost", 1))
	cfg, err := (&app{}).awsConfig(t.Context())
	check.Must(t, err)
	return cfg
}

func (a *aStack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	name, key, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case a.refused != "" && strings.Contains(r.Method+" "+r.URL.String()+string(body), a.refused):
		w.Header().Set("X-Amzn-Errortype", "AccessDenied")
		w.WriteHeader(http.StatusForbidden)
	case strings.Contains(string(body), "Action=DescribeStacks&StackName="):
		fmt.Fprint(w, "<DescribeStacksResponse><DescribeStacksResult><Stacks><member><Outputs>")
		for k, v := range a.outputs {
			fmt.Fprintf(w, "<member><OutputKey>%s</OutputKey><OutputValue>%s</OutputValue></member>", k, v)
		}
		fmt.Fprint(w, "</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>")
	case r.URL.Path == "/2015-03-31/functions/agg/configuration":
		out := map[string]any{}
		if a.env != nil {
			out["Environment"] = map[string]any{"Variables": a.env}
		}
		check.NoError(a, json.NewEncoder(w).Encode(out))
	case strings.HasSuffix(r.URL.Path, "/invocations"):
		a.invoked = append(a.invoked, r.URL.Path+" "+r.Header.Get("X-Amz-Log-Type")+" "+string(body))
		w.Header().Set("X-Amz-Log-Result", base64.StdEncoding.EncodeToString([]byte(a.log)))
		if a.failed != "" {
			w.Header().Set("X-Amz-Function-Error", a.failed)
		}
		fmt.Fprint(w, `{"batchItemFailures":[]}`)
	case r.Method == http.MethodGet && r.URL.Query().Get("list-type") == "2":
		a.list(w, name, r.URL.Query().Get("prefix"), r.URL.Query().Get("continuation-token"))
	case r.Method == http.MethodGet:
		fmt.Fprint(w, a.objects[name+"/"+key])
	case r.Method == http.MethodDelete:
		delete(a.objects, name+"/"+key)
		w.WriteHeader(http.StatusNoContent)
	default:
		a.Errorf("AWS is asked %s %s %s", r.Method, r.URL, body)
	}
}

// list answers with the first key after another.
func (a *aStack) list(w io.Writer, bucket, prefix, after string) {
	var all []string
	for _, at := range slices.Sorted(maps.Keys(a.objects)) {
		key, ok := strings.CutPrefix(at, bucket+"/")
		if ok && strings.HasPrefix(key, prefix) && key > after {
			all = append(all, key)
		}
	}
	fmt.Fprintf(w, "<ListBucketResult><IsTruncated>%v</IsTruncated>", len(all) > 1)
	if len(all) > 0 {
		fmt.Fprintf(w, "<NextContinuationToken>%s</NextContinuationToken><Contents><Key>%[1]s</Key></Contents>", all[0])
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

// theEnv is the environment of an aggregator.
var theEnv = map[string]string{function.EnvTableName: "quotas", function.EnvSnapshotWindows: "monthly,hourly"}

// Both buckets of the stack are replayed, with its functions and the windows that its aggregator keeps.
func TestReplayOfAStack(t *testing.T) {
	stack := &aStack{env: theEnv, objects: map[string]string{"failed/a": "", "archive/b": ""}}
	all, err := (&app{}).connect(t.Context(), onStack(t, stack), "quotas")
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	for i, want := range []struct {
		of  replay.Function
		key string
	}{{replay.Aggregator, "a"}, {replay.Archiver, "b"}} {
		r := all[i]
		windows := []snapshot.Window{snapshot.Monthly, snapshot.Hourly}
		if r.Malformed != want.of || r.Table == nil || !slices.Equal(r.Windows, windows) {
			t.Errorf("%+v", r)
		}
		for key, err := range r.Objects.Keys(t.Context(), "") {
			if key != want.key || err != nil {
				t.Errorf("%s: key %q, %v", want.of, key, err)
			}
		}
	}
	const arn = "arn:aws:lambda:us-east-1:123456789012:function:"
	for arn, want := range map[string]replay.Function{
		arn + "agg": replay.Aggregator, arn + "agg:live": replay.Aggregator, arn + "arch": replay.Archiver, arn + "a": "",
		"agg": "", "": "",
	} {
		if got, ok := all[0].Functions.Of(arn); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", arn, got, ok)
		}
	}
	stack.objects = map[string]string{"failed/" + replay.BatchPrefix + "odd": ""}
	(&shell{T: t}).says(no, "replay", "odd", "1 object, 1 left")
}

// What a stack does not have is not replayed.
func TestReplayOfAPartOfAStack(t *testing.T) {
	stack := &aStack{outputs: map[string]string{"ArchiveBucketName": "archive"}}
	all, err := (&app{}).connect(t.Context(), onStack(t, stack), "quotas")
	if err != nil || len(all) != 1 || all[0].Malformed != replay.Archiver || all[0].Windows != nil {
		t.Errorf("an archive: %v, %v", all, err)
	}
	if f, ok := all[0].Functions.Of(""); ok {
		t.Errorf("no functions: %s", f)
	}
	stack = &aStack{outputs: map[string]string{"TableName": "quotas"}}
	all, err = (&app{}).connect(t.Context(), onStack(t, stack), "mine")
	if err == nil || all != nil || !strings.Contains(err.Error(), `stack "mine" has no bucket`) {
		t.Errorf("no bucket: %v, %v", all, err)
	}
}

// Why a stack cannot be replayed is said.
func TestUnreadableStacksNameTheirCause(t *testing.T) {
	for _, c := range []struct {
		about string
		stack aStack
		want  string
	}{
		{"the stack", aStack{env: theEnv, refused: "DescribeStacks"}, `stack "mine": operation error CloudFormation`},
		{"the aggregator", aStack{env: theEnv, refused: "configuration"}, `function "agg": operation error Lambda`},
		{"an aggregator without settings", aStack{}, `environment of function "agg": `},
	} {
		all, err := (&app{}).connect(t.Context(), onStack(t, &c.stack), "mine")
		if err == nil || all != nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, errNoStack) {
			t.Errorf("%s: %v, %v", c.about, all, err)
		}
	}
}

// A function tells how many records were malformed in the last line of its metrics.
func TestReplayInvokes(t *testing.T) {
	line := func(n string) string { return `{"` + function.MetricMalformed + `":` + n + `}` + "\n" }
	stack := &aStack{log: "START\n" + line("1") + line("23") + "END\n"}
	cfg := onStack(t, stack)
	f := functions{lambda: lambda.NewFromConfig(cfg), names: map[replay.Function]string{replay.Archiver: "arch"}}
	out, n, err := f.Invoke(t.Context(), replay.Archiver, []byte("{}"))
	if err != nil || n != 23 || string(out) != `{"batchItemFailures":[]}` ||
		!slices.Equal(stack.invoked, []string{"/2015-03-31/functions/arch/invocations Tail {}"}) {
		t.Errorf("%s, %d, %v, invoked %q", out, n, err, stack.invoked)
	}
	for log, want := range map[string]int{"": -1, "nothing": -1, line("99999999999999999999"): -1, line("0"): 0} {
		stack.log = log
		if _, n, err := f.Invoke(t.Context(), replay.Archiver, nil); n != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", log, n, err, want)
		}
	}
	check.Equal(t, malformed(base64.StdEncoding.EncodeToString([]byte(line("7")))+"%"), -1, "a log that is spoilt")
	stack.log, stack.failed = line("0"), "Unhandled"
	out, n, err = f.Invoke(t.Context(), replay.Archiver, nil)
	if err == nil || out != nil || n != -1 || err.Error() != `Unhandled: {"batchItemFailures":[]}` {
		t.Errorf("a function that fails: %s, %d, %v", out, n, err)
	}
	stack.refused = "invocations"
	if out, n, err = f.Invoke(t.Context(), replay.Archiver, nil); err == nil || out != nil || n != -1 {
		t.Errorf("a function that may not be invoked: %s, %d, %v", out, n, err)
	}
}

// A bucket lists what is below a prefix, page by page, for as long as it is asked.
func TestBucketOfAStack(t *testing.T) {
	stack := &aStack{objects: map[string]string{
		"mine/a/1": "one", "mine/a/2": "two", "mine/a/3": "three", "mine/b": "", "other/a/4": "",
	}}
	cfg := onStack(t, stack)
	b := objectBucket{name: "mine", s3: s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })}
	list := func(most int) (keys []string, err error) {
		for key, err := range b.Keys(t.Context(), "a/") {
			if keys = append(keys, key); err != nil || len(keys) == most {
				return keys, err
			}
		}
		return keys, nil
	}
	for most, want := range map[int]string{9: "a/1 a/2 a/3", 2: "a/1 a/2"} {
		if keys, err := list(most); strings.Join(keys, " ") != want || err != nil {
			t.Errorf("%d keys: %q, %v", most, keys, err)
		}
	}
	if body, err := b.Get(t.Context(), "a/2"); string(body) != "two" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	if err := b.Delete(t.Context(), "a/2"); err != nil || len(stack.objects) != 4 || stack.objects["mine/a/2"] != "" {
		t.Errorf("deleted: %v, %v", stack.objects, err)
	}
	stack.refused = "mine"
	if keys, err := list(9); !slices.Equal(keys, []string{""}) || err == nil || !strings.Contains(err.Error(), `"mine"`) {
		t.Errorf("a bucket that may not be listed: %q, %v", keys, err)
	}
	if body, err := b.Get(t.Context(), "a/1"); err == nil || body != nil {
		t.Errorf("an object that may not be read: %q, %v", body, err)
	}
	if err := b.Delete(t.Context(), "a/1"); err == nil {
		t.Error("an object that may not be deleted is deleted")
	}
}

// An object that is larger than any batch is not read in part: a part would be taken for all of it.
func TestObjectsThatAreTooLarge(t *testing.T) {
	anyCredentials(t)
	size := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, bytes.NewReader(make([]byte, size)))
	}))
	defer server.Close()
	cfg, err := (&app{}).awsConfig(t.Context())
	check.Must(t, err)
	b := objectBucket{name: "given-up", s3: s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.BaseEndpoint, o.UsePathStyle = aws.String(server.URL), true
	})}
	for _, size = range []int{0, 1000, maxObject, maxObject + 1} {
		body, err := b.Get(t.Context(), "key")
		large := size > maxObject
		if (err != nil) != large || !large && len(body) != size || large && !strings.Contains(err.Error(), " 33554432 ") {
			t.Errorf("of %d bytes: %d, %v", size, len(body), err)
		}
	}
}
