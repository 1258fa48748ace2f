package main

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

// A flag without a value, as from a variable that is not set, does not stand for everybody, for another
// table, or for no ID. Where it is accepted, the help says what it means.
func TestEmptyFlagsAreRefused(t *testing.T) {
	s := newShell(t)
	for command, flags := range map[string]string{
		"limits set -y rpm=5": "-e -r", "limits delete -y": "-e -r", "limits get": "-e -r", "limits list": "-e -r",
		"limits reach": "-e -r", "disable -y": "-e -r", "enable -y": "-e -r", "usage": "-e -r --window",
		"audit": "-e -r", "thresholds": "-e -r", "load --limit rpm=5": "-r --prefix --report",
		"credit acme gpt-4 rpm=5": "--id", "raise acme gpt-4 rpm=5 --for 1": "--id",
		"entity create bot": "--parent --metadata", "entity move bot --no-parent": "--parent",
		"serve --http= --tls-cert x --tls-key x": "--tls-client-ca", "cost --rate 1": "--template", "replay": "--stack",
		"namespace list": "--endpoint-url --region --table --namespace --principal",
	} {
		for _, flag := range strings.Fields(flags) {
			_, errs, code := s.end(append(strings.Fields(command), flag, "")...)
			if code != wrong || !strings.Contains(errs, ` is "", want a value`) {
				t.Errorf("zae-limiter %s %s '' ended in %d: %s", command, flag, code, errs)
			}
		}
	}
	s.says(2, "serve --http= --config=", "there is nothing to serve")
}

// What AWS lacks is said, and a command that needs none of it goes on.
func TestWithoutAWS(t *testing.T) {
	noAWS(t)
	s := &shell{T: t}
	t.Setenv("AWS_REGION", "us-east-1")
	s.says(1, "limits list", "No AWS credentials were found")
	s.says(0, "", "Available Commands")
	s.says(0, "completion bash", "zae-limiter")
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	t.Setenv("AWS_REGION", "")
	s.says(1, "limits list --region us-east-1 --endpoint-url http://127.0.0.1:1", "Is DynamoDB reachable?")
}

// Every command takes as many arguments as its line of usage has, and no others.
func TestArgumentsAreCounted(t *testing.T) {
	noAWS(t)
	s := &shell{T: t}
	for _, tt := range []struct {
		command     string
		least, most int
	}{
		{"status", 0, 0}, {"limits get -e a", 0, 0}, {"cost --rate 1", 0, 0}, {"enable -e a", 0, 0}, {"replay", 0, 0},
		{"cascade -e a", 1, 1}, {"entity move --no-parent", 1, 1}, {"table policy", 1, 1}, {"plan", 1, 1},
		{"peek", 2, 2}, {"reset", 2, 100}, {"limits set -e a", 1, 100}, {"credit", 3, 100}, {"raise --end", 3, 100},
	} {
		for n := range 6 {
			args := strings.Fields(tt.command + strings.Repeat(" rpm=1", n))
			_, errs, code := s.end(args...)
			refused := code == wrong && strings.Contains(errs, count(n, "arguments")+", want: zae-limiter ")
			if refused != (n < tt.least || n > tt.most) {
				t.Errorf("zae-limiter %v: %d\n%s", args, code, errs)
			}
		}
	}
}

// AWS is asked where the flags say, and emulators that send no checksums are not complained about.
func TestWhereAWSIs(t *testing.T) {
	anyCredentials(t)
	for _, c := range []struct {
		app       app
		region    string
		checksums bool
	}{
		{app{}, "us-east-1", true}, {app{region: "eu-west-1"}, "eu-west-1", true},
		{app{endpoint: "http://127.0.0.1:1"}, "us-east-1", false},
	} {
		db, err := c.app.database(t.Context())
		check.Must(t, err)
		o := db.Options()
		if o.Region != c.region || aws.ToString(o.BaseEndpoint) != c.app.endpoint ||
			o.DisableValidateResponseChecksum == c.checksums {
			t.Errorf("%+v: region %s, at %q, without checksums %v", c.app, o.Region, aws.ToString(o.BaseEndpoint),
				o.DisableValidateResponseChecksum)
		}
	}
}

// Only localhost and loopback addresses are this machine.
func TestOnlyLoopbackIsThisMachine(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"http://127.0.0.1:8000": true, "http://localhost:1": true, "http://[::1]:1": true,
		"https://dynamodb.eu-west-1.amazonaws.com": false, "http://192.168.0.1:8000": false, "": false, ":": false,
	} {
		check.Equal(t, loopback(&endpoint), want, "%q", endpoint)
	}
	if loopback(nil) {
		t.Error("the endpoint of AWS is this machine")
	}
}

// What is asked of AWS counts as progress.
func TestRequestsAreProgress(t *testing.T) {
	onAWS(t, &anAWS{There: true})
	a := &app{progress: startProgress(nil, false)}
	db, err := a.database(t.Context())
	if err == nil {
		_, err = limitertable.Describe(t.Context(), db, "zae-limiter")
	}
	if n := a.progress.requests.Load(); err != nil || n == 0 {
		t.Errorf("%d requests, %v", n, err)
	}
}

// Each shell has its script.
func TestCompletion(t *testing.T) {
	s := &shell{T: t}
	for _, name := range []string{"bash", "zsh", "fish", "powershell"} {
		s.says(0, "completion "+name, "zae-limiter")
	}
}

// Sister commands take the same flags: one of the same name has the same letter and takes the
// same, and what is about an entity or a resource names it with -e or -r, unless it always
// needs both.
func TestSistersTakeTheSameFlags(t *testing.T) {
	known := map[string]*pflag.Flag{}
	leaf(func(path string, c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if k := known[f.Name]; k != nil && (k.Shorthand != f.Shorthand || k.Value.Type() != f.Value.Type()) {
				t.Errorf("zae-limiter %s: --%s is -%s %s, and -%s %s elsewhere", path, f.Name, f.Shorthand,
					f.Value.Type(), k.Shorthand, k.Value.Type())
			}
			known[f.Name] = f
		})
		words := strings.Fields(c.Use)
		for i, w := range words {
			if i > 0 && strings.Contains(w, "ENTITY") && !strings.HasPrefix(words[i-1], "-") &&
				!strings.HasSuffix(words[i-1], "-e") && (i+1 == len(words) || words[i+1] != "RESOURCE") {
				t.Errorf("zae-limiter %s: %q names an entity without -e", path, c.Use)
			}
		}
		for a, b := range map[string]string{"from": "to", "to": "from"} {
			if c.Flags().Lookup(a) != nil && c.Flags().Lookup(b) == nil {
				t.Errorf("zae-limiter %s: --%s and no --%s", path, a, b)
			}
		}
	})
}
