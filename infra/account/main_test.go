package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// clean takes away everything that the machine of the test may know.
func clean(t *testing.T) {
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
			check.Must(t, os.Unsetenv(name))
		}
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "credentials"))
}

func TestNothingIsSetUp(t *testing.T) {
	clean(t)
	_, err := look(t.Context(), "")
	if err == nil || !strings.Contains(err.Error(), noRegion) || !strings.Contains(err.Error(), noCredentials) {
		t.Errorf("error %v, want it to say how to give a region and credentials", err)
	}
}

func TestRegionAndCredentials(t *testing.T) {
	clean(t)
	t.Setenv("AWS_REGION", "eu-west-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	found, err := look(t.Context(), "")
	if err != nil || !strings.HasPrefix(found, "region eu-west-1, credentials from ") ||
		strings.Contains(found, "secret") {
		t.Errorf("%q, error %v", found, err)
	}
}

func TestProfileOfTheArguments(t *testing.T) {
	clean(t)
	file := filepath.Join(t.TempDir(), "config")
	text := "[profile limits]\nregion = ap-south-1\naws_access_key_id = id\naws_secret_access_key = secret\n"
	check.Must(t, os.WriteFile(file, []byte(text), 0o600))
	t.Setenv("AWS_CONFIG_FILE", file)
	for _, args := range [][]string{{"--require-approval", "never", "--profile", "limits"}, {"--profile=limits"}} {
		found, err := look(t.Context(), profile(args))
		if err != nil || !strings.HasPrefix(found, "region ap-south-1, ") {
			t.Errorf("%q: %q, error %v", args, found, err)
		}
	}
	check.Equal(t, profile([]string{"-c", "a=b", "--profile"}), "", "profile of arguments that end early")
}
