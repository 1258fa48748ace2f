//go:build deploy

package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

// tfPlugins is a mirror of Terraform's providers, so that init needs no network.
const tfPlugins = "/opt/tf-plugins"

// userModule is a user's configuration around our module, for the emulator.
const userModule = `
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

provider "aws" {
  region                      = %[2]q
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_region_validation      = true
  skip_requesting_account_id  = true
  endpoints {
    dynamodb = %[1]q
    iam      = %[1]q
    sts      = %[1]q
  }
}

module "limits" {
  source     = %[3]q
  table_name = "tf-limits"
}
`

// TestTerraformModule formats, validates and applies the module of limitertable, and checks the
// table. A second plan changes nothing, and the table cannot be destroyed by accident.
func TestTerraformModule(t *testing.T) {
	check.Must(t, check.Err(exec.LookPath("terraform")), "the module is not tested")
	check.Must(t, check.Err(os.Stat(tfPlugins)),
		"the module is not tried, for want of a mirror of Terraform's providers")
	e := startEmulator(t)
	dir := e.folder(t, "terraform")
	try := func(args ...string) (string, error) {
		cmd := exec.Command("terraform", append([]string{"-chdir=" + dir}, args...)...)
		cmd.Env = append(e.env, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_CLI_ARGS=-no-color")
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	run := func(args ...string) string {
		t.Helper()
		said, err := try(args...)
		if err != nil {
			t.Fatalf("terraform %s: %v\n%s", strings.Join(args, " "), err, said)
		}
		return said
	}
	module := filepath.Join(e.root, "limitertable", "terraform")
	run("fmt", "-check", "-diff", module)
	text := fmt.Sprintf(userModule, e.url, region, module)
	check.Must(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o600))
	run("init", "-input=false", "-plugin-dir="+tfPlugins)
	run("validate")
	run("apply", "-input=false", "-auto-approve")
	is, err := limitertable.Describe(t.Context(), e.dynamodb(root), "tf-limits")
	check.Must(t, err)
	must := limitertable.Deployed()
	must.TTLAttribute = is.Spec.TTLAttribute // the emulator does not return it
	check.NoError(t, must.Check(is))
	if said := run("plan", "-input=false"); !strings.Contains(said, "No changes.") {
		t.Errorf("a second plan:\n%s", said)
	}
	said, err := try("destroy", "-input=false", "-auto-approve")
	if err == nil || !strings.Contains(said, "prevent_destroy") {
		t.Errorf("destroy, error %v:\n%s", err, said)
	}
}
