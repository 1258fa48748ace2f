// Package start has what the functions share before their first event. It is separate from
// internal/function because it imports the Lambda library and the AWS configuration. Package
// streams, which users build into their own programs, and the infrastructure import
// internal/function, and must not depend on these two.
package start

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
)

// Function runs the named function. build builds a handler for [lambda.Start] from the environment,
// without any calls. Function never returns: an error of build is logged and ends the process.
func Function[H any](name string, build func(getenv func(string) string, log *slog.Logger) (H, error)) {
	log := lambdacontext.NewLogger()
	h, err := build(os.Getenv, log)
	if err != nil {
		log.Error(name+" not started", "err", err)
		os.Exit(1)
	}
	lambda.Start(h)
}

// Config returns the AWS configuration of the environment, which must contain the region of the
// resource.
func Config(resource string, o ...func(*awsconfig.LoadOptions) error) (aws.Config, error) {
	cfg, err := awsconfig.LoadDefaultConfig(context.Background(), o...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("aws configuration: %w", err)
	}
	if cfg.Region == "" {
		return aws.Config{}, errors.New(`AWS_REGION="": want the region of the ` + resource)
	}
	return cfg, nil
}
