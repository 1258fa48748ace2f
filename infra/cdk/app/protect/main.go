// Protect sets the stack policy: CloudFormation then refuses every update that would
// replace or delete what holds data, no matter who sends it. Its arguments are those of
// the deployment. The policy leaves out what they name as mayLose. make deploy runs it
// before the deployment, and once more, without mayLose, after it:
//
//	go run -C infra/cdk ./app/protect [-after] -- [the arguments that cdk gets]
//
// A stack that is not there yet is left alone.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/holding"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	err := run(ctx, os.Args[1:])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	after := len(args) > 0 && args[0] == "-after"
	stack, mayLose := chosen(args)
	if after {
		mayLose = nil
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	_, err = cloudformation.NewFromConfig(cfg).SetStackPolicy(ctx, &cloudformation.SetStackPolicyInput{
		StackName: aws.String(stack), StackPolicyBody: aws.String(policy(mayLose)),
	})
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "ValidationError" && !after {
		return nil // there is no such stack yet
	}
	if err != nil {
		return fmt.Errorf("stack policy of %s: %w", stack, err)
	}
	fmt.Printf("stack policy of %s: %s\n", stack, summary(mayLose))
	return nil
}

// chosen returns the name of the stack and what it may lose, as context arguments of
// the cdk command line tool say.
func chosen(args []string) (stack string, mayLose []string) {
	stack = "zae-limiter-go"
	for _, a := range args {
		pair := strings.TrimPrefix(strings.TrimPrefix(a, "--context="), "-c=")
		switch key, value, _ := strings.Cut(pair, "="); key {
		case "zae-limiter:stackName":
			stack = value
		case "zae-limiter:mayLose":
			mayLose = strings.Split(value, ",")
		}
	}
	return stack, mayLose
}

func policy(mayLose []string) string {
	type statement struct {
		Effect, Principal string
		Action, Resource  []string
	}
	statements := []statement{{"Allow", "*", []string{"Update:*"}, []string{"*"}}}
	if kept := kept(mayLose, "LogicalResourceId/"); len(kept) > 0 {
		statements = append(statements, statement{"Deny", "*", []string{"Update:Replace", "Update:Delete"}, kept})
	}
	text, err := json.Marshal(map[string]any{"Statement": statements})
	if err != nil {
		panic(fmt.Sprintf("bug: stack policy: %v", err))
	}
	return string(text)
}

func kept(mayLose []string, prefix string) (out []string) {
	for _, id := range holding.IDs() {
		if !slices.Contains(mayLose, id) {
			out = append(out, prefix+id)
		}
	}
	return out
}

func summary(mayLose []string) string {
	if kept := kept(mayLose, ""); len(kept) > 0 {
		return "no update replaces or deletes " + strings.Join(kept, ", ")
	}
	return "an update may replace or delete everything"
}
