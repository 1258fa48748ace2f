package start

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// isFunction makes this binary the function that is to be started, with a number of BOXES.
const isFunction = "START_TEST_FUNCTION"

func TestMain(m *testing.M) {
	if os.Getenv(isFunction) != "" {
		Function("packer", func(getenv func(string) string, _ *slog.Logger) (any, error) {
			if _, err := strconv.Atoi(getenv("BOXES")); err != nil {
				return nil, errors.New("BOXES=\"" + getenv("BOXES") + "\": want a number")
			}
			return func(what string) (string, error) { return getenv("BOXES") + " of " + what, nil }, nil
		})
	}
	os.Exit(m.Run())
}

// A function that cannot be built from its environment ends at once, and its log says why.
func TestAFunctionThatCannotStartSaysWhy(t *testing.T) {
	function := exec.Command(os.Args[0])
	function.Env = append(os.Environ(), isFunction+"=1", "BOXES=many")
	said, err := function.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
	for _, want := range []string{"packer not started", "BOXES=", "many", "want a number"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("it said\n%s\nwant %s", said, want)
		}
	}
}

// A function that can be built handles the events that Lambda has for it.
func TestAFunctionHandlesEvents(t *testing.T) {
	said := make(chan string, 1)
	first := true
	lambda := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			text, err := io.ReadAll(r.Body)
			check.NoError(t, err)
			said <- string(text)
		case first:
			first = false
			w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10))
			_, _ = io.WriteString(w, `"books"`)
		default:
			w.WriteHeader(http.StatusGone) // it ends
		}
	}))
	defer lambda.Close()
	function := exec.Command(os.Args[0])
	function.Env = append(os.Environ(), isFunction+"=1", "BOXES=3",
		"AWS_LAMBDA_RUNTIME_API="+strings.TrimPrefix(lambda.URL, "http://"))
	log, _ := function.CombinedOutput()
	select {
	case got := <-said:
		check.Equal(t, got, `"3 of books"`)
	default:
		t.Errorf("no answer; it said\n%s", log)
	}
}

// The region comes from the environment, and its absence is said by name. What a function sets besides
// is in the configuration.
func TestTheConfigurationNeedsARegion(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_REGION", "eu-central-1")
	cfg, err := Config("table", awsconfig.WithAppID("limits"))
	if err != nil || cfg.Region != "eu-central-1" || cfg.AppID != "limits" {
		t.Errorf("region %q, id %q, %v", cfg.Region, cfg.AppID, err)
	}
	t.Setenv("AWS_REGION", "")
	_, err = Config("table")
	if want := `AWS_REGION="": want the region of the table`; err == nil || err.Error() != want {
		t.Errorf("no region: %v, want %s", err, want)
	}
	t.Setenv("AWS_REGION", "eu-central-1")
	t.Setenv("AWS_MAX_ATTEMPTS", "many")
	err = check.Err(Config("table"))
	check.Says(t, err, "aws configuration: ")
	check.Says(t, err, "AWS_MAX_ATTEMPTS")
}
