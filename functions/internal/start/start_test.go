package start

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
)

// isFunction makes this binary the function that is to be started, one that cannot be.
const isFunction = "START_TEST_FUNCTION"

func TestMain(m *testing.M) {
	if os.Getenv(isFunction) != "" {
		Function("packer", func(getenv func(string) string, _ *slog.Logger) (any, error) {
			return nil, errors.New("BOXES=\"" + getenv("BOXES") + "\": want a number")
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
	if _, err := Config("table"); err == nil || !strings.Contains(err.Error(), "aws configuration: ") ||
		!strings.Contains(err.Error(), "AWS_MAX_ATTEMPTS") {
		t.Errorf("attempts that are no number: %v", err)
	}
}
