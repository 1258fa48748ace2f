package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/zeroae/zae-limiter-go/admin"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
	"github.com/zeroae/zae-limiter-go/test/localstack/runtimeapi"
)

// The built function, as Lambda runs it, on a local DynamoDB with stored limits.
func TestBuiltFunction(t *testing.T) {
	name := engine.UniqueName("lambda-handler")
	binary := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	e := engine.ForTest(t, engine.Dynoxide)
	if _, err := limitertable.Create(t.Context(), e.DynamoDB(), name); err != nil {
		t.Fatal(err)
	}
	table, err := admin.Open(t.Context(), e.DynamoDB(), name, &admin.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := table.Register(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.SetLimits(t.Context(), admin.Scope{Resource: "reports"}, limiter.PerDay("rpm", 2)); err != nil {
		t.Fatal(err)
	}
	host, err := runtimeapi.Start(runtimeapi.Config{Binary: binary, Name: name, Env: append(e.Env(), "ZAEL_STACK="+name)})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	call := func(who string) (out events.APIGatewayV2HTTPResponse) {
		t.Helper()
		event := events.APIGatewayV2HTTPRequest{RawPath: "/report"}
		event.RequestContext.HTTP.Method = http.MethodGet
		if who != "" {
			event.RequestContext.Authorizer = &events.APIGatewayV2HTTPRequestContextAuthorizerDescription{
				JWT: &events.APIGatewayV2HTTPRequestContextAuthorizerJWTDescription{Claims: map[string]string{"sub": who}},
			}
		}
		payload, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		r, err := host.Invoke(t.Context(), payload)
		if err != nil || r.FunctionError != "" {
			t.Fatalf("%v %s %s\n%s", err, r.FunctionError, r.Payload, host.Logs())
		}
		if err := json.Unmarshal(r.Payload, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	played := false
	for caller := 0; !played; caller++ {
		played = true
		for i, want := range []int{200, 200, 429} {
			out := call(fmt.Sprint("acme", caller))
			if out.StatusCode == 200 && out.Headers["Ratelimit-Policy"] == "" && caller < 20 {
				played = false // nothing was charged: another caller
				t.Logf("played again: call %d of caller %d found the table too slow", i, caller)
				break
			}
			if out.StatusCode != want || out.Headers["Ratelimit-Policy"] != `"rpm";q=2;w=86400` {
				t.Errorf("call %d: %d %v %s", i, out.StatusCode, out.Headers, out.Body)
			}
			if (out.Headers["Retry-After"] != "") != (want == 429) {
				t.Errorf("call %d: retry after %q", i, out.Headers["Retry-After"])
			}
		}
	}
	if out := call("umbrella"); out.StatusCode != 200 {
		t.Errorf("another caller: %d", out.StatusCode)
	}
	if out := call(""); out.StatusCode != 401 {
		t.Errorf("nobody: %d", out.StatusCode)
	}
}
