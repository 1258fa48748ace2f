// Account shows the credentials and the region that a deployment would use, or how to fix it if
// there are none, before anything is built:
//
//	go run ./infra/account [the arguments that cdk will get]
//
// It looks where the cdk command-line tool looks: environment, profile (including one given by
// --profile), single sign-on, the machine's role. The only calls to AWS are those that the source
// of the credentials needs. It takes at most fifteen seconds.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	found, err := look(ctx, profile(os.Args[1:]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		cancel()
		os.Exit(1)
	}
	fmt.Println(found)
}

// profile returns the profile selected by the arguments of cdk, or "".
func profile(args []string) string {
	for i, a := range args {
		if name, ok := strings.CutPrefix(a, "--profile="); ok {
			return name
		}
		if a == "--profile" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

const (
	noCredentials = "no AWS credentials: set AWS_PROFILE, or pass CDKFLAGS=\"--profile NAME\", " +
		"or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (with single sign-on, run aws sso login first)"
	noRegion = "no AWS region: set AWS_REGION, or give the profile a region"
)

// look returns one line about the credentials and the region of the profile; "" is the default
// profile. The error names everything that is missing, and how to fix it.
func look(ctx context.Context, profile string) (string, error) {
	var options []func(*awsconfig.LoadOptions) error
	if profile != "" {
		options = append(options, awsconfig.WithSharedConfigProfile(profile))
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return "", fmt.Errorf("AWS configuration: %w", err)
	}
	var problems []error
	if cfg.Region == "" {
		problems = append(problems, errors.New(noRegion))
	}
	credentials, err := retrieve(ctx, cfg)
	if err != nil {
		problems = append(problems, fmt.Errorf("%s: %w", noCredentials, err))
	}
	if len(problems) > 0 {
		return "", errors.Join(problems...)
	}
	return fmt.Sprintf("region %s, credentials from %s", cfg.Region, credentials.Source), nil
}

func retrieve(ctx context.Context, cfg aws.Config) (aws.Credentials, error) {
	if cfg.Credentials == nil {
		return aws.Credentials{}, errors.New("no source of credentials")
	}
	return cfg.Credentials.Retrieve(ctx)
}
